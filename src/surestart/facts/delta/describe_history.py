"""The same facts from `DESCRIBE HISTORY <table>`, for a Unity Catalog table whose files nobody may open.

    version  timestamp  operation         operationParameters          userMetadata
    12       …          STREAMING UPDATE  {queryId, epochId, …}        null
    13       …          MERGE             {predicate, …}               {"surestart": {"query_id": …, "batch_id": 7, …}}

History is kept for delta.logRetentionDuration (30 days unless set), the transactions themselves for ever: a writer that
is not in an incomplete history may still be known to the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from surestart.facts.delta.actions import integer
from surestart.facts.delta.commit import Commit, read_mark, texts
from surestart.facts.delta.log import Transaction


@dataclass(frozen=True)
class HistoryEvidence:
    """Commits oldest first, and the last batch of each writer that they name."""

    commits: tuple[Commit, ...]
    transactions: Mapping[str, Transaction]
    complete: bool  # version 0 is among them, so a writer that is absent never wrote


def history_evidence(rows: Iterable[Any]) -> HistoryEvidence:
    """From `DESCRIBE HISTORY` rows: pyspark Rows or mappings, in any order."""
    commits = tuple(sorted((_commit(row) for row in rows), key=lambda commit: commit.version))
    transactions: dict[str, Transaction] = {}
    for commit in commits:
        app_id = commit.mark.app_id if commit.mark else commit.query_id
        if app_id and commit.batch_id is not None:
            transactions[app_id] = Transaction(commit.batch_id, commit.timestamp)
    return HistoryEvidence(commits, transactions, bool(commits) and commits[0].version == 0)


def _commit(row: Any) -> Commit:
    fields: Mapping[str, Any] = row if isinstance(row, Mapping) else row.asDict()
    timestamp = fields.get("timestamp")
    user_metadata = fields.get("userMetadata") or ""
    return Commit(
        version=int(fields["version"]),
        timestamp=int(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else integer(timestamp),
        operation=str(fields.get("operation") or ""),
        parameters=texts(fields.get("operationParameters")),
        metrics=texts(fields.get("operationMetrics")),
        user_metadata=user_metadata,
        mark=read_mark(user_metadata),
    )
