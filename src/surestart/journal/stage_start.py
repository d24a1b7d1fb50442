"""How a stage begins after a remedy: in the journal with the remedy, obeyed by the runner at every start.

    below       Kafka: the first offset of each partition
    version     Delta: the first version of the input table; None: what the table holds, then what comes
    kept        rows of `surestart_kept` under this digest and stage: positions that are in the output already and are
                left out of what the source gives

The newest remedy that stands decides, in the order of the journal; one that was undone is as if it had never been.

Spark uses a start position on a new checkpoint only, and a file source knows none: the positions left out are what
makes a start exact, whatever the source gives again. What undos have taken back from the input table is passed over
whatever the start (taken_back).

How a stage reads its input table at its next start: what the runner does, said in advance to the doctor and the
gate, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment
from surestart.facts.checkpoint.stage_progress import StageProgress, read_stage_progress
from surestart.facts.delta.commit_notes import step_id
from surestart.facts.delta.unread_commits import PassedCommits, TableReading
from surestart.journal.commit_once import append_pass_over_note
from surestart.journal.journal import DONE, TABLE, UNDOING, WITHDRAWN, Journal, read_journals
from surestart.journal.taken_back import (
    InputStand,
    PassedOver,
    find_passed_over,
    find_unnoted,
    has_read,
    read_stand,
    read_taken_back,
)
from surestart.library_types import DataFrame, SparkSession
from surestart.sources.abilities import table_of, topic_of
from surestart.sources.kafka import KafkaSource
from surestart.stage import Source, Stage

KEPT = "surestart_kept"
KEPT_COLUMNS = "digest STRING, stage STRING, source STRING, partition INT, below BIGINT"
# So many pairs go into the query as literals, which Parquet and Delta skip files by; more are joined.
_LITERALS = 200


@dataclass(frozen=True)
class StageStart:
    digest: str
    stage: str
    below: Mapping[str, int] | None = None
    version: int | None = None
    kept: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse_start(body: Mapping[str, Any]) -> StageStart:
    """The start that the journal has. Former versions also wrote there what is passed over; that is ignored."""
    known = {one.name for one in fields(StageStart)}
    return StageStart(**{name: value for name, value in body.items() if name in known})


def find_start(journals: Iterable[Journal], stage: str) -> StageStart | None:
    """How the newest remedy that stands said that this stage begins; None for none."""
    for journal in reversed(tuple(journals)):
        if journal.state in (UNDOING, WITHDRAWN):
            continue
        for entry in reversed(journal.entries):
            if entry.state == DONE and stage in entry.facts.get("starts", {}):
                return parse_start(entry.facts["starts"][stage])
    return None


@dataclass(frozen=True)
class StartedSource:
    """The stage's own source, read from where the remedy said that it begins, without what undos have taken back."""

    source: Source
    start: StageStart
    checkpoint: str
    passed_over: PassedOver = field(default_factory=PassedOver)

    def read_stream(self, spark: SparkSession, environment: Environment) -> DataFrame:
        source, start, kept = self.source, self.start, self.start.kept
        topic, table = topic_of(source), table_of(source)
        if topic is not None and start.below is not None:
            source = replace(topic, starting_offsets=json.dumps(dict(start.below)))
        elif table is not None:
            # What is added below the marks later, by a backfill of the input, is new to the output.
            kept = kept and in_first_snapshot(read_stage_progress(self.checkpoint))
            options = self.passed_over.options(dict(table.options))
            if start.version is not None:
                options["startingVersion"] = str(start.version)
            source = replace(table, options=tuple(options.items()))
        rows = source.read_stream(spark, environment)
        return without_kept(rows, read_kept(spark, environment, start.digest, start.stage)) if kept else rows

    def read_batch(self, spark: SparkSession, environment: Environment) -> DataFrame:
        return self.source.read_batch(spark, environment)

    def as_kafka_source(self) -> KafkaSource | None:
        return topic_of(self.source)

    def declare(self, environment: Environment) -> SourceDeclaration:
        return self.source.declare(environment)


