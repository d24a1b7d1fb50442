"""Counts lost and duplicated rows without Spark: the input's own bytes against the tables' own files.

    input  ── every record: position, payload, judged again by this module's own reader ──┐
    tables ── every row of the Delta files, read with pyarrow ────────────────────────────┴──> Account

A record that is missing is lost where it is missing first, and once. One that the stage has not read yet, by its
checkpoint, is pending. A row whose record the source no longer holds is compared with what the raw table kept of it.
It shares no code with the stages on purpose: a mistake there must not hide itself here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sensor_pipeline.reached import TableFiles, read_by_raw_ingest, read_table_files
from sensor_pipeline.tally import DESERIALIZED, QUARANTINED, RowPosition, Tally
from surestart import CannotTell, Environment, StageProgress, read_stage_progress
from surestart.typed import delta_name, spark_sql

STAGES = ("raw-ingest", "deserialize", "merge-gold")
_NOT_READ_YET = {"raw-ingest": "landed meanwhile", "deserialize": "in raw", "merge-gold": "deserialized"}


@dataclass(frozen=True)
class Account:
    """Rows of each table, and what is wrong with them. None: not counted.

    faults: each kind of loss or duplication, by its name.
    pending: the stages that have not read everything yet.
    gone: rows whose record the source no longer holds."""

    produced: int
    raw: int
    deserialized: int | None
    quarantined: int | None
    gold: int | None
    lost: int
    duplicated: int
    faults: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    gone: int = 0

    @property
    def is_exact(self) -> bool:
        return not self.lost and not self.duplicated and not self.faults

    @property
    def notes(self) -> Mapping[str, int]:
        """What is no fault and has to be said."""
        said = {f"{_NOT_READ_YET[stage]}, not read yet": number for stage, number in self.pending.items()}
        return said | ({"no longer in the source": self.gone} if self.gone else {})


def count_rows(
    environment: Environment,
    records: Iterable[tuple[RowPosition, bytes | None]],
    *,
    last: str = "merge-gold",
    begins: Callable[[], Mapping[tuple[str, int], int]] = dict,
) -> Account:
    """Compares every record of the input with every row of the tables, up to the output of the stage `last`.

    begins: the first offset that each partition of a topic still has, asked when all records have been read.
    """
    # From the end of the pipeline to its beginning: what comes in meanwhile is then pending, and nothing from nowhere.
    progress = {stage: read_stage_progress(environment.checkpoint(stage)) for stage in STAGES}
    decodes, merges = last != "raw-ingest", last == "merge-gold"
    tally = Tally(judge, decodes)
    gold_files = read_table_files(environment, "sensor_gold")
    deserialized = quarantined = gold = 0
    if decodes:
        below = _trusted(progress["merge-gold"], rows_there=bool(gold_files.files))
        deserialized = _count_decoded(
            tally, DESERIALIZED, read_table_files(environment, "sensor_readings_deserialized", below)
        )
        quarantined = _count_decoded(tally, QUARANTINED, read_table_files(environment, "sensor_quarantine"))
    below = _trusted(progress["deserialize"], rows_there=deserialized + quarantined > 0)
    raw_files = read_table_files(environment, "sensor_raw", below)
    begun, raw = set(), 0
    for position, unread, payload in _rows(raw_files, ("payload",)):
        tally.raw(position, payload, unread)
        begun.add(position[0])
        raw += 1
    has_read = read_by_raw_ingest(progress["raw-ingest"], frozenset(begun))
    first: dict[tuple[str, int], int] = {}
    produced = 0
    for position, payload in records:
        tally.record(position, payload, has_read)
        first.setdefault(position[:2], position[2])
        produced += 1
    gone = tally.gone(_still_there({**first, **begins()}))
    if gone:
        for position, _, payload in _rows(raw_files, ("payload",)):
            tally.kept(position, payload)
    if merges:
        gold = _count_gold(tally, gold_files)
    return Account(
        produced=produced,
        raw=raw,
        deserialized=deserialized if decodes else None,
        quarantined=quarantined if decodes else None,
        gold=gold if merges else None,
        lost=tally.lost,
        duplicated=tally.duplicated,
        faults={name: number for name, number in tally.faults.items() if number},
        pending={stage: tally.pending[stage] for stage in STAGES if tally.pending[stage]},
        gone=gone,
    )


def _count_decoded(tally: Tally, table: int, files: TableFiles) -> int:
    rows = 0
    for position, unread in _rows(files, ()):
        tally.decoded(position, table, unread)
        rows += 1
    return rows


def _count_gold(tally: Tally, files: TableFiles) -> int:
    columns = ("sensor_id", "reading_time", "revision", "temperature", "humidity", "battery")
    rows = 0
    for position, _, sensor, time, revision, *numbers in _rows(files, columns):
        tally.gold(position, sensor, time, revision, numbers)
        rows += 1
    tally.end_of_gold()
    return rows


def _trusted(progress: StageProgress, rows_there: bool) -> StageProgress | None:
    """How far the stage has come; None where its checkpoint is not there but its output is: then no row is excused."""
    return None if progress.committed is None and rows_there else progress


def _still_there(first: Mapping[tuple[str, int], int]) -> Callable[[RowPosition], bool]:
    """Whether the source still has that place, so that a row of it must be one of its records. first: the first offset
    of each partition or file that the source gave."""

    def still_there(position: RowPosition) -> bool:
        source, partition, offset = position
        if (source, partition) in first:
            return offset >= first[source, partition]
        # An empty file gives no record.
        return str(source).startswith("file:") and Path(str(source).removeprefix("file:")).exists()

    return still_there


def read_landed(landing: str) -> Iterator[tuple[RowPosition, bytes | None]]:
    """Every record that has landed as a line of a file, with the position that the raw stage must give it."""
    for path in sorted(Path(landing).rglob("*")):
        if not path.is_file() or any(part.startswith((".", "_")) for part in path.relative_to(landing).parts):
            continue
        lines = path.read_bytes().split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        source = f"file:{path}"
        for number, line in enumerate(lines):
            yield (source, 0, number), line


_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z")
_LIMITS = {"temperature": (-60, 120), "humidity": (0, 100), "battery": (0, 100)}
# JSON sets no limits and lets each reader have its own (RFC 8259, 9). Those of the stage's reader are part of what a
# good record is: without them a record would be good for one of the two and not for the other.
_LEVELS, _DIGITS = 100, 1000


def judge(payload: bytes | None) -> tuple[str, datetime, int, float, float, float] | None:
    """A good record's sensor, time, revision and three values; None for one that belongs in quarantine."""
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
    return message


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.S)):
        depth += 1 if bracket in "[{" else -1
        if depth > _LEVELS:
            raise ValueError(f"more than {_LEVELS} levels")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _short(number: str) -> str:
    if sum(map(str.isdecimal, number)) > _DIGITS:
        raise ValueError(f"a number of more than {_DIGITS} digits")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_COUNTING_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_int=lambda number: int(_short(number)),
    parse_float=lambda number: float(_short(number)),
)


