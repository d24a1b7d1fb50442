"""A name for each stream, made of the folder in which its checkpoint lies."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Folders whose names say what they are, and not for which stream.
_SAYS_NOTHING = re.compile(
    r"_*(check-?points?|chk-?points?|chkpts?|ckpts?|chks?|cps?|streams?|streaming|tmp|data|current)_*", re.IGNORECASE
)
_LONGEST = 60


def name_of(location: str, taken: set[str]) -> str:
    """A name that no other stream has, also where case does not count; it is added to `taken`, in lower case."""
    name = next(name for name in _names(location) if name.lower() not in taken)
    taken.add(name.lower())
    return name


def _names(location: str) -> Iterator[str]:
    folders = [_word(folder) for folder in re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*:", "", location).split("/")]
    folders = [folder for folder in folders if folder]
    telling = [folder for folder in folders if not _SAYS_NOTHING.fullmatch(folder)] or folders or ["stream"]
    for count in range(1, min(len(telling), 4) + 1):
        yield _valid("-".join(telling[-count:]))
    number = 2
    while True:
        yield f"{_valid(telling[-1])}-{number}"
        number += 1


def _word(folder: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", folder).strip("-_")


def _valid(name: str) -> str:
    """`all` is every stream to the command line."""
    name = name[-_LONGEST:].strip("-_")
    return name if name[:1].isalpha() and name.lower() != "all" else f"stream-{name}"
