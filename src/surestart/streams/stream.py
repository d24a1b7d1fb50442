"""A stream that surestart does not run, as a value: where its checkpoint is, what it reads, where its rows go."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.environment import is_absolute, whole_path
from surestart.errors import UsageError
from surestart.typed import in_the_code

# The name is a word of every command, and the name of the claim's file.
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Stream:
    """name: as commands know it.
    checkpoint: the folder of its checkpoint, absolute.
    sources: empty: nobody has said, and the checkpoint tells how many and of which kind.
    sinks: empty: nobody has said, and no verdict is better than "cannot tell".
    output_mode: as Spark has it.
    state: the names of its stateful operators; empty: the checkpoint tells.
    open_sinks: nobody has said whether its function writes elsewhere, too."""

    name: str
    checkpoint: str
    sources: tuple[SourceDeclaration, ...] = ()
    sinks: tuple[SinkDeclaration, ...] = ()
    output_mode: str = "append"
    state: tuple[str, ...] = ()
    open_sinks: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or self.name == "all":
            raise UsageError(
                f"stream {self.name!r} is not a letter with letters, digits, '_', '-' and '.' behind it, or is 'all'",
                meaning="The name is typed in commands and names the file of its claim. Nothing was read.",
                next=in_the_code("name the stream like 'orders'"),
                code="StreamNameRefused",
            )
        if not is_absolute(self.checkpoint):
            raise UsageError(
                f"stream {self.name!r}: the checkpoint {self.checkpoint!r} is not an absolute path",
                meaning="Looked at from another folder it would be another checkpoint, or none.",
                next=in_the_code(f"write the whole path of the checkpoint of {self.name!r}"),
                code="StreamCheckpointRefused",
            )


def absolute_place(given: str) -> str:
    """As it was given where it names a store; a folder of this machine by its whole path."""
    local = re.match(r"file:/", given)
    if local:
        given = "/" + unquote(given.removeprefix("file:")).lstrip("/")
    given = re.sub(r"^dbfs:/+Volumes/", "/Volumes/", given)
    if re.match(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:", given):
        return given.rstrip("/")
    if given.startswith("file:"):
        given = ""
    return str(whole_path(given))
