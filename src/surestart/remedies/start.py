"""How a stage begins after a remedy: kept in the run history with the remedy, heeded by the runner at every start.

    below       Kafka: the first offset of each partition
    version     Delta: the first version of the input table; None: what the table holds, then what comes
    kept        rows of `surestart_kept` under this digest and stage: positions that are in the output already and are
                left out of what the source gives
    skip        after an undo: commits of the input table up to `until` are the undone remedy's own, and rows whose
                `column` lies in [first, last] were written by it; both are passed over

Spark heeds a start position on a new checkpoint only, and a file source knows none: the positions left out are what
makes a start exact, whatever the source gives again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from surestart.checkpoint.positions import DeltaPosition
from surestart.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.declaration import SourceDeclaration
from surestart.environment import Environment
from surestart.registry.read_runs import read_runs
from surestart.registry.run_record import REMEDY
from surestart.sources.delta import DeltaSource
from surestart.sources.kafka import KafkaSource
from surestart.stage import Source, Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEPT = "surestart_kept"
KEPT_COLUMNS = "digest STRING, stage STRING, source STRING, partition INT, below BIGINT"
# So many pairs go into the query as literals, which Parquet and Delta skip files by; more are joined.
_LITERALS = 200


@dataclass(frozen=True)
class Start:
    digest: str
    stage: str
    below: Mapping[str, int] | None = None
    version: int | None = None
    kept: bool = False
    skip_column: str = ""
    skip_first: int = 0
    skip_last: int = 0
    skip_until: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_start(spark: SparkSession, environment: Environment, query: str) -> Start | None:
    """How the newest remedy of this query said that it begins; None where there was none."""
    remedies = [run for run in read_runs(environment, spark) if run.query == query and run.event == REMEDY]
    body = remedies[-1].declaration.get("start") if remedies else None
    return Start(**body) if isinstance(body, Mapping) else None


@dataclass(frozen=True)
class StartedSource:
    """The stage's own source, read from where the remedy said that it begins."""

    source: Source
    start: Start
    checkpoint: str

    def read_stream(self, spark: SparkSession, environment: Environment) -> DataFrame:
        held = read_checkpoint(self.checkpoint, entries=1)
        return _read_from_start(spark, environment, self.source, self.start, held)

    def read_batch(self, spark: SparkSession, environment: Environment) -> DataFrame:
        return self.source.read_batch(spark, environment)

    def declare(self, environment: Environment) -> SourceDeclaration:
        return self.source.declare(environment)


def after_remedy(spark: SparkSession, environment: Environment, stage: Stage) -> Stage:
    """The stage as its newest remedy lets it begin; the stage itself where there was none."""
    start = read_start(spark, environment, environment.query_name(stage.name))
    if start is None:
        return stage
    return replace(stage, source=StartedSource(stage.source, start, environment.checkpoint(stage.name)))


def _read_from_start(
    spark: SparkSession, environment: Environment, source: Source, start: Start, checkpoint: Checkpoint
) -> DataFrame:
    passing = _passes_undone_commits(start, checkpoint)
    if isinstance(source, KafkaSource) and start.below is not None:
        source = replace(source, starting_offsets=json.dumps(dict(start.below)))
    elif isinstance(source, DeltaSource):
        options = dict(source.options)
        if start.version is not None:
            options["startingVersion"] = str(start.version)
        if passing:
            options["skipChangeCommits"] = "true"
        source = replace(source, options=tuple(options.items()))
    rows = source.read_stream(spark, environment)
    return leave_out(spark, environment, start if passing else replace(start, skip_until=None), rows)


def _passes_undone_commits(start: Start, checkpoint: Checkpoint) -> bool:
    """Only until the stream is past them: a change that comes later is somebody else's and has to stop it."""
    if start.skip_until is None:
        return False
    ends = [one.end.version for one in checkpoint.sources if isinstance(one.end, DeltaPosition)]
    return not ends or min(ends) <= start.skip_until


def leave_out(spark: SparkSession, environment: Environment, start: Start, rows: DataFrame) -> DataFrame:
    """The rows of the stream without those that the output has already, or that an undone remedy wrote."""
    from pyspark.sql import functions as F

    if start.skip_until is not None:
        # The marker row of an undo has no position.
        rows = rows.where(F.col("source").isNotNull())
        if start.skip_column:
            written = F.unix_micros(F.col(start.skip_column))
            rows = rows.where(~written.between(start.skip_first, start.skip_last))
    if not start.kept:
        return rows
    return without_kept(rows, read_kept(spark, environment, start.digest, start.stage))


def read_kept(spark: SparkSession, environment: Environment, digest: str, stage: str) -> DataFrame:
    from pyspark.sql import functions as F

    from surestart.sinks.delta_table import read_table

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
