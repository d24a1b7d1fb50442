"""The actions of one commit file: a JSON object a line, one action an object.

    {"commitInfo":{...}}  {"txn":{"appId":..,"version":..,"lastUpdated":..}}  {"metaData":{..}}  {"protocol":{..}}
    {"add":{..}}  {"remove":{..}}  {"cdc":{..}}

A table's log is untrusted input here. Lines of kinds that nobody asked for are not parsed: a commit of 100,000 files
costs a scan, not 100,000 objects; but for the last line, which tells a torn file. What is parsed is charged to the
reading's budget.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from surestart.errors import CannotTell
from surestart.facts.storage.read_budget import CountedReader, charge, read_lines
from surestart.facts.storage.storage import Storage
from surestart.typed import typed

# A schema of thousands of columns is a megabyte.
MAX_LINE = 8 << 20
_KIND = re.compile(rb'\s*\{\s*"([A-Za-z]{1,32})"\s*:\s*(null)?')

Action = dict[str, Any]


def read_actions(files: Storage, name: str, wanted: Collection[str], size: int = -1) -> Iterator[tuple[str, Action]]:
    """Kind and body of each wanted action, in file order, with one line in memory. Raises CannotTell on a line that no
    Delta writer makes, on a file that is too large or out of reach, and on one that ends before the `size` that the
    listing gave it: a line that did not arrive is not a line that nobody wrote. FileNotFoundError when it is gone."""
    label = f"{files.location}/{name}"
    try:
        charge(files, FILE, name)
        with files.open_file(name) as file:
            counted = CountedReader(file)
            last, passed_over = b"", False
            for number, line in enumerate(read_lines(counted, MAX_LINE), start=1):
                if number % LINES == 0:
                    charge(files, 1, name)
                kind = _KIND.match(line)
                if kind is None:
                    if not line.strip():
                        continue
                    raise damaged(label, f"line {number} is not an action")
                # Some writer may say of each other kind that it is null.
                last, passed_over = line, kind[1].decode("ascii") not in wanted and not kind[2]
                if passed_over:
                    continue
                charge(files, action_cost(len(line)), name)
                found = _action(line, number, label)
                if found is not None and found[0] in wanted:
                    yield found
        if passed_over:
            # A write that broke off ends in mid-line, and Spark reads no commit of that table any more.
            _action(last, number, label)
        if counted.size < max(size, 1):
            raise damaged(label, f"gave {counted.size:,} bytes of {max(size, 1):,}")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise log_unreadable(files.location, error) from error


# What a reading is charged, in values of about a microsecond each.
FILE = 20
LINES = 2  # passed over, for one value


def action_cost(length: int) -> int:
    return 4 + length // 200


def _action(line: bytes, number: int, label: str) -> tuple[str, Action] | None:
    if len(line) > MAX_LINE:
        raise damaged(label, f"line {number} is longer than {MAX_LINE:,} bytes")
    if len(line) > 1 << 16 and line.count(b"[") + line.count(b"{") > len(line) // 20:
        # Three bytes can be a list of their own, which takes twenty times as much memory.
        raise damaged(label, f"line {number} is {len(line):,} bytes of lists and objects")
    try:
        action = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise damaged(label, f"line {number} is not JSON ({type(error).__name__})") from error
    said = [(name, body) for name, body in action.items() if body is not None]
    if len(said) > 1:
        # Which of them Delta takes is nobody's promise.
        raise damaged(label, f"line {number} holds {len(said)} actions")
    return next(((name, checked_action(body, name, f"line {number}", label)) for name, body in said), None)


# What the readers of these fields rely on; other fields are turned into text or numbers, or left out.
_SHAPES = {
    **dict.fromkeys(("deletionVector", "partitionValues"), dict),
    **dict.fromkeys(("path", "appId", "id", "schemaString"), str),
    **dict.fromkeys(("readerFeatures", "writerFeatures"), list),
}
# Without these nobody knows which batch a writer has come to, or who may read the table. Delta takes 7.0 for 7.
_NUMBERS = {"txn": ("version",), "protocol": ("minReaderVersion",)}


def checked_action(body: object, name: str, where: str, label: str) -> Action:
    """The body of an action, whose fields have the shapes of the protocol. Raises CannotTell for another one."""
    if not isinstance(body, dict):
        raise damaged(label, f"{where}: {name} is not an object")
    for field, shape in _SHAPES.items():
        if field in body and body[field] is not None and not isinstance(body[field], shape):
            raise damaged(label, f"{where}: {name}.{field} is a {type(body[field]).__name__}")
    for field in _NUMBERS.get(name, ()):
        if integer(body.get(field)) is None:
            raise damaged(label, f"{where}: {name}.{field} is no whole number")
    if name == "txn" and not body.get("appId"):
        raise damaged(label, f"{where}: txn names no writer")
    return body


def log_unreadable(location: str, error: OSError) -> CannotTell:
    return CannotTell(
        f"{location}/_delta_log cannot be read: {error}",
        meaning="The table may be intact; nothing about it is known from here.",
        next=typed("ls", "-l", f"{location}/_delta_log"),
        do_not="treat an unreadable table as an empty one.",
        code="DeltaLogUnreadable",
    )


def damaged(label: str, what: str) -> CannotTell:
    return CannotTell(
        f"{label} {what}",
        meaning="The table's log is damaged or is not Delta's; what it holds cannot be told from it.",
        next=typed("head", "-c", 400, label),
        do_not="delete or edit files of _delta_log.",
        code="DeltaLogDamaged",
    )


def integer(value: object) -> int | None:
    """A 64-bit integer that JSON or parquet gave, or None. Booleans are not numbers here."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        return integer(int(value))
    return None
