"""Rows as they are shown: no more than were asked for, of the keys that were asked for, and where reading ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from surestart.facts.checkpoint.log_file import FormatError
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.checkpoint.torn import NotInState
from surestart.facts.state.hdfs_rows import RowReading
from surestart.facts.state.read_rows import StateRow, StoreLook, read_state_rows
from surestart.facts.storage.storage import Storage


@dataclass
class ShownRows:
    """One store's rows, read while they are walked through. more, notes and failure are known behind the last one."""

    look: StoreLook
    storage: Storage
    checkpoint: Checkpoint
    limit: int | None = None
    wanted: Callable[[StateRow], bool] | None = None
    notes: list[str] = field(default_factory=list)
    shown: int = 0
    more: bool = False
    failure: FormatError | NotInState | OSError | None = None

    def __iter__(self) -> Iterator[StateRow]:
        look = RowReading(few=self.limit if self.wanted is None else None, notes=self.notes)
        try:
            for row in read_state_rows(self.storage, self.checkpoint, self.look, look):
                if self.wanted is not None and not self.wanted(row):
                    continue
                if self.shown == self.limit:
                    self.more = True
                    return
                self.shown += 1
                yield row
        except (FormatError, NotInState, OSError) as error:
            self.failure = error
