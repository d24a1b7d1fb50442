"""Evidence through a Spark session, for tables whose files nobody may open by name (Unity Catalog). Reads only.

    DESCRIBE HISTORY <table>   which batches, by whom; kept for delta.logRetentionDuration
    DESCRIBE DETAIL <table>    table id, properties, number of files

Plain SQL, so it is the same on a cluster, on serverless and through Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.deltalog import HistoryEvidence, history_evidence
from surestart.deltalog.commit import Commit, FileChanges, texts
from surestart.deltalog.log import log_retention
from surestart.diagnosis.sink_evidence import (
    HISTORY,
    SinkEvidence,
    evidence_from_history,
    sink_missing,
    sink_unreadable,
)
from surestart.diagnosis.source_evidence import DeltaSourceEvidence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MISSING = {"TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST"}
_MISSING |= {"DELTA_MISSING_DELTA_TABLE", "DELTA_TABLE_ONLY_OPERATION"}
_REMOVING = ("numRemovedFiles", "numTargetFilesRemoved")
_ADDING = ("numAddedFiles", "numTargetFilesAdded", "numFiles", "numRestoredFiles")
_KEEPS_DATA = ("OPTIMIZE", "VACUUM START", "VACUUM END", "REORG")


def read_sinks_by_session(spark: SparkSession, sinks: Iterable[SinkDeclaration]) -> dict[str, SinkEvidence]:
    """What the session can tell of each Delta sink, by target."""
    return {sink.target: _sink(spark, sink) for sink in sinks if sink.kind.startswith(("delta", "foreach-batch"))}


def read_sources_by_session(
    spark: SparkSession, sources: Iterable[SourceDeclaration]
) -> dict[str, DeltaSourceEvidence]:
    """What the session can tell of each Delta source, by target."""
    return {source.target: _source(spark, source) for source in sources if source.kind == "delta"}


def table_sql(target: str, path: str = "") -> str:
    if path:
        return "delta.`" + path.replace("`", "``") + "`"
    return ".".join("`" + part.strip("`").replace("`", "``") + "`" for part in target.split("."))


def _sink(spark: SparkSession, sink: SinkDeclaration) -> SinkEvidence:
    from pyspark.errors import PySparkException

    try:
        history, detail = _ask(spark, table_sql(sink.target, sink.path))
    except PySparkException as error:
        return (
            sink_missing(HISTORY) if error.getCondition() in _MISSING else sink_unreadable(_first_line(error), HISTORY)
        )
    files = detail.get("numFiles")
    # No file is no row; some files may still hold none, and only a count would tell.
    has_rows = None if files is None else bool(files)
    return evidence_from_history(history, has_rows, texts(detail.get("properties")))


def _source(spark: SparkSession, source: SourceDeclaration) -> DeltaSourceEvidence:
    from pyspark.errors import PySparkException

    try:
        history, detail = _ask(spark, table_sql(source.target, source.path))
    except PySparkException as error:
        if error.getCondition() in _MISSING:
            return DeltaSourceEvidence(exists=False)
        return DeltaSourceEvidence(problem=_first_line(error))
    properties = texts(detail.get("properties"))
    return DeltaSourceEvidence(
        table_id=str(detail.get("id") or ""),
        latest_version=history.commits[-1].version if history.commits else -1,
        earliest_commit=history.commits[0].version if history.commits else 0,
        log_retention=log_retention(properties),
        pending=tuple(_with_changes(commit) for commit in history.commits),
    )


def _ask(spark: SparkSession, table: str) -> tuple[HistoryEvidence, dict[str, Any]]:
    history = history_evidence(spark.sql(f"DESCRIBE HISTORY {table}").collect())
    return history, spark.sql(f"DESCRIBE DETAIL {table}").collect()[0].asDict()


def _with_changes(commit: Commit) -> Commit:
    """History counts files and does not say which of them change data; maintenance commands change none."""
    from dataclasses import replace

    if commit.operation in _KEEPS_DATA:
        return replace(commit, changes=FileChanges())
    removed = max((_number(commit, name) for name in _REMOVING), default=0)
    added = max((_number(commit, name) for name in _ADDING), default=0)
    return replace(commit, changes=FileChanges(added, removed))


def _number(commit: Commit, name: str) -> int:
    text = commit.metrics.get(name, "0")
    return int(text) if text.isdecimal() else 0


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
