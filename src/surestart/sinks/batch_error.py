"""Errors of one batch, raised inside foreachBatch."""

from __future__ import annotations

from typing import Any

from surestart.errors import SurestartError
from surestart.history.describe_run import named
from surestart.stage import BatchContext
from surestart.typed import NextStep, surestart


class BatchError(RuntimeError):
    """Only its text comes back from there, so the text has the four parts."""

    def __init__(self, what: str, *, meaning: str, next: NextStep, do_not: str) -> None:
        said = SurestartError(what, meaning=meaning, next=next, do_not=do_not, code=type(self).__name__)
        super().__init__(str(said))

    def __reduce__(self) -> tuple[Any, ...]:
        return (RuntimeError, (str(self),))


def doctor_of(context: BatchContext) -> NextStep:
    return surestart("doctor", context.stage, place=named(context.environment))
