"""Lines of a plan for a stage that goes on after its own output: where it begins, and which rows below that it will not
read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surestart.environment import Environment
from surestart.history.describe_run import plan_command
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.rows_that_stay import StayRule, find_stay_marks, read_at
from surestart.sources.files import FileSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    return f"{link.query} begins, of each partition or file: {shown}{more}; of any other at its first row."


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
    first = F.lit(0) if isinstance(link.stage.source, FileSource) else F.min("offset")
    counted = (
        rows.distinct()
        .groupBy("source", "partition")
        .agg((F.max("offset") + 1 - first - F.count("*")).alias("missing"))
    )
    found = counted.agg(
        F.sum("missing").alias("n"), F.sum((F.col("missing") > 0).cast("int")).alias("places")
    ).collect()[0]
    if not found["n"]:
        return "0 rows of the output lie at or above there, and none below is missing in it."
    return (
        f"0 rows of the output lie at or above there; {found['n']:,} offsets below, of {found['places']:,} partitions "
        "or files, are not in it, and are not read by this (transaction markers and compacted records of Kafka count "
        f"too). Afterwards: {plan_command(environment, 'backfill', link.name)}"
    )
