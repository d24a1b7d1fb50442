"""backfill: a hole in a stage's output is filled by a bounded job under its own identity, while the stream goes on.

    gaps that the certificate finds ── narrowed by --range or by time ──> ranges of positions to write

Only rows that the stage has passed and that are missing in its output are written: what it has not read yet, it will
bring itself. The stages below read the new rows like any others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from surestart.environment import Environment
from surestart.errors import CannotTell, Refused, UsageError
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.history.describe_run import named
from surestart.history.run_table import read_runs
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.backfill_target import refuse_unknown_sinks, refuse_unread_begin
from surestart.remedies.basis.chain import Chain, Link
from surestart.remedies.basis.plan import Effect, Plan, Step
from surestart.remedies.basis.position_sets import Range, inside, joined, read_range_rows
from surestart.remedies.count.certificate import certify
from surestart.remedies.count.counts import Gap, StageCount
from surestart.remedies.planning.estimate import CERTIFY, run_steps
from surestart.remedies.planning.wanted import Request
from surestart.spark.delta_table import read_columns, read_table
from surestart.typed import PLAN_FILE, surestart

_TIME = "source_time"
_RANGE = re.compile(r"(?P<source>.+):(?P<partition>\d+):(?P<first>\d+)-(?P<last>\d+)")


_OF_KEYS = (
    "One row is kept per key: a row of these ranges is written where its key has none, an older one, or other values. "
    "Rows that came from nowhere are not removed."
)


@dataclass(frozen=True)
class ArrivalTime:
    """When the rows arrived at their source, in milliseconds; from `first`, before `last`."""

    first: int | None = None
    last: int | None = None


def read_ranges(texts: Sequence[str]) -> tuple[Range, ...]:
    found = []
    for text in texts:
        match = _RANGE.fullmatch(text)
        if match is None or int(match["first"]) > int(match["last"]):
            raise UsageError(
                f"--range {text!r} is not SOURCE:PARTITION:FIRST-LAST",
                meaning="Which rows are meant is not clear. Nothing was planned.",
                next=surestart("plan", "backfill", "raw-ingest", "--range", "sensor:0:1200-1299", "-o", "plan.json"),
            )
        found.append(Range(match["source"], int(match["partition"]), int(match["first"]), int(match["last"])))
    return tuple(found)


def plan_backfill(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    stage: str,
    ranges: Sequence[Range],
    between: ArrivalTime,
    request: Request,
) -> Plan:
    link = chain.link(stage)
    refuse_unknown_sinks(link, environment)
    refuse_unread_begin(spark, environment, chain, stage)
    # This stage alone: counting the others would take their time and change nothing.
    counts = certify(spark, environment, Chain((link,))).stages
    _refuse_untold(link, environment, counts[0])
    wanted = joined(narrow([gap for one in counts for gap in one.gaps], ranges))
    if between != ArrivalTime():
        wanted = _of_that_time(spark, environment, chain, stage, wanted, between)
    _refuse_doubling(spark, environment, chain, stage, wanted)
    rows = _rows_of(wanted)
    action = "merge rows" if link.keyed else "add rows"
    return Plan(
        remedy="backfill",
        stage=stage,
        method="append",
        **request.of_plan(environment),
        touched=(stage,),
        # The stage goes on meanwhile; only its identity must be the one whose gaps were counted.
        preconditions={stage: {"query_id": read_checkpoint(link.checkpoint, entries=1).query_id}},
        steps=_steps(spark, environment, chain, stage, wanted, request) if wanted else (),
        effects=tuple(Effect(name, action, rows) for name in _targets(link)),
        statements=tuple(_describe(link, counts, wanted)),
    )


def _refuse_untold(link: Link, environment: Environment, counted: StageCount) -> None:
    """Raises where nobody knows what the stage's Delta tables lack."""
    if counted.cannot_tell:
        why = counted.problem or f"of {counted.counts.undecided:,} nobody knows whether the stage has passed them"
        raise CannotTell(
            f"what {link.query} lacks cannot be told: {why}",
            meaning="A backfill writes what is missing and nothing else. Nothing was planned.",
            next=surestart("verify", place=named(environment)),
            code="GapsUnknown",
        )