def _rows(table: TableFiles, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """(position, whether the next stage has yet to read it, *columns) of each row in the files."""
    if not table.files:
        return
    import pyarrow.parquet as parquet

    wanted = ["source", "partition", "offset", *columns]
    for file in table.files:
        if file.deletion_vector:
            raise CannotTell(
                f"{table.label}/{file.path} has a deletion vector of {file.deleted_rows} rows",
                meaning="The independent count reads files as they are and would count deleted rows.",
                next=spark_sql(f"REORG TABLE {delta_name(table.label)} APPLY (PURGE)"),
                code="CannotCount",
            )
        unread = file.path in table.unread
        # One file, not a dataset: pyarrow would add the folder's partition value as a column of its own.
        # Spark writes INT96 unless it is told not to, as a local session of ours is; pyarrow would read it as
        # nanoseconds: those end in 1677 and in 2262, and wrap.
        with parquet.ParquetFile(  # type: ignore[no-untyped-call]
            table.folder / file.path, coerce_int96_timestamp_unit="us"
        ) as content:
            for batch in content.iter_batches(columns=wanted):
                values = [_values(batch.column(column)) for column in wanted]
                for source, partition, offset, *rest in zip(*values, strict=True):
                    yield ((source, partition, offset), unread, *rest)


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
