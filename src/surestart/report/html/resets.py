"""When this query began anew: remedies that were applied, and every query id that the history or a sink remembers.

    2026-06-01 10:00  began under another query id   07cfe5c4… up to batch 41 -> 3b53f874…   run history
    2026-06-01 09:58  reset of raw-ingest, digest …                                          run history
    2026-05-31 23:12  last batch of a former id      07cfe5c4… up to batch 41                sink /data/raw

A new query id that no remedy explains is a checkpoint that somebody deleted, moved or lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surestart.report.html.markup import Child, Limits, Markup, moment, signed_word, table, tag
from surestart.report.html.report import CheckpointReport

_REMEDY = "remedy"


@dataclass(frozen=True)
class Reset:
    """at: ms since 1970, None where only the order is known.
    explained: a remedy did it, or was it itself."""

    at: int | None
    what: str
    former: str
    last_batch: int | None
    now: str
    known_from: str
    explained: bool


def resets_section(report: CheckpointReport, prefix: str, level: int, limits: Limits) -> Markup:
    resets = [*read_resets(report.runs), *_of_sinks(report)]
    if not resets:
        asked = "the run history" if report.runs else ""
        sinks = "the sinks" if report.sinks else ""
        told = " and ".join(part for part in (asked, sinks) if part)
        if not told:
            return tag(
                "p", {"class": "note"}, "Neither a run history nor a sink was read, so earlier starts are unknown."
            )
        return tag("p", None, f"Under one query id since it first ran, as far as {told} reach back.")
    resets.sort(key=lambda reset: (reset.at is not None, reset.at or 0), reverse=True)
    rows: list[Sequence[Child]] = [
        [
            moment(reset.at),
            signed_word(reset.what, "note" if reset.explained else "look"),
            f"{reset.former}, up to batch {reset.last_batch}"
            if reset.former and reset.last_batch is not None
            else reset.former,
            reset.now,
            reset.known_from,
        ]
        for reset in resets
    ]
    return table(
        "Where this query began anew, newest first",
        ["When", "What", "Former query id", "Query id since", "Known from"],
        rows,
        table_id=f"{prefix}resets-table",
        limit=limits.rows,
        text_limit=limits.text,
        left_out="entries",
    )


def read_resets(runs: Sequence[Mapping[str, object]]) -> list[Reset]:
    """From one query's runs, oldest first, as plain values."""
    found: list[Reset] = []
    former, last_batch, remedied = "", None, False
    for run in runs:
        if run.get("event") == _REMEDY:
            accepted = run.get("accepted")
            name = str(accepted[0]) if isinstance(accepted, list | tuple) and accepted else "a remedy"
            ended = _whole(run.get("ended_at"))
            found.append(
                Reset(ended, f"{name}: {run.get('outcome') or 'not ended'}", former, last_batch, "", _RUNS, True)
            )
            remedied = True
            continue
        query_id = str(run.get("query_id") or "")
        if query_id and former and query_id != former:
            what = "began under another query id" + ("" if remedied else ", and no remedy tells why")
            found.append(Reset(_whole(run.get("started_at")), what, former, last_batch, query_id, _RUNS, remedied))
            last_batch = None
        if query_id:
            former, remedied = query_id, False
        batch = _whole(run.get("last_batch"))
        last_batch = batch if batch is not None else last_batch
    return found


_RUNS = "run history"


def _of_sinks(report: CheckpointReport) -> list[Reset]:
    """Former identities that a sink still knows: they outlive the run history and the checkpoint."""
    query_id = report.inspection.checkpoint.query_id
    known = {reset.former for reset in read_resets(report.runs)}
    found = []
    for answer in report.inspection.sinks:
        evidence = report.sinks.get(answer.sink.target)
        if evidence is None:
            continue
        queries = {commit.mark.query for commit in evidence.commits if commit.mark and commit.mark.query_id == query_id}
        query = report.query or next(iter(queries), "")
        for identity, batch in evidence.identities(query, answer.sink.step).items():
            if identity in known or identity == query_id:
                continue
            commit = evidence.last_commit_of(answer.sink.app_id(identity))
            at = commit.timestamp if commit else evidence.transactions[answer.sink.app_id(identity)].last_updated
            what = "last batch of another query id" if query else "last batch of another writer"
            found.append(Reset(at, what, identity, batch, "", f"sink {answer.sink.target}", False))
    return found


def _whole(value: object) -> int | None:
    return value if type(value) is int else None
