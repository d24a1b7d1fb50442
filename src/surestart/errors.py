"""Errors in four parts: what (with numbers) / meaning / next (one runnable command) / do not.

    SurestartError                exit
    ├── UsageError                2     bad argument, unknown stage or environment, malformed input
    ├── Refused                   3     starting or applying would lose or duplicate rows
    ├── CannotTell                4     evidence missing or out of reach; never printed as safe
    ├── StoppedHalfway            5     run the same command again, it goes on where it was
    └── Unexpected                6     a fault of surestart itself: no verdict on anything

A finding, an error and a report entry read alike because they have the same four parts.
"""

from __future__ import annotations

import re

from surestart.typed import NextStep, as_step

EXIT_FINE = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_CANNOT_TELL = 4
EXIT_HALFWAY = 5
EXIT_UNEXPECTED = 6
EXIT_INTERRUPTED = 130


class SurestartError(Exception):
    """A message a person can act on at three in the morning."""

    exit_code = EXIT_USAGE

    def __init__(self, what: str, *, meaning: str, next: NextStep | str, do_not: str = "", code: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.meaning = meaning
        self.next = as_step(next)
        self.do_not = do_not
        self.code = code or type(self).__name__

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.what}", f"Meaning: {self.meaning}", f"Next: {self.next}"]
        if self.do_not:
            lines.append(f"Do not: {self.do_not}")
        return "\n".join(lines)


# As an error of ours is printed, in a text that may begin with the name of its class. What comes back from inside a
# batch is text alone: Spark hands on the message and no exception.
_PRINTED = re.compile(r"^(?:[\w.]+: )?(\w+): (.+)\nMeaning: (.+)\nNext: (.+?)(?:\nDo not: (.+))?$", re.M)


def read_printed(text: str) -> dict[str, str] | None:
    """The parts of the first error of ours that the text quotes; None where there is none."""
    found = _PRINTED.search(text)
    return dict(zip(("code", "what", "meaning", "next", "do_not"), found.groups(""), strict=True)) if found else None


class UsageError(SurestartError):
    """A bad argument, an unknown stage or environment, or malformed input. Nothing was done."""

    exit_code = EXIT_USAGE


class Refused(SurestartError):
    """Going on would lose or duplicate rows. Nothing was changed."""

    exit_code = EXIT_REFUSED


class CannotTell(SurestartError):
    """Evidence is missing or out of reach: neither safe nor unsafe."""

    exit_code = EXIT_CANNOT_TELL


class StoppedHalfway(SurestartError):
    """Something was done, and not all of it. The same command goes on where it was."""

    exit_code = EXIT_HALFWAY


class Unexpected(SurestartError):
    """A fault of surestart itself. It is not a verdict on anything."""

    exit_code = EXIT_UNEXPECTED
