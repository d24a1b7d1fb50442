"""One difference between what the code would run now and what the checkpoint was written by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChangeClass(StrEnum):
    ALLOWED = "allowed"
    UNDEFINED = "undefined"
    CANNOT_TELL = "cannot tell"
    UNSAFE = "unsafe"


@dataclass(frozen=True)
class Change:
    """One difference.

    ignored: Spark lets the start happen and does not heed the new value.
    of_sources: the checkpoint's own findings name it too, where they see it.
    leaves_out: a sink gets no more of the query's rows."""

    what: str
    before: str
    after: str
    kind: ChangeClass
    rule: str
    ignored: bool = False
    of_sources: bool = False
    leaves_out: bool = False


def line_number(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return (int(major), int(minor.partition(".")[0] or 0)) if major.isdigit() else (0, 0)
