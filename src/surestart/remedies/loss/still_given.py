"""What the first stage of a plan will be given again, and what not: asked of its source, row by row.

Kafka   earliest <= offset < end, in the same topic; of a compacted one the records that are really there
files   the file is as it was read: its time, and as many bytes as its rows make. One that is not is read
Delta   the row's position is in the input table
else    the rows that the source gives now; of one that gives no positions nobody can tell
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from surestart.environment import Environment
from surestart.errors import CannotTell
from surestart.facts.delta.pinned import first_line, reading_errors
from surestart.facts.kafka.evidence import KafkaEvidence
from surestart.history.describe_run import named
from surestart.library_types import DataFrame, SparkSession
from surestart.remedies.basis.chain import POSITION, Link, Output
from surestart.remedies.basis.position_sets import not_in
from surestart.remedies.basis.same_topic import describe_other_topic
from surestart.sources.abilities import folder_of, topic_of
from surestart.sources.files import FileSource, file_listing
from surestart.sources.kafka import KafkaSource
from surestart.spark.delta_table import read_columns, read_table
from surestart.spark.every_line import large_side
from surestart.spark.session import runs_on_databricks
from surestart.typed import surestart
from surestart.words.spark_errors import is_condition

# What a table may have kept of the file that a row came from.
EVIDENCE = ("source_time", "payload")
_NAMED, _FILES = 1000, 100_000


@dataclass(frozen=True)
class SourceGives:
    """topic_id: of the topic that the stage has read from; "": unknown.
    as_read: source, partition, last: of the files that are as the stage has read them, up to that line."""

    spark: SparkSession
    environment: Environment
    link: Link
    topic_id: str = ""
    evidence: KafkaEvidence | None = None
    as_read: DataFrame | None = None
    gives_all: bool = False

    @property
    def label(self) -> str:
        return self.link.stage.source.declare(self.environment).target

    def lost(self, rows: DataFrame) -> DataFrame | None:
        """Of rows with a position: those that will not come again. None: every one will."""
        source = self.link.stage.source
        topic, folder = topic_of(source), folder_of(source)
        if topic is not None:
            return self._not_in_topic(rows, topic)
        if folder is not None:
            return self._not_in_files(rows, folder)
        if self.link.input is not None:
            if read_columns(self.spark, self.link.input) is None:
                return rows
            return not_in(rows, read_table(self.spark, self.link.input))
        try:
            given = source.read_batch(self.spark, self.environment)
        except reading_errors() as problem:
            raise _unread(self.label, problem, self.environment) from problem
        return not_in(rows, given) if set(POSITION) <= set(given.columns) else rows

    def describe(self, groups: Sequence[Any]) -> tuple[str, bool]:
        """Why the lost rows cannot come again, and whether because the topic is another one. groups: source, partition,
        n and last of each partition or file."""
        topic, evidence = topic_of(self.link.stage.source), self.evidence
        if topic is not None and evidence is not None:
            marks = {row["partition"]: row["last"] + 1 for row in groups if row["source"] == topic.topic}
            why = describe_other_topic(evidence, self.topic_id, marks)
            if why:
                return why, True
            ranges = ", ".join(f"{one.partition} from {one.earliest}" for one in evidence.partitions[:6])
            compacted = ", without those that compaction has removed" if _is_compacted(evidence) else ""
            return f"{topic.topic} has offsets of partition {ranges} on{compacted}", False
        if folder_of(self.link.stage.source) is not None:
            places = f"{len(groups)} file{'' if len(groups) == 1 else 's'}"
            return f"{places} in {self.environment.landing} are gone, or not what was read", False
        if self.link.input is not None:
            return f"{self.link.input.name} no longer has them", False
        return f"whether {self.label} gives them again cannot be told, or it does not", False

    def _not_in_topic(self, rows: DataFrame, source: KafkaSource) -> DataFrame:
        from pyspark.sql import functions as F

        evidence = self.evidence
        assert evidence is not None
        same = evidence.exists and (not self.topic_id or evidence.topic_id == self.topic_id)
        has = F.lit(False)
        for one in evidence.partitions if same else ():
            in_range = (F.col("offset") >= one.earliest) & (F.col("offset") < one.end)
            has = has | ((F.col("partition") == one.partition) & in_range)
        has = F.coalesce((F.col("source") == source.topic) & has, F.lit(False))
        lost = rows.where(~has)
        if not same or not _is_compacted(evidence):
            return lost
        # Compaction takes records out of the middle, and no number of the cluster says how many.
        try:
            gone = not_in(rows.where(has), source.read_batch(self.spark, self.environment, evidence))
        except reading_errors() as problem:
            raise _unread(source.topic, problem, self.environment) from problem
        return lost if gone is None else lost.unionAll(gone.select(*lost.columns))

    def _not_in_files(self, rows: DataFrame, source: FileSource) -> DataFrame | None:
        from pyspark.sql import functions as F

        if self.as_read is not None:
            known = F.broadcast(self.as_read.toDF("k_source", "k_partition", "k_last"))
            same = (F.col("source") == F.col("k_source")) & (F.col("partition") == F.col("k_partition"))
            rows = rows.join(known, same & (F.col("offset") <= F.col("k_last")), "left_anti")
        judged = _judge_files(self, source, rows).where("not as_read").collect()
        if not judged:
            return None
        spark, place = self.spark, "source STRING"
        gone = spark.createDataFrame([(row["source"],) for row in judged if not row["there"]], place)
        other = [row["source"] for row in judged if row["there"]]
        # Rows without a file name belong to no file.
        lost = _of_files(rows, gone).unionAll(rows.where("source IS NULL"))
        if not other:
            return lost
        names = sorted({name.rsplit("/", 1)[-1] for name in other})
        lines = source.read_batch(spark, self.environment, names if len(names) <= _NAMED else ())
        altered = _of_files(rows, spark.createDataFrame([(name,) for name in other], place))
        marks = list(POSITION)
        if "payload" in rows.columns:
            # In the form in which the stage writes it, which may be another one.
            lines, marks = self.link.stage.transform(lines), [*POSITION, "_content"]
            altered, lines = (some.withColumn("_content", F.xxhash64("payload")) for some in (altered, lines))
        missing = altered.join(large_side(lines.select(*marks)), marks, "left_anti")
        return lost.unionAll(missing.select(*rows.columns))


def _of_files(rows: DataFrame, files: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.join(F.broadcast(files), "source", "left_semi").select(*rows.columns)


def read_giving(spark: SparkSession, environment: Environment, link: Link, topic_id: str = "") -> SourceGives:
    """What the source will give. It is asked once, however many tables of the plan depend on it."""
    giving = SourceGives(spark, environment, link, topic_id)
    topic, folder = topic_of(link.stage.source), folder_of(link.stage.source)
    if topic is not None:
        from surestart.facts.kafka.evidence import read_kafka_evidence

        return replace(giving, evidence=read_kafka_evidence(topic.bootstrap, topic.topic, topic.security))
    if folder is not None:
        rows = read_row_positions(spark, link.outputs)
        if rows is not None:
            judged = _judge_files(giving, folder, rows)
            as_read = judged.where("as_read").select("source", "partition", "last")
            files = judged.limit(_FILES + 1).collect()
            if len(files) > _FILES:
                return replace(giving, as_read=as_read, gives_all=judged.where("NOT as_read").isEmpty())
            same = [(row["source"], row["partition"], row["last"]) for row in files if row["as_read"]]
            # Computed once and kept: otherwise each table of the plan would read all rows of this one again.
            as_read = spark.createDataFrame(same, as_read.schema)
            return replace(giving, as_read=as_read, gives_all=len(same) == len(files))
    return giving


def read_row_positions(spark: SparkSession, outputs: Sequence[Output]) -> DataFrame | None:
    """Position of each row of these tables, and what all of them tell of the file that it came from. None: there is no
    such table with positions."""
    kinds = [(output, read_columns(spark, output.table) or {}) for output in outputs]
    placed = [(output, columns) for output, columns in kinds if set(POSITION) <= columns.keys()]
    told = [name for name in EVIDENCE if all(name in columns for _, columns in placed)]
    rows = None
    for output, _ in placed:
        some = read_table(spark, output.table).select(*POSITION, *told)
        rows = some if rows is None else rows.unionAll(some)
    return rows


def _judge_files(giving: SourceGives, source: FileSource, rows: DataFrame) -> DataFrame:
    """One row per file of these rows: source, partition, last; there, and as_read: nothing about it has changed."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    timed, whole = ("source_time" in rows.columns), ("payload" in rows.columns)
    facts = [
        F.count("*").alias("n"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        (F.min("source_time") if timed else F.lit(None)).cast("timestamp").alias("least"),
        (F.max("source_time") if timed else F.lit(None)).cast("timestamp").alias("greatest"),
        (F.sum(F.octet_length("payload")) if whole else F.lit(None)).cast("bigint").alias("bytes"),
    ]
    files = rows.groupBy("source", "partition").agg(*facts)
    options, on_databricks = dict(source.options), runs_on_databricks()
    try:
        listed = file_listing(giving.spark, giving.environment.landing, on_databricks, options)
    except AnalysisException as problem:
        if not is_condition(problem, frozenset({"PATH_NOT_FOUND"})):
            raise
        listed = giving.spark.createDataFrame([], "source STRING, changed TIMESTAMP, length BIGINT")
    # A line end follows every line, or every one but the last.
    sized = "n = last + 1 AND first = 0 AND length - bytes BETWEEN n - 1 AND n"
    as_read = F.expr(f"coalesce(partition = 0 AND least = changed AND greatest = changed AND {sized}, false)")
    return files.join(listed, "source", "left").select(
        "source", "partition", "last", F.col("length").isNotNull().alias("there"), as_read.alias("as_read")
    )


def _is_compacted(evidence: KafkaEvidence) -> bool:
    """Also where the cluster does not say what it removes."""
    return evidence.cleanup_policy != "delete"


def _unread(label: str, problem: Exception, environment: Environment) -> CannotTell:
    return CannotTell(
        f"{label} could not be read: {first_line(problem)}",
        meaning="Whether it still has the rows that would be removed cannot be told. Nothing was changed.",
        next=surestart("doctor", place=named(environment)),
        do_not="remove the rows by hand.",
        code="SourceUnread",
    )
