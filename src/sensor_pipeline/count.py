"""Counts lost and duplicated rows without Spark: the input's own bytes against the tables' own files.

    input  ── every record: position, payload, judged again by this module's own reader ──┐
    tables ── every row of the Delta files, read with pyarrow ────────────────────────────┴──> Account

It shares no code with the stages on purpose: a mistake there must not hide itself here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from surestart.deltalog.active_files import read_active_files
from surestart.environment import Environment
from surestart.errors import CannotTell

Position = tuple[str, int, int]


@dataclass(frozen=True)
class Account:
    """Rows of each table, and what is wrong with them. `faults` names each kind of loss or duplication."""

    produced: int
    raw: int
    deserialized: int
    quarantined: int
    gold: int
    lost: int
    duplicated: int
    faults: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        return not self.lost and not self.duplicated and not self.faults


def count_rows(environment: Environment, records: Iterable[tuple[Position, bytes | None]]) -> Account:
    """Compares every record of the input with every row of the four tables."""
    payloads = dict(records)
    faults: Counter[str] = Counter()

    raw: Counter[Position] = Counter()
    for position, payload in _rows(environment, "sensor_raw", ("payload",)):
        raw[position] += 1
        if payloads.get(position, payload) != payload:
            faults["raw: bytes altered"] += 1
    faults["raw: lost"] = sum(1 for position in payloads if position not in raw)
    faults["raw: duplicated"] = sum(times - 1 for times in raw.values())
    faults["raw: from nowhere"] = sum(1 for position in raw if position not in payloads)

    expected_gold: dict[tuple[str, datetime], tuple[Any, ...]] = {}
    good: set[Position] = set()
    for position, payload in payloads.items():
        reading = judge(payload)
        if reading is None:
            continue
        good.add(position)
        sensor, time, revision, *values = reading
        candidate = (revision, position, *values)
        if (sensor, time) not in expected_gold or candidate[:2] > expected_gold[sensor, time][:2]:
            expected_gold[sensor, time] = candidate

    deserialized = Counter(position for (position,) in _rows(environment, "sensor_readings_deserialized", ()))
    quarantined = Counter(position for (position,) in _rows(environment, "sensor_quarantine", ()))
    both = deserialized + quarantined
    faults["deserialize: lost"] = sum(1 for position in payloads if position not in both)
    faults["deserialize: duplicated"] = sum(times - 1 for times in both.values())
    faults["deserialize: from nowhere"] = sum(1 for position in both if position not in payloads)
    faults["deserialize: good row in quarantine"] = sum(1 for position in quarantined if position in good)
    faults["deserialize: bad row accepted"] = sum(
        1 for position in deserialized if position in payloads and position not in good
    )

    gold: Counter[tuple[str, datetime]] = Counter()
    columns = ("sensor_id", "reading_time", "revision", "temperature", "humidity", "battery")
    for position, sensor, time, revision, *values in _rows(environment, "sensor_gold", columns):
        key = (sensor, time)
        gold[key] += 1
        if key in expected_gold and expected_gold[key] != (revision, position, *values):
            faults["gold: not the newest reading"] += 1
    faults["gold: lost"] = sum(1 for key in expected_gold if key not in gold)
    faults["gold: duplicated"] = sum(times - 1 for times in gold.values())
    faults["gold: from nowhere"] = sum(1 for key in gold if key not in expected_gold)

    found = {name: number for name, number in faults.items() if number}
    return Account(
        produced=len(payloads),
        raw=sum(raw.values()),
        deserialized=sum(deserialized.values()),
        quarantined=sum(quarantined.values()),
        gold=sum(gold.values()),
        lost=sum(
            number for name, number in found.items() if name.endswith(": lost") or name.endswith("newest reading")
        ),
        duplicated=sum(number for name, number in found.items() if name.endswith(": duplicated")),
        faults=found,
    )


def read_landed(landing: str) -> Iterator[tuple[Position, bytes | None]]:
    """Every record that has landed as a line of a file, with the position that the raw stage must give it."""
    for path in sorted(Path(landing).rglob("*")):
        if not path.is_file() or any(part.startswith((".", "_")) for part in path.relative_to(landing).parts):
            continue
        lines = path.read_bytes().split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        for number, line in enumerate(lines):
            yield (f"file:{path}", 0, number), line


_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z")
_LIMITS = {"temperature": (-60, 120), "humidity": (0, 100), "battery": (0, 100)}
# JSON sets no limits and lets each reader have its own (RFC 8259, 9). Those of the stage's reader are part of what a
# good record is: without them a record would be good for one of the two and not for the other.
_LEVELS, _DIGITS = 100, 1000


def judge(payload: bytes | None) -> tuple[str, datetime, int, float, float, float] | None:
    """A good record's sensor, time, revision and three values; None for one that belongs into quarantine."""
    if payload is None:
        return None
    try:
        message = _read_object(payload.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    sensor, time, revision = message.get("sensor_id"), message.get("reading_time"), message.get("revision")
    if not isinstance(sensor, str) or not isinstance(time, str) or not _TIME.fullmatch(time):
        return None
    if not isinstance(message.get("room", ""), str | None) or not isinstance(message.get("firmware", ""), str | None):
        return None
    if type(revision) is not int or not 0 <= revision <= 1_000_000:
        return None
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    values = []
    for name, (low, high) in _LIMITS.items():
        value = message.get(name)
        # type(), because True is an int to isinstance and no number in JSON.
        if value is None or (type(value) is not int and type(value) is not float):
            return None
        if not low <= value <= high:
            return None
        values.append(float(value))
    return sensor, moment, revision, values[0], values[1], values[2]


def _read_object(text: str) -> dict[str, Any]:
    """The one JSON object that the text is, strictly; ValueError for anything else."""
    if text.count("[") + text.count("{") > _LEVELS:
        _check_depth(text)
    message = (_DECODER if len(text) <= _DIGITS else _COUNTING_DECODER).decode(text)
    if not isinstance(message, dict):
        raise ValueError("not an object")
    if "\\u" in text:
        json.dumps(message, ensure_ascii=False).encode(
            "utf-8"
        )  # fails for half a surrogate pair, which is no character
    return message


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.S)):
        depth += 1 if bracket in "[{" else -1
        if depth > _LEVELS:
            raise ValueError(f"more than {_LEVELS} levels")


