"""A remedy's own Delta commits: each is made once, however often its step is entered.

The pair (remedy-<digest>:<step>, 0) goes into the commit as Delta's transaction, the digest and step into its note.
DELETE, UPDATE and MERGE with a pair that the table knows do nothing (internals page 3.3). RESTORE heeds no such pair,
so it is looked up by its note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surestart.deltalog import read_history
from surestart.environment import Table
from surestart.session import applied
from surestart.settings import EVERYWHERE, pairs
from surestart.sinks.transaction import transaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTE = "surestart_remedy_step"
_COMMITS = 1000


@contextmanager
def one_commit(spark: SparkSession, digest: str, step: str) -> Iterator[None]:
    """Inside the block the session's next Delta command is this step's commit, or nothing if it was made before."""
    with applied(spark, pairs(EVERYWHERE)), transaction(spark, app_id(digest, step), 0, note_of(digest, step)):
        yield


def app_id(digest: str, step: str) -> str:
    return f"remedy-{digest[:16]}:{step}"


def note_of(digest: str, step: str) -> str:
    return json.dumps({NOTE: {"digest": digest, "step": step}})


def find_commit(spark: SparkSession, table: Table, digest: str, step: str) -> int | None:
    """The version that this step made, among the newest commits of the table."""
    wanted = {"digest": digest, "step": step}
    for version, text in _notes(spark, table):
        if f'"{NOTE}"' not in text:
            continue
        try:
            found = json.loads(text).get(NOTE)
        except ValueError:
            continue  # somebody else's note
        if found == wanted:
            return version
    return None


def _notes(spark: SparkSession, table: Table) -> list[tuple[int, str]]:
    """Newest first. A table's own files answer at once; DESCRIBE HISTORY takes Spark jobs."""
    if table.path:
        commits = read_history(table.path, limit=_COMMITS)
        return [(commit.version, commit.user_metadata) for commit in reversed(commits)]
    rows = spark.sql(f"DESCRIBE HISTORY {table.sql} LIMIT {_COMMITS}").select("version", "userMetadata").collect()
    return [(int(row["version"]), row["userMetadata"] or "") for row in rows]
