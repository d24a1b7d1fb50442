"""What a stream that is begun anew from batch N does to each of its sinks, counted where the sink can be counted.

A new checkpoint has a new query id and counts its batches from 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from surestart.declaration import SinkDeclaration
from surestart.environment import Environment
from surestart.errors import SurestartError
from surestart.facts.delta import Commit
from surestart.facts.evidence.file_sink import FILE_LOG
from surestart.facts.evidence.read_sinks import read_sink
from surestart.facts.evidence.session_evidence import read_sinks_by_session
from surestart.facts.evidence.sink_evidence import SinkEvidence, app_ids, batch_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows_again(
    spark: SparkSession | None, environment: Environment, sinks: Iterable[SinkDeclaration], query_id: str, batch: int
) -> list[str]:
    """One line for each sink: which rows come twice, or not at all."""
    lines = [f"{one.target}: {_told(spark, one, query_id, batch)}" for one in sinks]
    return lines or ["No sink is declared: whether rows come twice or not at all cannot be told."]


def _told(spark: SparkSession | None, sink: SinkDeclaration, query_id: str, batch: int) -> str:
    try:
        by_session = read_sinks_by_session(spark, [sink]) if spark is not None and not sink.path else {}
        held = by_session.get(sink.target) or read_sink(sink, count_rows=False, query_id=query_id)
    except SurestartError as error:
        return f"cannot be told: {error.what}"
    if held.problem:
        return f"cannot be told: {held.problem}"
    if held.batches is not None or held.source == FILE_LOG:
        return _by_number(held)
    if sink.identity == "constant":
        return _of_constant(sink, held)
    if not held.asked:
        keys = f"rows are matched by {', '.join(sink.keys)} and change nothing" if sink.keys else ""
        return keys or f"keeps no record of batches: what batch {batch} and later ones wrote comes twice, uncounted"
    return _of_query(sink, held, query_id, batch)


def _by_number(held: SinkEvidence) -> str:
    last = held.batches.last if held.batches is not None else None
    if last is None:
        return "holds no batch: nothing comes twice"
    return (
        f"knows batches by number alone and holds 0..{last}: it drops the first {last + 1} batches of a new "
        "checkpoint, so their rows do not come at all. Give the new stream a folder of its own"
    )


def _of_constant(sink: SinkDeclaration, held: SinkEvidence) -> str:
    found = held.transactions.get(sink.constant)
    if found is None:
        return f"knows no batch under {sink.constant!r}: what is there comes twice, uncounted"
    return (
        f"holds batches up to {found.version} under the constant {sink.constant!r}: it drops the first "
        f"{found.version + 1} batches of a new checkpoint, so their rows do not come at all. Give the new stream "
        "another txnAppId"
    )


def _of_query(sink: SinkDeclaration, held: SinkEvidence, query_id: str, batch: int) -> str:
    ours = {name: one.version for name, one in held.transactions.items() if name.partition(":")[0] == query_id}
    if not ours:
        return f"names no batch of this query: what batch {batch} and later ones wrote comes twice, uncounted"
    newest = max(ours.values())
    if newest < batch - 1:
        return f"holds batches up to {newest}: those of {newest + 1}..{batch - 1} do not come at all"
    if newest < batch:
        return f"holds batches up to {newest}: no row comes twice"
    if sink.keys:
        return f"batches {batch}..{newest} come again and are matched by {', '.join(sink.keys)}: they change nothing"
    rows = _rows(held.commits, set(ours), batch, newest)
    counted = f"{rows:,} rows" if rows is not None else "rows that its commits do not count"
    return f"holds batches {batch}..{newest} of this query: {counted} come twice"


def _rows(commits: Iterable[Commit], names: set[str], batch: int, newest: int) -> int | None:
    """None where not every batch has a commit that says how many rows it wrote."""
    rows, seen = 0, set[int]()
    for commit in commits:
        for name in names & app_ids(commit):
            number = batch_of(commit, name)
            if number is not None and number >= batch:
                if commit.output_rows is None:
                    return None
                rows += commit.output_rows
                seen.add(number)
                break
    return rows if newest in seen and min(seen) <= batch else None
