"""The pair that makes a batch recognisable: the query id in the checkpoint's `metadata` and the batch id.

    <checkpoint>/metadata    {"id":"<uuid>"}    new when a checkpoint is recreated, unchanged when a query resumes

Every commit of ours carries it twice: as Delta's transaction (application id, version), which Delta itself compares,
and in the commit's userMetadata, which people and the doctor can read from the table's history:

    {"surestart": {"query": …, "query_id": …, "batch_id": …, "stage": …, "step": …}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.errors import CannotTell
from surestart.typed import surestart
from surestart.words.spark_errors import condition_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        if refused and condition_of(problem) not in _NOT_THERE:
            raise _NotAllowed(refused) from problem
        raise _no_query_id(checkpoint, _GONE) from problem


_GONE = "cannot be read: the checkpoint was moved aside or removed under a run that goes on, or it is out of reach"
_NOT_THERE = ("PATH_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST")


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
    return str(json.loads(text)["id"])


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