def _describe(link: Link, counts: Sequence[StageCount], wanted: Sequence[Range]) -> Iterator[str]:
    if not wanted:
        yield f"Nothing is missing in the output of {link.query} there."
    else:
        yield (
            f"{len(wanted)} ranges, at most {_rows_of(wanted):,} rows, "
            f"that {link.query} has passed and its output has not."
        )
        complete = all(one.gaps_complete for one in counts)
        more = "" if complete else f" These are the newest {len(counts[0].gaps)} gaps; there are more: plan again."
        yield f"They are written under an identity of their own; {link.query} may go on meanwhile.{more}"
        if link.keyed:
            yield _OF_KEYS
    # The gaps of a database are known only while no batch is in flight; those of the Delta table beside it, always.
    for one in counts:
        if one.cannot_tell:
            yield (
                f"What {' and '.join(one.outputs)} lacks cannot be told now ({one.problem or 'a batch is in flight'}): "
                "it gets the rows of these ranges, and no others."
            )


def _steps(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    stage: str,
    wanted: Sequence[Range],
    request: Request,
) -> tuple[Step, ...]:
    ranges = [[one.source, one.partition, one.first, one.last] for one in wanted]
    what = f"write {_rows_of(wanted):,} missing rows of {len(wanted)} ranges"
    write = Step.of("backfill", stage, what, stage, {"ranges": ranges})
    if not request.run:
        return (write,)
    below = run_steps(chain.below(stage)[1:], environment, read_runs(environment, spark))
    return (write, *below, CERTIFY)


def _rows_of(wanted: Sequence[Range]) -> int:
    return sum(one.last - one.first + 1 for one in wanted)


def _refuse_doubling(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, wanted: Sequence[Range]
) -> None:
    """Raises where a backfill would double rows further down. If somebody removed rows from this output alone, a stage
    below that appends has already passed them on, and would do so again."""
    for link in chain.below(stage)[1:]:
        if link.keyed or link.upstream != stage or not wanted:
            continue
        tables = [output.table for output in link.outputs if read_columns(spark, output.table) is not None]
        there = sum(inside(spark, read_table(spark, table), wanted).count() for table in tables)
        if there:
            raise Refused(
                f"{there:,} of the rows that {stage} lacks are in the output of {link.query}",
                meaning=f"They were removed from the output of {stage} after {link.query} had read them. Written "
                "again, they are new rows to it, and come twice. Nothing was planned.",
                next=surestart("plan", "reset", stage, place=named(environment), more=PLAN_FILE),
                do_not="write them into the table yourself.",
                code="BackfillWouldDouble",
            )


def _targets(link: Link) -> list[str]:
    return [*(output.table.name for output in link.outputs), *(f"postgres {sink.target}" for sink in link.databases)]


def narrow(gaps: Sequence[Gap], ranges: Sequence[Range]) -> list[Range]:
    """What is missing and was named; all that is missing where nothing was named."""
    if not ranges:
        return [Range(gap.source, gap.partition, gap.first, gap.last) for gap in gaps]
    found = []
    for gap in gaps:
        for one in ranges:
            first, last = max(gap.first, one.first), min(gap.last, one.last)
            if (gap.source, gap.partition) == (one.source, one.partition) and first <= last:
                found.append(Range(gap.source, gap.partition, first, last))
    return found


def _of_that_time(
    spark: SparkSession,
    environment: Environment,
    chain: Chain,
    stage: str,
    wanted: Sequence[Range],
    between: ArrivalTime,
) -> list[Range]:
    from pyspark.sql import functions as F

    rows = _timed(spark, environment, chain, stage, wanted)
    if rows is None:
        raise UsageError(
            f"the rows that {stage} reads have no time of arrival",
            meaning="A range of time cannot be looked up. Nothing was planned.",
            next=surestart("plan", "backfill", stage, "--range", "SOURCE:PARTITION:FIRST-LAST", "-o", "plan.json"),
        )
    moment = F.unix_millis("source_time")
    if between.first is not None:
        rows = rows.where(moment >= between.first)
    if between.last is not None:
        rows = rows.where(moment < between.last)
    positions = sorted(tuple(row) for row in rows.select("source", "partition", "offset").collect())
    found: list[Range] = []
    for source, partition, offset in positions:
        if found and (found[-1].source, found[-1].partition, found[-1].last + 1) == (source, partition, offset):
            found[-1] = Range(source, partition, found[-1].first, offset)
        else:
            found.append(Range(source, partition, offset, offset))
    return found


def _timed(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, wanted: Sequence[Range]
) -> DataFrame | None:
    """Rows with these positions and the time at which they arrived: of what the stage reads, or of the first table
    above it that has kept the time. A row keeps its position from one table to the next."""
    rows = read_range_rows(spark, environment, chain.link(stage).stage, wanted)
    above = stage
    while _TIME not in rows.columns:
        above = chain.link(above).upstream
        table = chain.link(above).input if above else None
        if table is None or read_columns(spark, table) is None:
            return None
        rows = inside(spark, read_table(spark, table), wanted)
    return rows
