"""Changes where a stream's checkpoint is, in the file that declares it: one value, found by reading the file again.

    [stream.orders]                            # every comment, order and spelling stays
    checkpoint = '/data/ck/orders'             # this string alone is another one

Each string of the file that spells the old place is tried: the one is meant with which the file says the same as before
but for this value. So it does not matter how the file is written.

The file is written whole, or not at all, and never over what somebody else has written meanwhile.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surestart.errors import Refused, UsageError
from surestart.streams.project_file import parse_project_text
from surestart.typed import in_the_code, typed

_STRING = re.compile(r"""'[^'\n]*'|"(?:[^"\\\n]|\\.)*\"""")


@dataclass(frozen=True)
class FileChange:
    """former, new: the value as the file spells it, quotes included."""

    file: Path
    stream: str
    former: str
    new: str

    @property
    def back(self) -> FileChange:
        return FileChange(self.file, self.stream, self.new, self.former)


def plan_change(file: Path, stream: str, place: str) -> FileChange:
    """How the file is to spell the new place. Raises where the file cannot be changed so."""
    said, content = _read(file)
    former = _checkpoint_in(content, stream)
    spelled = {word for word in _strings(said) if _value(word) == former}
    found = [word for word in sorted(spelled) if _changed(said, FileChange(file, stream, word, toml_text("/")))]
    if not isinstance(former, str) or len(found) != 1:
        raise _unchangeable(file, stream, "its checkpoint is written in a form that cannot be replaced")
    try:
        change = FileChange(file, stream, found[0], _like(found[0], place))
    except NotCarriedByToml as error:
        raise _unchangeable(file, stream, "the new place has bytes that are not text") from error
    # As every reader of the file will take it: two streams at one place are refused here.
    (after,) = _changed(said, change)
    parse_project_text(file, after)
    return change


def make_change(change: FileChange) -> None:
    """The file declares the new place; made once. Raises with nothing written."""
    said, content = _read(change.file)
    if _checkpoint_in(content, change.stream) == _value(change.new):
        return
    after = _changed(said, change)
    if len(after) != 1:
        raise _unchangeable(change.file, change.stream, f"it does not declare checkpoint = {change.former} any more")
    parse_project_text(change.file, after[0])
    write_over(change.file, said.encode("utf-8"), after[0].encode("utf-8"))


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    try:
        said = Path(os.path.realpath(file)).read_bytes().decode("utf-8")
    except OSError as error:
        raise unwritable(file, error) from error
    parse_project_text(file, said)
    return said, tomllib.loads(said)


def _changed(said: str, change: FileChange) -> list[str]:
    """The file with the one value changed; more than one, or none, where that is not clear."""
    wanted = tomllib.loads(said)
    stream = wanted.get("stream", {}).get(change.stream)
    if not isinstance(stream, dict) or stream.get("checkpoint") != _value(change.former):
        return []
    stream["checkpoint"] = _value(change.new)
    found = []
    for match in re.finditer(re.escape(change.former), said):
        after = said[: match.start()] + change.new + said[match.end() :]
        try:
            if tomllib.loads(after) == wanted:
                found.append(after)
        except tomllib.TOMLDecodeError:
            continue
    return found


def _strings(said: str) -> Iterator[str]:
    for index, character in enumerate(said):
        match = _STRING.match(said, index) if character in "'\"" else None
        if match:
            yield match[0]


def _checkpoint_in(content: dict[str, Any], stream: str) -> object:
    found = content.get("stream", {}).get(stream, {})
    return found.get("checkpoint") if isinstance(found, dict) else None


def _value(word: str) -> str | None:
    try:
        return str(tomllib.loads(f"value = {word}")["value"])
    except tomllib.TOMLDecodeError:
        return None


def _like(former: str, place: str) -> str:
    """In the quotes that the file has, where they can hold it."""
    literal = f"'{place}'"
    return literal if former.startswith("'") and _value(literal) == place else toml_text(place)


def _unchangeable(file: Path, stream: str, why: str) -> Refused:
    return Refused(
        f"{file} cannot be changed for stream {stream!r}: {why}",
        meaning="The file has to say where the checkpoint is. It is as it was.",
        next=in_the_code(f"write the stream in {file} as a table of its own: [stream.{stream}]"),
        code="ProjectFileClosed",
    )


def write_over(path: Path, before: bytes, after: bytes) -> None:
    """The file holds `after`, where it held `before`. Raises with nothing written. What a link points to is written,
    and the link stays."""
    target = Path(os.path.realpath(path))
    try:
        draft = target.with_name(f".{target.name}.{os.getpid()}.new")
        with draft.open("wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        if (target.read_bytes() if target.exists() else b"") != before:
            raise Refused(
                f"{path} was changed by somebody while it was written",
                meaning="What they wrote would be gone. Nothing was changed.",
                next=in_the_code(f"the same command again; {draft} holds what would have been written"),
                code="ProjectFileMoved",
            )
        draft.replace(target)
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}",
        meaning="Nothing is lost: the same command does it again. Nothing was written.",
        next=typed("ls", "-ld", path.absolute().parent),
        code="ProjectFileNotWritten",
    )


class NotCarriedByToml(ValueError):
    """A text of bytes that are no UTF-8: no TOML file can hold it."""


def toml_text(value: str) -> str:
    """A TOML string. Raises NotCarriedByToml."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotCarriedByToml(value) from error
    return f'"{"".join(map(_escaped, value))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character == " " or character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
