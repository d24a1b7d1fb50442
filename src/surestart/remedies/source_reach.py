"""What a stage's source can still give: rows that it has no more must not be removed from the output, or are lost.

files    the landing folder lists the file           Kafka    earliest <= offset < end, in the same topic
Delta    the row is in the input table
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.large_side import large_side
from surestart.remedies.chain import Link
from surestart.remedies.kept import removed_rows
from surestart.remedies.same_topic import describe_other_topic
from surestart.sinks.delta_table import read_columns, read_table
from surestart.sources.files import FileSource
from surestart.sources.kafka import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Loss:
    """rows: that would be removed and that nobody can bring again. marks: what to keep so that none is removed; empty
    where none can be kept. other_topic: the Kafka topic is not the one that they came from."""

    rows: int = 0
    why: str = ""
    marks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    other_topic: bool = False


def find_loss(
    spark: SparkSession, environment: Environment, link: Link, kept: DataFrame, recorded_topic_id: str = ""
) -> Loss:
    """Of the rows of the stage's first table or tables that would go: those that its source no longer has."""
    if not link.outputs and link.databases:
        from surestart.remedies.database_loss import find_database_loss

        return find_database_loss(
            spark, link, kept, lambda rows: loss_of(spark, environment, link, rows, recorded_topic_id)
        )
    rows = _going(spark, link, kept)
    return Loss() if rows is None else loss_of(spark, environment, link, rows, recorded_topic_id)


def loss_of(
    spark: SparkSession, environment: Environment, link: Link, rows: DataFrame, recorded_topic_id: str = ""
) -> Loss:
    """Of rows (source, partition, offset) that the stage has written: those that its source no longer has."""
    source = link.stage.source
    if isinstance(source, KafkaSource):
        return _by_kafka(rows, source, recorded_topic_id)
    if isinstance(source, FileSource):
        return _by_files(spark, environment, rows)
    if link.input is not None:
        return _by_table(spark, link, rows)
    return Loss()


def _going(spark: SparkSession, link: Link, kept: DataFrame) -> DataFrame | None:
    found = None
    for output in link.outputs:
        if read_columns(spark, output.table) is None:
            continue
        rows = removed_rows(read_table(spark, output.table).select("source", "partition", "offset"), kept)
        found = rows if found is None else found.unionAll(rows)
    return found


def _by_kafka(rows: DataFrame, source: KafkaSource, recorded_topic_id: str) -> Loss:
    from pyspark.sql import functions as F

    from surestart.sources.kafka_evidence import read_kafka_evidence

    evidence = read_kafka_evidence(source.bootstrap, source.topic, source.security)
    same = not recorded_topic_id or evidence.topic_id == recorded_topic_id
    there = {one.partition: (one.earliest, one.end) for one in evidence.partitions} if same else {}
    has = F.lit(False)
    for partition, (first, end) in there.items():
        has = has | ((F.col("partition") == partition) & (F.col("offset") >= first) & (F.col("offset") < end))
    lost = rows.where(~((F.col("source") == source.topic) & has))
    found = lost.groupBy("source", "partition").agg(F.count("*").alias("n"), F.max("offset").alias("last")).collect()
    marks: dict[str, dict[str, int]] = {}
    for row in found:
        marks.setdefault(row["source"], {})[str(row["partition"])] = int(row["last"]) + 1
    lost_marks = {int(part): mark for part, mark in marks.get(source.topic, {}).items()}
    why = describe_other_topic(evidence, recorded_topic_id, lost_marks)
    if why:
        return Loss(sum(row["n"] for row in found), why, {}, other_topic=True)
    ranges = ", ".join(f"{partition} from {first}" for partition, (first, _) in sorted(there.items())[:6])
    why = f"{source.topic} has offsets of partition {ranges} on"
    return Loss(sum(row["n"] for row in found), why, marks)


def _by_files(spark: SparkSession, environment: Environment, rows: DataFrame) -> Loss:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        there = reader.load(environment.landing).select(F.col("path").alias("source"))
    except AnalysisException as problem:
        if problem.getCondition() != "PATH_NOT_FOUND":
            raise
        there = spark.createDataFrame([], "source STRING")
    lost = rows.join(there, "source", "left_anti").groupBy("source", "partition")
    found = lost.agg(F.count("*").alias("n"), F.max("offset").alias("last")).collect()
    marks = {row["source"]: {str(row["partition"]): int(row["last"]) + 1} for row in found}
    return Loss(
        sum(row["n"] for row in found),
        f"{len(found)} files are no longer in {environment.landing}" if found else "",
        marks,
    )


def _by_table(spark: SparkSession, link: Link, rows: DataFrame) -> Loss:
    assert link.input is not None
    if read_columns(spark, link.input) is None:
        count = rows.count()
    else:
        there = read_table(spark, link.input).select("source", "partition", "offset")
        count = rows.join(large_side(there), ["source", "partition", "offset"], "left_anti").count()
    return Loss(count, f"{link.input.name} has them no more" if count else "")
