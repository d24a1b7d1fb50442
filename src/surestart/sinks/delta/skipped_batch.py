"""The sink dropped a batch that it cannot have seen: going on would lose its rows in silence."""

from __future__ import annotations

from surestart.sinks.batch_error import BatchError, doctor_of
from surestart.stage import BatchContext


class SkippedBatch(BatchError):
    def __init__(self, context: BatchContext, batch_id: int, table: str) -> None:
        super().__init__(
            f"{table} dropped batch {batch_id} of {context.query}, which was never planned before this run.",
            meaning="the table is ahead of the checkpoint (rewound, restored or copied); its rows would be lost.",
            next=doctor_of(context),
            do_not="restart it as it is, or delete the checkpoint.",
        )
