"""The actions of one commit file: a JSON object a line, one action an object.

    {"commitInfo":{...}}  {"txn":{"appId":..,"version":..,"lastUpdated":..}}  {"metaData":{..}}  {"protocol":{..}}
    {"add":{..}}  {"remove":{..}}  {"cdc":{..}}

A table's log is untrusted input here. Lines of kinds that nobody asked for are not parsed: a commit of 100,000 files
costs a scan, not 100,000 objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from surestart.errors import CannotTell

MAX_LINE = 64 << 20
_KIND = re.compile(rb'\s*\{\s*"([A-Za-z]{1,32})"')

Action = dict[str, Any]


def read_actions(content: bytes, wanted: Collection[str], label: str) -> Iterator[tuple[str, Action]]:
    """Kind and body of each wanted action, in file order. Raises CannotTell on a line that no Delta writer makes."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        kind = _KIND.match(line)
        if kind is None:
            raise damaged(label, f"line {number} is not an action")
        name = kind[1].decode("ascii")
        if name not in wanted:
            continue
        if len(line) > MAX_LINE:
            raise damaged(label, f"line {number} is {len(line):,} bytes long")
        try:
            action = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise damaged(label, f"line {number} is not JSON ({type(error).__name__})") from error
        body = action.get(name)
        if body is None:
            continue
        if not isinstance(body, dict):
            raise damaged(label, f"line {number}: {name} is not an object")
        yield name, body


def damaged(label: str, what: str) -> CannotTell:
    return CannotTell(
        f"{label} {what}",
        meaning="The table's log is damaged or is not Delta's; what it holds cannot be told from it.",
        next=f"head -c 400 '{label}'",
        do_not="delete or edit files of _delta_log.",
        code="DeltaLogDamaged",
    )


def integer(value: object) -> int | None:
    """An integer that JSON or parquet gave, or None. Booleans are not numbers here."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return None