def _names_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice: JSON does not say which of the two values holds")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _short(number: str) -> str:
    if sum(map(str.isdecimal, number)) > _DIGITS:
        raise ValueError(f"a number of more than {_DIGITS} digits")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_names_once, parse_constant=_refuse_constant)
_COUNTING_DECODER = json.JSONDecoder(
    object_pairs_hook=_names_once,
    parse_constant=_refuse_constant,
    parse_int=lambda number: int(_short(number)),
    parse_float=lambda number: float(_short(number)),
)


def _rows(environment: Environment, name: str, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """(position, *columns) of each row in the table's active files; nothing for a table that does not exist yet."""
    table = environment.table(name)
    if not table.path:
        raise CannotTell(
            f"table {table.label} has no path that can be read from here",
            meaning="The independent count reads the tables' own files, which Unity Catalog does not hand out.",
            next="surestart verify",
            code="CannotCount",
        )
    if not (Path(table.path) / "_delta_log").exists():
        return
    import pyarrow.parquet as parquet

    wanted = ["source", "partition", "offset", *columns]
    for file in read_active_files(table.path):
        if file.deletion_vector:
            raise CannotTell(
                f"{table.label}/{file.path} has a deletion vector of {file.deleted_rows} rows",
                meaning="The independent count reads files as they are and would count deleted rows.",
                next=f"spark.sql('REORG TABLE {table.sql} APPLY (PURGE)')",
                code="CannotCount",
            )
        # One file, not a dataset: pyarrow would add the folder's partition value as a column of its own.
        # Spark writes INT96, which pyarrow would read as nanoseconds: those end in 1677 and in 2262, and wrap.
        with parquet.ParquetFile(  # type: ignore[no-untyped-call]
            Path(table.path) / file.path, coerce_int96_timestamp_unit="us"
        ) as content:
            for batch in content.iter_batches(columns=wanted):
                values = [_values(batch.column(column)) for column in wanted]
                for source, partition, offset, *rest in zip(*values, strict=True):
                    yield ((source, partition, offset), *rest)


def _values(column: Any) -> list[Any]:
    import pyarrow

    if pyarrow.types.is_timestamp(column.type):
        # Spark writes them without a zone: the value is UTC.
        return [_moment(value) for value in column.cast("timestamp[us]").cast("int64").to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(micros: int | None) -> datetime | int | None:
    """Outside of the years 1 to 9999 the number itself, which no reading's time is equal to."""
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return micros
