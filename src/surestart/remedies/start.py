"""How a stage begins after a remedy: in the journal with the remedy, heeded by the runner at every start.

    below       Kafka: the first offset of each partition
    version     Delta: the first version of the input table; None: what the table holds, then what comes
    kept        rows of `surestart_kept` under this digest and stage: positions that are in the output already and are
                left out of what the source gives
    windows     after undos: commits of the input table up to `until` are the undone remedies' own, and rows whose
                `column` lies in [first, last] were written under them; both are passed over

Spark heeds a start position on a new checkpoint only, and a file source knows none: the positions left out are what
makes a start exact, whatever the source gives again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment
from surestart.remedies.journal import DONE, UNDONE, Journal, read_journals
from surestart.remedies.reach import Reach, read_reach
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
class Window:
    """until: the version of the RESTORE. column "": nothing was written meanwhile."""

    until: int
    column: str = ""
    first: int = 0
    last: int = -1


@dataclass(frozen=True)
class Start:
    digest: str
    stage: str
    below: Mapping[str, int] | None = None
    version: int | None = None
    kept: bool = False
    windows: tuple[Window, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse_start(body: Mapping[str, Any]) -> Start:
    windows = tuple(Window(**window) for window in body.get("windows") or ())
    return Start(**{**body, "windows": windows})


def find_start(journals: Iterable[Journal], stage: str, before: int | None = None) -> Start | None:
    """How the newest remedy or undo, or the newest before that time, said that this stage begins; None for none."""
    starts = [
        (entry.at, entry.facts["starts"][stage])
        for journal in journals
        for entry in journal.entries
        if (before is None or entry.at < before)
        and entry.state in (DONE, UNDONE)
        and stage in entry.facts.get("starts", {})
    ]
    return parse_start(max(starts, key=lambda found: found[0])[1]) if starts else None


@dataclass(frozen=True)
class StartedSource:
    """The stage's own source, read from where the remedy said that it begins."""

    source: Source
    start: Start
    checkpoint: str

    def read_stream(self, spark: SparkSession, environment: Environment) -> DataFrame:
        return _read_from_start(spark, environment, self.source, self.start, read_reach(self.checkpoint))

    def read_batch(self, spark: SparkSession, environment: Environment) -> DataFrame:
        return self.source.read_batch(spark, environment)

    def declare(self, environment: Environment) -> SourceDeclaration:
        return self.source.declare(environment)


def after_remedy(spark: SparkSession, environment: Environment, stage: Stage) -> Stage:
    """The stage as its newest remedy lets it begin; the stage itself where there was none."""
    start = find_start(read_journals(environment, spark), stage.name)
    if start is None:
        return stage
    return replace(stage, source=StartedSource(stage.source, start, environment.checkpoint(stage.name)))


def _read_from_start(
    spark: SparkSession, environment: Environment, source: Source, start: Start, reach: Reach
) -> DataFrame:
    windows = [window for window in start.windows if is_before(reach, window.until)]
    kept = start.kept
    if isinstance(source, KafkaSource) and start.below is not None:
        source = replace(source, starting_offsets=json.dumps(dict(start.below)))
    elif isinstance(source, DeltaSource):
        # What is added below the marks later, by a backfill of the input, is new to the output.
        kept = kept and in_first_snapshot(reach)
        options = dict(source.options)
        if start.version is not None:
            options["startingVersion"] = str(start.version)
        if windows:
            options["skipChangeCommits"] = "true"
        source = replace(source, options=tuple(options.items()))
    return leave_out(spark, environment, start, windows, kept, source.read_stream(spark, environment))


def is_before(reach: Reach, version: int) -> bool:
    """The stage has not committed everything up to that version of its input. A batch in flight does not count: it is
    run again, and has to pass over the same commits."""
    return reach.delta is None or reach.delta.version <= version


def in_first_snapshot(reach: Reach) -> bool:
    return reach.delta is None or reach.delta.initial_snapshot


def leave_out(
    spark: SparkSession,
    environment: Environment,
    start: Start,
    windows: Iterable[Window],
    kept: bool,
    rows: DataFrame,
) -> DataFrame:
    """The rows of the stream without those that the output has already, or that an undone remedy wrote."""
    from pyspark.sql import functions as F

    for window in windows:
        # The marker row of an undo has no position.
        rows = rows.where(F.col("source").isNotNull())
        if window.column:
            written = F.unix_micros(F.col(window.column))
            rows = rows.where(~written.between(window.first, window.last))
    return without_kept(rows, read_kept(spark, environment, start.digest, start.stage)) if kept else rows


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
