"""What a state file is not: whole, of a known form, or there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from surestart.facts.checkpoint.log_file import TORN, VERSION, FormatError


class Torn(FormatError):
    """The bytes are not what Spark writes: cut off, flipped, or of another file."""

    def __init__(self, detail: str) -> None:
        super().__init__(TORN, detail)


class TornFile(Torn):
    """The same, of a file that the detail names."""


class UnknownForm(FormatError):
    """They may well be whole, and are of a form that is not read here."""

    def __init__(self, detail: str) -> None:
        super().__init__(VERSION, detail)


class NotInState(Exception):
    """No such operator, store, partition or version: `given` are those that there are."""

    def __init__(self, what: str, given: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.given = given


@contextmanager
def naming(path: str) -> Iterator[None]:
    """An error inside the block, for torn bytes or an unknown form, names that file."""
    try:
        yield
    except Torn as error:
        raise TornFile(f"{path} is torn: {error}") from error
    except UnknownForm as error:
        raise UnknownForm(f"{path}: {error}") from error
