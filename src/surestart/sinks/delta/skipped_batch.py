"""The sink dropped a batch that it cannot have seen: going on would lose its rows in silence."""

from __future__ import annotations

from typing import Any


class SkippedBatch(RuntimeError):
    """Raised inside foreachBatch; only its text comes back from there, so the text has the four parts."""

    def __init__(self, query: str, batch_id: int, table: str) -> None:
        super().__init__(
            f"SkippedBatch: {table} dropped batch {batch_id} of {query}, which was never planned before this run.\n"
            f"Meaning: the table is ahead of the checkpoint (rewound, restored or copied); its rows would be lost.\n"
            f"Next: surestart doctor\n"
            f"Do not: restart it as it is, or delete the checkpoint."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (RuntimeError, (str(self),))