def after_remedy(spark: SparkSession, environment: Environment, stage: Stage) -> Stage:
    """The stage as the remedies that stand and those that were undone let it begin; the stage itself where there were
    none. What it begins to pass over is noted in the journal. Raises Refused where it cannot begin without losing or
    doubling rows."""
    journals = read_journals(environment, spark)
    if not journals:
        return stage
    found, checkpoint, passed_over = find_start(journals, stage.name), environment.checkpoint(stage.name), PassedOver()
    source = table_of(stage.source)
    if source is not None:
        table, options = source.find_input_table(environment), dict(source.options)
        stand = read_begin_stand(checkpoint, found)
        passed_over = find_passed_over(spark, environment, journals, stage.name, table, options, stand)
        for passing in find_unnoted(stand, passed_over.taken_back):
            append_pass_over_note(spark, environment.table(TABLE), passing)
    if found is None and not passed_over.taken_back:
        return stage
    start = found or StageStart("", stage.name)
    return replace(stage, source=StartedSource(stage.source, start, checkpoint, passed_over))


def read_begin_stand(checkpoint: str, start: StageStart | None) -> InputStand | None:
    """Where a stage with this start stands in its input table; None: it begins with what the table holds."""
    if start is None:
        return read_stand(checkpoint, None)
    return read_stand(checkpoint, start.version, f"{start.stage} as of {start.digest}")


def in_first_snapshot(progress: StageProgress) -> bool:
    return progress.delta is None or progress.delta.initial_snapshot


def read_kept(spark: SparkSession, environment: Environment, digest: str, stage: str) -> DataFrame:
    from pyspark.sql import functions as F

    from surestart.spark.delta_table import read_table

    kept = read_table(spark, environment.table(KEPT))
    mine = (F.col("digest") == digest) & (F.col("stage") == stage)
    return kept.where(mine).select("source", "partition", "below")


def without_kept(rows: DataFrame, kept: DataFrame) -> DataFrame:
    """Rows at or above their partition's `below`, and those of partitions or files that are not in `kept`."""
    from pyspark.sql import functions as F

    few = kept.limit(_LITERALS + 1).collect()
    if len(few) <= _LITERALS:
        for row in few:
            here = (F.col("source") == row["source"]) & (F.col("partition") == row["partition"])
            rows = rows.where(~(here & (F.col("offset") < row["below"])))
        return rows
    marks = F.broadcast(kept.withColumnsRenamed({"source": "k_source", "partition": "k_partition"}))
    same = (F.col("source") == F.col("k_source")) & (F.col("partition") == F.col("k_partition"))
    return rows.join(marks, same & (F.col("offset") < F.col("below")), "left_anti")


def former_ids(journals: Iterable[Journal], stage: str, query_id: str) -> tuple[str, ...]:
    """The present id first, then the one that the checkpoint had before it was rewound, and so on."""
    former = {
        str(entry.facts["query_id"]): str(entry.facts["former"])
        for journal in journals
        for entry in journal.entries
        if entry.state == DONE and entry.step == step_id("rewind", stage) and entry.facts.get("query_id")
    }
    found = [query_id]
    while (one := former.get(found[-1])) and one not in found:
        found.append(one)
    return tuple(found)


def next_reading(environment: Environment, stage: Stage, journals: Sequence[Journal]) -> TableReading | None:
    """None when it reads no table. As `surestart.journal.stage_start` tells Spark."""
    source = table_of(stage.source)
    if source is None:
        return None
    start, options = find_start(journals, stage.name), dict(source.options)
    if start is not None and start.version is not None:
        options["startingVersion"] = str(start.version)
    known = read_taken_back(journals, source.find_input_table(environment).name)
    stand = read_begin_stand(environment.checkpoint(stage.name), start) if known else None
    passed = [
        PassedCommits(
            one.before, one.version, one.digest, one.step, has_read=stand is not None and has_read(stand, one)
        )
        for one in known
    ]
    return TableReading(tuple(options.items()), tuple(passed))
