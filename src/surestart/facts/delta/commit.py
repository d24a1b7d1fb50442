"""One commit of a table: who wrote it, which batch it was, and whether files were added or taken away.

Two kinds of commit say which batch they are:

    Delta's streaming sink    operation "STREAMING UPDATE", operationParameters {queryId, epochId}
    surestart's sinks         userMetadata {"surestart": {query, query_id, batch_id, stage, step}}

Delta writes nothing of the kind for a MERGE or an append inside foreachBatch; without the mark those are anonymous.

How a MERGE merged, as far as its commit says: Delta writes the condition and the kinds of the clauses, not what an
update sets. So an insert of new keys is known to be harmless when it comes twice; an update may add to what is there.

    predicate              ["((id#725L = id#227L) AND (v#726L <=> v#228L))"]
    matchedPredicates      [{"actionType":"update"}]
    notMatchedPredicates   [{"actionType":"insert"}]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from surestart.facts.delta.actions import Action, integer


@dataclass(frozen=True)
class CommitMark:
    """What surestart's sinks say about a commit in its userMetadata.

    merged, merged_rows: the mark stands in a commit of no rows, behind a MERGE that could not carry it: the version of
        that, and how many rows it was given."""

    query: str  # its name; "" where `surestart.once` wrote it, which knows the query by its id alone
    query_id: str
    batch_id: int
    stage: str
    step: str = ""
    merged: int | None = None
    merged_rows: int | None = None

    @property
    def app_id(self) -> str:
        return f"{self.query_id}:{self.step}" if self.step else self.query_id

    def as_json(self) -> str:
        body = {key: getattr(self, key) for key in ("query", "query_id", "batch_id", "stage", "step")}
        return json.dumps({"surestart": body}, separators=(",", ":"))


@dataclass(frozen=True)
class FileChanges:
    """How many files a commit added and removed, counting only those that change data (OPTIMIZE does not)."""

    added: int = 0
    removed: int = 0


@dataclass(frozen=True)
class Commit:
    version: int
    timestamp: int | None
    operation: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    user_metadata: str = ""
    mark: CommitMark | None = None
    transactions: tuple[tuple[str, int], ...] = ()
    schema_text: str | None = None
    table_id: str | None = None
    changes: FileChanges | None = None

    @property
    def query_id(self) -> str:
        """The streaming query that wrote it, or ''."""
        return self.mark.query_id if self.mark else self.parameters.get("queryId", "")

    @property
    def batch_id(self) -> int | None:
        """Databricks commits nothing under epochId -1 when a run begins: that is no batch."""
        found = self.mark.batch_id if self.mark else integer(self.parameters.get("epochId"))
        return None if found is None or found < 0 else found

    @property
    def rows_at(self) -> int:
        """The version at which the rows of its batch came into the table: its own, but for a mark behind a MERGE."""
        return self.version if self.mark is None or self.mark.merged is None else self.mark.merged

    @property
    def output_rows(self) -> int | None:
        return integer(self.metrics.get("numOutputRows", self.metrics.get("numTargetRowsInserted")))


def build_commit(version: int, actions: Iterable[tuple[str, Action]], with_files: bool = False) -> Commit:
    """The commit that these actions make. With files, add and remove actions have to be among them."""
    info: Action = {}
    transactions: list[tuple[str, int]] = []
    schema_text: str | None = None
    table_id: str | None = None
    added = removed = 0
    for kind, body in actions:
        if kind == "commitInfo":
            info = body
        elif kind == "txn":
            number = integer(body.get("version"))
            if number is not None:
                transactions.append((str(body.get("appId")), number))
        elif kind == "metaData":
            schema_text, table_id = str(body.get("schemaString", "")), str(body.get("id", ""))
        elif kind == "add":
            added += body.get("dataChange", True) is not False
        elif kind == "remove":
            removed += body.get("dataChange", True) is not False
    user_metadata = info.get("userMetadata")
    user_metadata = user_metadata if isinstance(user_metadata, str) else ""
    timestamp = integer(info.get("inCommitTimestamp"))
    return Commit(
        version=version,
        timestamp=integer(info.get("timestamp")) if timestamp is None else timestamp,
        operation=str(info.get("operation", "")),
        parameters=texts(info.get("operationParameters")),
        metrics=texts(info.get("operationMetrics")),
        user_metadata=user_metadata,
        mark=read_mark(user_metadata),
        transactions=tuple(transactions),
        schema_text=schema_text,
        table_id=table_id,
        changes=FileChanges(added, removed) if with_files else None,
    )


def read_mark(user_metadata: str | None) -> CommitMark | None:
    """The mark of one of our sinks, or None for anything else that people put into userMetadata."""
    if not user_metadata or '"surestart"' not in user_metadata or len(user_metadata) > 65_536:
        return None
    try:
        body = json.loads(user_metadata)["surestart"]
        batch_id = integer(body["batch_id"])
        query_id = body["query_id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if batch_id is None or not isinstance(query_id, str):
        return None
    rest = {key: str(body.get(key) or "") for key in ("query", "stage", "step")}
    merged, rows = integer(body.get("merged")), integer(body.get("merged_rows"))
    return CommitMark(query_id=query_id, batch_id=batch_id, merged=merged, merged_rows=rows, **rest)


def texts(value: Any) -> dict[str, str]:
    """A map of texts. Delta's writer puts strings, numbers and JSON there; other writers leave it out."""
    if not isinstance(value, Mapping):
        return {}
    return {
        str(key): item if isinstance(item, str) else json.dumps(item, default=str)
        for key, item in value.items()
        if item is not None
    }


# Commands that add rows to a table or remove them. Maintenance, such as OPTIMIZE, is no batch.
WRITING = ("WRITE", "MERGE", "UPDATE", "DELETE", "COPY INTO", "STREAMING UPDATE")


_EQUAL = re.compile(r"\(?\(*([\w.`]+?)#\d+L? (?:=|<=>) ([\w.`]+?)#\d+L?\)*")


def merge_keys(commits: Sequence[Commit]) -> tuple[str, ...]:
    """The columns by which all of these MERGEs matched rows, where each condition is nothing but equal columns."""
    found = {_keys(commit) for commit in commits}
    return found.pop() if len(found) == 1 else ()


def only_inserts(commits: Sequence[Commit]) -> tuple[str, ...]:
    """The keys, where every one of these commits is a MERGE that inserts rows of keys that are not there and does
    nothing else; but for the first, which may have made the table."""
    merges = [commit for commit in commits if commit.operation == "MERGE"]
    rest = [commit for commit in commits if commit.operation != "MERGE"]
    if not merges or len(rest) > 1 or (rest and rest[0].version != 0):
        return ()
    if any(_clauses(commit) != ("insert",) for commit in merges):
        return ()
    return merge_keys(merges)


def _keys(commit: Commit) -> tuple[str, ...]:
    if commit.operation != "MERGE":
        return ()
    try:
        (condition,) = json.loads(commit.parameters.get("predicate", ""))
    except (ValueError, TypeError, RecursionError):
        return ()
    names = []
    for part in str(condition).split(" AND "):
        equal = _EQUAL.fullmatch(part.strip())
        if equal is None or equal[1] != equal[2]:
            return ()
        names.append(equal[1])
    return tuple(names)


def _clauses(commit: Commit) -> tuple[str, ...]:
    kinds = []
    for name in ("matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates"):
        try:
            clauses = json.loads(commit.parameters.get(name, "[]"))
            kinds += [str(clause["actionType"]) for clause in clauses]
        except (ValueError, TypeError, KeyError, RecursionError):
            return ("unknown",)
    return tuple(kinds)
