"""Evidence through a Spark session, for tables whose files nobody may open by name (Unity Catalog). Reads only.

    DESCRIBE HISTORY <table>   which batches, by whom; kept for delta.logRetentionDuration
    DESCRIBE DETAIL <table>    table id, properties, number of files
    VERSION AS OF <version>    what the columns were, where a commit changed them

Plain SQL, so it is the same on a cluster, on serverless and through Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.errors import CannotTell
from surestart.facts.delta import HistoryEvidence, history_evidence
from surestart.facts.delta.commit import Commit, FileChanges, texts
from surestart.facts.delta.log import log_retention
from surestart.facts.delta.pinned import first_line
from surestart.facts.delta.schema_change import TAKES_COLUMNS
from surestart.facts.evidence.sink_evidence import (
    HISTORY,
    SinkEvidence,
    evidence_from_history,
    sink_missing,
    sink_unreadable,
)
from surestart.facts.evidence.source_evidence import DeltaSourceEvidence, is_mapped
from surestart.library_types import SparkSession
from surestart.spark.session import session_at_hand
from surestart.typed import spark_sql
from surestart.words.spark_errors import is_condition

_MISSING = frozenset(
    {"TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST"}
)
_MISSING |= {"DELTA_MISSING_DELTA_TABLE", "DELTA_TABLE_ONLY_OPERATION"}
_VERSION_GONE = frozenset({"DELTA_VERSION_NOT_FOUND", "DELTA_TRUNCATED_TRANSACTION_LOG"})
_REMOVING = ("numRemovedFiles", "numTargetFilesRemoved")
_ADDING = ("numAddedFiles", "numTargetFilesAdded", "numFiles", "numRestoredFiles")
# A deletion vector means that a file is removed, and added again with fewer rows.
_VECTORS = tuple(f"num{of}DeletionVectors{done}" for of in ("", "Target") for done in ("Added", "Updated", "Removed"))
_APPENDING = ("CREATE TABLE", "CREATE TABLE AS SELECT", "COPY INTO")
_KEEPS_DATA = (
    *("OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "CLUSTER BY", "COMPUTE STATS", "ANALYZE", "CONVERT"),
    *("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD CONSTRAINT", "DROP CONSTRAINT", "UPGRADE PROTOCOL"),
    *("ADD FEATURE", "DROP FEATURE", "UPDATE COLUMN METADATA"),
)
_CHANGES_SCHEMA = ("ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS", "UPDATE SCHEMA", *TAKES_COLUMNS)


def _may_be_delta(sink: SinkDeclaration) -> bool:
    return sink.is_delta or sink.kind == "foreach-batch"


def read_sinks_by_session(spark: SparkSession, sinks: Iterable[SinkDeclaration]) -> dict[str, SinkEvidence]:
    """What the session can tell of each Delta sink, by target."""
    return {sink.target: _sink(spark, sink) for sink in sinks if _may_be_delta(sink)}


def read_named_sinks(sinks: Iterable[SinkDeclaration], session: SparkSession | None = None) -> dict[str, SinkEvidence]:
    """What the session, or the one at hand where there is one, can tell of Delta tables that are known by name alone.
    One that does not answer, or knows no table of that name, proves nothing: it may have another catalog
    than the query, or less rights."""
    named = [sink for sink in sinks if _may_be_delta(sink) and not sink.path]
    if not named:
        return {}
    try:
        spark = session or session_at_hand()
        told = {} if spark is None else read_sinks_by_session(spark, named)
        unknown = sink_unreadable("the session that was asked knows no table of that name", HISTORY)
        return {target: held if held.exists else unknown for target, held in told.items()}
    except Exception as error:  # noqa: BLE001 - a session fails in the ways of every platform that has one
        why = f"the session that could tell does not answer: {first_line(error)}"
        return {sink.target: sink_unreadable(why, HISTORY) for sink in named}


def table_sql(target: str, path: str = "") -> str:
    if path:
        return "delta.`" + path.replace("`", "``") + "`"
    return ".".join("`" + part.strip("`").replace("`", "``") + "`" for part in target.split("."))


def _sink(spark: SparkSession, sink: SinkDeclaration) -> SinkEvidence:
    from pyspark.errors import PySparkException

    try:
        history, detail = _ask(spark, table_sql(sink.target, sink.path))
    except PySparkException as error:
        return sink_missing(HISTORY) if is_condition(error, _MISSING) else sink_unreadable(first_line(error), HISTORY)
    except (CannotTell, OSError) as error:
        return sink_unreadable(first_line(error), HISTORY)
    files = detail.get("numFiles")
    # No file is no row; some files may still hold none, and only a count would tell.
    has_rows = None if files is None else bool(files)
    return evidence_from_history(history, has_rows, texts(detail.get("properties")))


def read_source_by_session(spark: SparkSession, source: SourceDeclaration, first: int | None) -> DeltaSourceEvidence:
    """What the session can tell of a Delta source, from that version on."""
    from pyspark.errors import PySparkException

    table = table_sql(source.target, source.path)
    try:
        history, detail = _ask(spark, table)
        pending = tuple(with_changes(one) for one in history.commits if first is not None and one.version >= first)
        changes = [one.version for one in pending if one.operation in _CHANGES_SCHEMA]
        schemas = {version: _schema_at(spark, table, version) for version in changes}
        properties = texts(detail.get("properties"))
        return DeltaSourceEvidence(
            table_id=str(detail.get("id") or ""),
            latest_version=history.commits[-1].version if history.commits else -1,
            earliest_commit=history.commits[0].version if history.commits else 0,
            log_retention=log_retention(properties),
            mapped=is_mapped(properties),
            schema_text=spark.sql(f"SELECT * FROM {table} LIMIT 0").schema.json() if changes else "",
            schema_before=_schema_at(spark, table, changes[0] - 1) if changes else "",
            pending=tuple(
                replace(one, schema_text=schemas[one.version]) if one.version in schemas else one for one in pending
            ),
        )
    except PySparkException as error:
        if is_condition(error, _MISSING):
            return DeltaSourceEvidence(exists=False)
        return DeltaSourceEvidence(problem=first_line(error))
    except (CannotTell, OSError) as error:
        return DeltaSourceEvidence(problem=first_line(error))


def _schema_at(spark: SparkSession, table: str, version: int) -> str:
    """'' when that version is not there any more; any other failure is raised, and is not an answer."""
    from pyspark.errors import PySparkException

    if version < 0:
        return ""
    try:
        return str(spark.sql(f"SELECT * FROM {table} VERSION AS OF {version} LIMIT 0").schema.json())
    except PySparkException as error:
        if is_condition(error, _VERSION_GONE):
            return ""
        raise


def _ask(spark: SparkSession, table: str) -> tuple[HistoryEvidence, dict[str, Any]]:
    """The rows of the query. Raises CannotTell when they are fewer than the table has commits: a history that ends
    early would show an older table."""
    history = history_evidence(spark.sql(f"DESCRIBE HISTORY {table}").collect())
    detail = spark.sql(f"DESCRIBE DETAIL {table}").collect()
    newest = history_evidence(spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect())
    if not _reaches(history, newest):
        # Written in this very moment, or left out: asked again it is there.
        history = history_evidence(spark.sql(f"DESCRIBE HISTORY {table}").collect())
    if not detail or not _reaches(history, newest):
        raise CannotTell(
            f"DESCRIBE HISTORY and DESCRIBE DETAIL of {table} answered without all of their rows",
            meaning="Which batches the table holds is not known.",
            next=spark_sql(f"DESCRIBE HISTORY {table}"),
            code="HistoryIncomplete",
        )
    return history, detail[0].asDict()


def _reaches(history: HistoryEvidence, newest: HistoryEvidence) -> bool:
    """Whether the rows have every version from the first one up to the newest. There is no table without a commit."""
    versions = [commit.version for commit in history.commits]
    if not versions or not newest.commits:
        return False
    return newest.commits[-1].version <= versions[-1] == versions[0] + len(versions) - 1


def with_changes(commit: Commit) -> Commit:
    """History counts files, not for every operation, and does not say which of them change data; None: not known."""
    if commit.operation in (*_KEEPS_DATA, *_CHANGES_SCHEMA):
        return replace(commit, changes=FileChanges())
    mode = commit.parameters.get("mode", commit.parameters.get("outputMode", ""))
    if commit.operation in _APPENDING or mode.strip('"') == "Append":
        return replace(commit, changes=FileChanges(added=1))
    if not any(name in commit.metrics for name in (*_REMOVING, *_VECTORS)):
        return replace(commit, changes=None)
    vectors = sum(_number(commit, name) for name in _VECTORS)
    removed = max(_number(commit, name) for name in _REMOVING)
    added = max(_number(commit, name) for name in _ADDING)
    return replace(commit, changes=FileChanges(added + vectors, removed + vectors))


def _number(commit: Commit, name: str) -> int:
    text = commit.metrics.get(name, "0")
    return int(text) if text.isdecimal() else 0
