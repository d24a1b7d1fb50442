"""Ctrl-C while a query runs: remembered, and acted on between two questions to Spark.

An interrupt in the middle of a call into the JVM breaks the connection to it, and the query could not be stopped any
more. A second Ctrl-C is not waited for.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    def __init__(self) -> None:
        self.requested = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def check(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed since the block began."""
        if self.requested:
            raise KeyboardInterrupt


@contextmanager
def deferred_interrupt() -> Iterator[Interrupt]:
    """Inside the block the first Ctrl-C only notes itself. Python delivers signals to the main thread; elsewhere this
    changes nothing."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    former = signal.signal(signal.SIGINT, interrupt._note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, former)
