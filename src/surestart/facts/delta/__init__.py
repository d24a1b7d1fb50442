"""Reads a Delta table's `_delta_log` without Spark: what it holds, who wrote it, which batches it has seen.

read_delta_log(path) -> DeltaLog         table id, versions, properties, transactions
read_history(path)   -> tuple[Commit]    who wrote what, and which batch
read_active_files(path)                  the files that make up a version
read_table_rows(path)                    its rows, by pyarrow, for a recount that no Spark code takes part in
history_evidence(rows)                   the same transactions from `DESCRIBE HISTORY` rows
"""

from __future__ import annotations

from surestart.facts.delta.active_files import ActiveFile, read_active_files
from surestart.facts.delta.commit import Commit, CommitMark
from surestart.facts.delta.log import (
    DeltaLog,
    HistoryEvidence,
    Transaction,
    history_evidence,
    read_delta_log,
    read_history,
)
from surestart.facts.delta.pinned import read_table_rows

__all__ = [
    "ActiveFile",
    "Commit",
    "CommitMark",
    "DeltaLog",
    "HistoryEvidence",
    "Transaction",
    "history_evidence",
    "read_active_files",
    "read_delta_log",
    "read_history",
    "read_table_rows",
]
