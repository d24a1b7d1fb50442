"""The pair and the note of a Delta commit, carried by session settings or, where no session takes these, by an append.

    classic Spark, job clusters   transaction(…): MERGE …                      one commit: rows, pair and note
    serverless compute            MERGE …  then  append_pair(…): no rows       two commits: rows, then pair and note

MERGE, DELETE, UPDATE and RESTORE have no options of their own (delta#3934). The settings are unset in any case: left
behind, they make Delta drop the session's next, unrelated write without a word.

The pair that makes a batch recognisable: the query id in the checkpoint's `metadata` and the batch id.

    <checkpoint>/metadata    {"id":"<uuid>"}    new when a checkpoint is recreated, unchanged when a query resumes

Every commit of ours carries it twice: as Delta's transaction (application id, version), which Delta itself compares,
and in the commit's userMetadata, which people and the doctor can read from the table's history:

    {"surestart": {"query": …, "query_id": …, "batch_id": …, "stage": …, "step": …}}"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from surestart.environment import Table
from surestart.errors import CannotTell
from surestart.facts.delta import read_delta_log
from surestart.facts.delta.schema_change import identity_columns, may_number_rows
from surestart.library_types import DataFrame, DataFrameWriter, SparkSession
from surestart.spark.delta_table import read_table, save_to
from surestart.spark.session import only_inside, takes_setting
from surestart.stage import POSITION
from surestart.typed import surestart
from surestart.words.spark_errors import is_condition


def takes_pairs(spark: SparkSession) -> bool:
    """Whether `transaction` is possible in this session."""
    return takes_setting(spark, TXN_APP_ID)


@contextmanager
def transaction(spark: SparkSession, app_id: str, version: int, note: str) -> Iterator[None]:
    """Inside the block the session's next Delta command carries this pair and note."""
    with only_inside(spark, {TXN_APP_ID: app_id, TXN_VERSION: str(version), USER_METADATA: note}):
        yield


def append_pair(
    spark: SparkSession, table: Table, app_id: str, version: int, note: str, columns: Sequence[str] = ()
) -> None:
    """The table has a commit of no rows with this pair and note; if it knew the pair, it is as it was. columns: those
    that a stage writes there, where they are known."""
    rows = _only(no_rows(spark, table), columns) if columns else nothing(spark, table)
    append_with_pair(rows, table, app_id, version, note)


def append_with_pair(rows: DataFrame, table: Table, app_id: str, version: int, note: str) -> None:
    """The rows are in the table, in a commit with this pair and note; if it knew the pair, it is as it was."""
    save_with_pair(rows.write.format("delta").mode("append"), table, app_id, version, note)


def save_with_pair(writer: DataFrameWriter, table: Table, app_id: str, version: int, note: str) -> None:
    """What the writer writes is in the table, in a commit with this pair and note; if it knew the pair, it is as it
    was."""
    writer = writer.option("txnAppId", app_id).option("txnVersion", str(version)).option("userMetadata", note)
    save_to(table, writer)


def nothing(spark: SparkSession, table: Table) -> DataFrame:
    """No rows, for an append, without the columns that no write may name (GENERATED ALWAYS AS IDENTITY). For a table of
    a catalog no session says which these are, so only a few columns are named there."""
    rows = no_rows(spark, table)
    if table.path:
        return rows.drop(*identity_columns(read_delta_log(table.path).schema_text))
    if not may_number_rows(spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()[0].asDict()):
        return rows
    named = [field.name for field in rows.schema if not field.nullable or field.name in POSITION]
    return _only(rows, named) if named else rows


def _only(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    wanted = {name.lower() for name in names}
    return rows.drop(*(name for name in rows.columns if name.lower() not in wanted))


def no_rows(spark: SparkSession, table: Table) -> DataFrame:
    """Not made from a read of the table: such a write would conflict with whatever is written meanwhile."""
    return spark.createDataFrame([], read_table(spark, table).schema)


TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
TXN_VERSION = "spark.databricks.delta.write.txnVersion"
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def read_query_id(checkpoint: str, spark: SparkSession, own: Callable[[], str]) -> str:
    """The query id that Spark wrote into the checkpoint before its first batch. own: what the query itself says that it
    runs under, for whoever may not read the checkpoint at all (a serverless worker, EACCES on /Volumes)."""
    try:
        text = _read_metadata(checkpoint, spark)
    except _NotAllowed as refusal:
        told = own()
        if told:
            return told
        forbidden = f"may not be read here ({refusal}), and the query does not say under which id it runs"
        raise _no_query_id(checkpoint, forbidden) from refusal
    try:
        return _parse(text)
    except (ValueError, KeyError, TypeError) as problem:
        raise _no_query_id(checkpoint, f"holds {len(text)} characters and no query id") from problem


class _NotAllowed(Exception):
    """Neither this process nor Spark may read the file. It may well be there."""


def _read_metadata(checkpoint: str, spark: SparkSession) -> str:
    from pyspark.errors import PySparkException

    folder, refused = _local_folder(checkpoint), ""
    try:
        if folder is not None and folder.exists():
            return (folder / "metadata").read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        raise _no_query_id(checkpoint, _GONE) from problem
    except OSError as problem:
        refused = problem.strerror or type(problem).__name__
    try:
        return "\n".join(row[0] for row in spark.read.text(f"{checkpoint}/metadata").collect())
    except PySparkException as problem:
        if refused and not is_condition(problem, _NOT_THERE):
            raise _NotAllowed(refused) from problem
        raise _no_query_id(checkpoint, _GONE) from problem


_GONE = "cannot be read: the checkpoint was moved aside or removed under a run that goes on, or it is out of reach"
_NOT_THERE = frozenset({"PATH_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST"})


def read_local_query_id(checkpoint: str) -> str | None:
    """The same without Spark. None: it cannot be told from this process."""
    folder = _local_folder(checkpoint)
    try:
        return None if folder is None else _parse((folder / "metadata").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _local_folder(checkpoint: str) -> Path | None:
    local = checkpoint.removeprefix("file://").removeprefix("file:")
    return Path(local) if local.startswith("/") else None


def _parse(text: str) -> str:
    # In small letters, as Spark writes it.
    return str(json.loads(text)["id"]).lower()


def _no_query_id(checkpoint: str, what: str) -> CannotTell:
    return CannotTell(
        f"{checkpoint}/metadata {what}",
        meaning="Without the id a replayed batch cannot be told from a new one, so nothing is written.",
        next=surestart("inspect", checkpoint),
        do_not="delete the checkpoint or write an id of your own into it.",
        code="QueryIdUnreadable",
    )


def commit_note(
    query: str, query_id: str, batch_id: int, stage: str, step: str = "", merged: Mapping[str, int] | None = None
) -> str:
    note = {"query": query, "query_id": query_id, "batch_id": batch_id, "stage": stage, "step": step}
    return json.dumps({"surestart": {**note, **(merged or {})}})
