"""replay: process again from a batch, a time or named positions, or from where the output ends if the checkpoint is
gone.

    --from-batch N       what the output held before batch N stays
    --from-time T        what it held before the first batch that was written at T or later
    --from-positions …   {"sensor": {"0": 1200}}: per topic or file and partition, the first offset to read again
    --from-output        all that the output holds completely stays; for a checkpoint that is gone or cannot be trusted
    (nothing)            the same, where the checkpoint is gone
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from surestart.environment import Environment, Table
from surestart.errors import CannotTell, Refused, UsageError
from surestart.facts.checkpoint.positions import DeltaPosition
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.delta import history_evidence, read_history
from surestart.facts.delta.commit import Commit
from surestart.facts.delta.commit_notes import read_remedy_note
from surestart.facts.evidence.sink_evidence import is_query_id, without_undone
from surestart.history.describe_run import named, plan_command
from surestart.journal.journal import read_journals
from surestart.journal.stage_start import former_ids
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Chain, Link
from surestart.remedies.basis.plan import Plan
from surestart.remedies.basis.preconditions import read_link, read_table_facts
from surestart.remedies.basis.rows_that_stay import ALL_OF, PROCESSED, StayRule, find_stay_marks, read_at
from surestart.remedies.planning.estimate import describe_cheaper, size_of_tables
from surestart.remedies.planning.make_plan import plan_in_place, refuse_without_positions
from surestart.remedies.planning.rewind_back import copied_by_rewind
from surestart.remedies.planning.wanted import Request
from surestart.sources.abilities import folder_of
from surestart.typed import surestart


@dataclass(frozen=True)
class ReplayFrom:
    """At most one of them is given."""

    batch: int | None = None
    time: int | None = None
    positions: Mapping[str, Mapping[str, int]] | None = None
    output: bool = False


def plan_replay(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, begin: ReplayFrom, request: Request
) -> Plan:
    link = chain.link(stage)
    if not link.outputs and not link.keyed:
        where = ", ".join(own.label for own in link.own_sinks) or "PostgreSQL"
        raise Refused(
            f"{link.query} writes every row to {where} and to no Delta table",
            meaning="Which rows it had written at some moment is kept nowhere. Nothing was planned.",
            next=plan_command(environment, "reset", stage, note="all of it, from the beginning"),
            code="DatabaseOnly",
        )
    if begin.batch is not None or begin.time is not None:
        rule, line = _before(spark, environment, link, begin)
    elif begin.positions is not None:
        refuse_without_positions(spark, environment, link)
        rule = _everything(spark, link, at_most=begin.positions)
        refuse_unknown_positions(
            environment, begin.positions, _marks(spark, environment, replace(rule, at_most={})), link
        )
        line = f"Read again from {json.dumps(begin.positions)}; other partitions and files stay as they are."
    else:
        checkpoint = read_checkpoint(link.checkpoint, entries=1)
        if checkpoint.latest_planned is not None and not begin.output:
            raise UsageError(
                f"from where to replay {stage} is not said, and its "
                f"checkpoint is there (next batch {checkpoint.next_batch})",
                meaning="Without a batch, a time or positions only a lost checkpoint is replaced: by what the output "
                "holds. Nothing was planned.",
                next=plan_command(environment, "replay", stage, "--from-output", note="or --from-batch N"),
            )
        refuse_without_positions(spark, environment, link)
        rule = _everything(spark, link)
        line = "The stage begins where its output ends, computed from the rows it holds, not from its checkpoint."
        lines = [line, *describe_begins(spark, environment, link, rule)]
        return plan_in_place(spark, environment, chain, "replay", stage, rule, request, lines)
    return plan_in_place(
        spark,
        environment,
        chain,
        "replay",
        stage,
        rule,
        request,
        [line, *_or_rewind(spark, environment, chain, stage, begin)],
    )


def _or_rewind(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, begin: ReplayFrom
) -> Iterator[str]:
    copied = copied_by_rewind(spark, environment, chain, stage, begin.batch - 1) if begin.batch else None
    if begin.batch and copied is not None:
        other = plan_command(environment, "rewind", stage, "--to-batch", begin.batch - 1)
        searched = sum(size_of_tables(read_link(link, spark, with_files=False)) for link in chain.below(stage))
        yield describe_cheaper(other, copied=copied, searched=searched, rewinds=False)


def _marks(spark: SparkSession, environment: Environment, rule: StayRule) -> dict[tuple[str, int], int]:
    rows = find_stay_marks(spark, environment, rule).collect()
    return {(row["source"], row["partition"]): row["below"] for row in rows}


def refuse_unknown_positions(
    environment: Environment,
    positions: Mapping[str, Mapping[str, int]],
    held: Mapping[tuple[str, int], int],
    link: Link,
) -> None:
    """Raises where a name has no row, or none of them has one at or above its offset: a typing mistake would retire
    the checkpoint and replay nothing. held: (topic or file, partition) -> the offset behind its last row."""
    pairs = {(source, int(part)): offset for source, parts in positions.items() for part, offset in parts.items()}
    strange = [f"{source} partition {part}" for source, part in pairs if (source, part) not in held]
    if not strange and any(offset < held[pair] for pair, offset in pairs.items()):
        return
    some = sorted(held.items())[:4]
    known = ", ".join(f"{source} partition {part} up to {below - 1}" for (source, part), below in some)
    more = f" and {len(held) - 4} more" if len(held) > 4 else ""
    what = f"has no row of {', '.join(strange[:4])}" if strange else "ends before each of the offsets that are named"
    raise UsageError(
        f"--from-positions: the output of {link.query} {what}; it holds {known or 'nothing'}{more}",
        meaning="Nothing would be read again. Nothing was planned.",
        next=plan_command(environment, "replay", link.name, "--from-output", note="or positions that it holds"),
        code="PositionsUnknown",
    )


def _nothing_since(environment: Environment, link: Link, begin: ReplayFrom) -> UsageError:
    when = datetime.datetime.fromtimestamp((begin.time or 0) / 1000, datetime.UTC)
    return UsageError(
        f"no batch of {link.query} was written at {when:%Y-%m-%d %H:%M:%S} UTC or later"
        if link.outputs
        else f"{link.query} writes no Delta table, whose log would say when a batch was written",
        meaning="That time does not tell from where to read again. Nothing was planned.",
        next=surestart("history", link.name, place=named(environment), note="its batches, for --from-batch"),
        code="NothingSince",
    )


def _everything(spark: SparkSession, link: Link, at_most: Mapping[str, Mapping[str, int]] | None = None) -> StayRule:
    """What the output holds now. Of a stage that reads a table: up to the first row of the table that it has not."""
    named = {source: dict(parts) for source, parts in (at_most or {}).items()}
    held = {output.table.name: read_table_facts(spark, output.table).version for output in link.outputs}
    if link.input is None:
        return StayRule(ALL_OF, held=held, at_most=named)
    given = {link.input.name: read_table_facts(spark, link.input).version}
    if link.keyed:
        # A keyed table does not say which rows it has seen; merging one again changes nothing.
        return StayRule(ALL_OF, held=given, at_most=named)
    return StayRule(PROCESSED, held=held, given=given, at_most=named)


def _before(spark: SparkSession, environment: Environment, link: Link, begin: ReplayFrom) -> tuple[StayRule, str]:
    if link.keyed:
        return _before_keyed(spark, environment, link, begin)
    versions, there, batch = {}, {}, begin.batch
    identity = read_checkpoint(link.checkpoint, entries=1).query_id or ""
    for output in link.outputs:
        first = _first_commit(spark, environment, link, output.table, begin, identity)
        facts = read_table_facts(spark, output.table)
        there[output.table.name] = facts.version
        versions[output.table.name] = facts.version if first is None else first.rows_at - 1
        batch = batch if first is None else first.batch_id
    if batch is None:
        raise _nothing_since(environment, link, begin)
    if link.input is None:
        return StayRule(ALL_OF, held=versions, capped=there), f"Read again from batch {batch} on."
    given = {link.input.name: read_table_facts(spark, link.input).version}
    return StayRule(PROCESSED, held=versions, given=given, capped=there), f"Read again from batch {batch} on."


def _before_keyed(spark: SparkSession, environment: Environment, link: Link, begin: ReplayFrom) -> tuple[StayRule, str]:
    """The checkpoint says which version of the input the batch began at."""
    assert link.input is not None
    checkpoint = read_checkpoint(link.checkpoint)
    batch = begin.batch
    if batch is None:
        identity = checkpoint.query_id or ""
        first = (
            _first_commit(spark, environment, link, link.outputs[0].table, begin, identity) if link.outputs else None
        )
        if first is None:
            raise _nothing_since(environment, link, begin)
        batch = first.batch_id
    entry = checkpoint.offsets.get((batch or 0) - 1)
    ends = [source.position for source in getattr(entry, "sources", ())]
    if batch == 0:
        versions = -1
    elif ends and isinstance(ends[0], DeltaPosition):
        versions = ends[0].version - 1
    else:
        raise CannotTell(
            f"offsets/{(batch or 0) - 1} of {link.query} is not there any more",
            meaning="Where its input stood before that batch is not known.",
            next=plan_command(environment, "reset", link.name),
            code="BatchPurged",
        )
    given = {link.input.name: read_table_facts(spark, link.input).version}
    rule = StayRule(PROCESSED, held={link.input.name: versions}, given=given)
    return rule, f"Read again from batch {batch} on."


def _first_commit(
    spark: SparkSession, environment: Environment, link: Link, table: Table, begin: ReplayFrom, identity: str
) -> Commit | None:
    """The first commit of the batch, or the first of a batch at that time or later; by the checkpoint's identity, or
    by the newest where the checkpoint is gone."""
    commits = _history(spark, table)
    own = [
        commit
        for commit in without_undone(commits)
        if commit.mark is not None
        and commit.mark.query == link.query
        and is_query_id(commit.query_id)
        # The mark of the batch that a rewind went back to brings no row.
        and read_remedy_note(commit.user_metadata) is None
    ]
    if begin.time is not None:
        return next((commit for commit in own if (commit.timestamp or 0) >= begin.time), None)
    newest = identity or (own[-1].query_id if own else "")
    ids = former_ids(read_journals(environment, spark), link.name, newest)
    batches = [commit.batch_id for commit in own if commit.query_id in ids]
    found = [commit for commit in own if commit.query_id in ids and (commit.batch_id or 0) >= (begin.batch or 0)]
    if not batches or (begin.batch or 0) > max(number or 0 for number in batches) + 1:
        raise UsageError(
            f"batch {begin.batch} is not in {table.name}: the query's commits there are "
            + (f"{batches[0]} to {batches[-1]}" if batches else "none"),
            meaning="Nothing was planned.",
            next=surestart("history", link.name, place=named(environment)),
        )
    if found and found[0].batch_id != begin.batch:
        raise CannotTell(
            f"the log of {table.name} has no commit of batch {begin.batch} any more; the oldest is batch {batches[0]}",
            meaning="What the table held before that batch cannot be told from its log.",
            next=plan_command(environment, "reset", link.name, note="or replay --from-positions"),
            code="CommitGone",
        )
    return found[0] if found else None


def _history(spark: SparkSession, table: Table) -> tuple[Commit, ...]:
    if table.path:
        return read_history(table.path, limit=100_000)
    return tuple(history_evidence(spark.sql(f"DESCRIBE HISTORY {table.sql}").collect()).commits)


def parse_positions(text: str) -> dict[str, dict[str, int]]:
    """{"topic or file": {"partition": first offset to read again}}."""
    try:
        body = json.loads(text)
        found = {str(source): {str(int(part)): parts[part] for part in parts} for source, parts in body.items()}
    except (ValueError, AttributeError, TypeError, RecursionError) as problem:
        raise _not_positions(text) from problem
    if not found or any(type(offset) is not int or offset < 0 for parts in found.values() for offset in parts.values()):
        raise _not_positions(text)
    return found


def _not_positions(text: str) -> UsageError:
    return UsageError(
        f"{text[:80]!r} is not a set of positions",
        meaning="Nothing was planned.",
        next=surestart(
            "plan", "replay", "raw-ingest", "--from-positions", '{"sensor": {"0": 1200}}', "-o", "plan.json"
        ),
    )


_SHOWN = 20


def describe_begins(spark: SparkSession, environment: Environment, link: Link, rule: StayRule) -> list[str]:
    """One line with the first offset of each partition or file, and one with what is missing below."""
    marks = find_stay_marks(spark, environment, rule).orderBy("source", "partition").collect()
    lines = [_begins(link, marks)]
    if link.input is None and link.outputs:
        lines.append(_missing(spark, environment, link, rule))
    return lines


def _begins(link: Link, marks: list[Any]) -> str:
    if not marks:
        return f"The output of {link.query} holds nothing: it begins at the beginning of its source."
    shown = ", ".join(f"{row['source']}:{row['partition']} at {row['below']:,}" for row in marks[:_SHOWN])
    more = f", and {len(marks) - _SHOWN:,} more" if len(marks) > _SHOWN else ""
    return f"{link.query} begins, in each partition or file: {shown}{more}; in any other at its first row."


def _missing(spark: SparkSession, environment: Environment, link: Link, rule: StayRule) -> str:
    """Rows that are missing below the highest offset of the output. The stage will not read them, even if the source
    has them."""
    from pyspark.sql import functions as F

    rows = None
    for name, version in sorted(rule.held.items()):
        some = read_at(spark, environment, name, version).select("source", "partition", "offset")
        rows = some if rows is None else rows.unionAll(some)
    assert rows is not None
    # A file is read from its first line; what a topic held below the first row may have been gone already.
    first = F.lit(0) if folder_of(link.stage.source) else F.min("offset")
    counted = (
        rows.distinct()
        .groupBy("source", "partition")
        .agg((F.max("offset") + 1 - first - F.count("*")).alias("missing"))
    )
    found = counted.agg(
        F.sum("missing").alias("n"), F.sum((F.col("missing") > 0).cast("int")).alias("places")
    ).collect()[0]
    if not found["n"]:
        return "0 rows of the output are at or above it, and none below it is missing."
    return (
        f"0 rows of the output are at or above it; {found['n']:,} offsets below, of {found['places']:,} partitions "
        "or files, are not in it, and are not read by this (transaction markers and compacted records of Kafka count "
        f"too). Afterwards: {plan_command(environment, 'backfill', link.name)}"
    )
