"""What is known of each position, and the gold that must follow from it: each missing or doubled row counted once.

decoded, raw    a row of the tables: remembered by its position
record          a record of the input, against the rows of its position: lost at the first table that lacks it
gold            a row of gold, against the newest reading of its key among the records that reached gold's input

Positions, keys and payloads as whole numbers. As tuples and bytes, those of 2,000,000 records take several GB.

position   number of (source, partition) * STRIDE + offset
gold key   number of the sensor * STRIDE + microseconds
payload    64 bits of its digest"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Generic, TypeVar

RowPosition = tuple[str, int, int]
DESERIALIZED, QUARANTINED = 1, 2
_DECODED, _RAW, _COMPARED, _RAW_UNREAD, _DECODED_UNREAD = 3, 4, 8, 16, 32
_FLAGS = 8  # bits; what stands above them is the digest of the payload in the raw table
_WORD, _IN_GOLD, _NO_OFFSET = 64, 1, 1 << 63
_LOST = ("raw: lost", "deserialize: lost", "gold: lost", "gold: not the newest reading")
_DUPLICATED = ("raw: duplicated", "deserialize: duplicated", "gold: duplicated")


class Tally:
    """judge: a good record's sensor, time, revision and values; None for a bad one. decodes: whether rows beyond the
    raw table are counted at all."""

    def __init__(self, judge: Callable[[bytes | None], tuple[Any, ...] | None], decodes: bool = True) -> None:
        self.faults: Counter[str] = Counter()
        self.pending: Counter[str] = Counter()
        self._judge, self._decodes = judge, decodes
        self._places: Numbered[tuple[str, int]] = Numbered()
        self._known: dict[int, int] = {}
        self._sensors: Numbered[str] = Numbered()
        # gold key -> revision, position and digest of the values of the newest reading, in one number, and _IN_GOLD
        self._newest: dict[int, int] = {}
        self._unexpected: set[int] = set()

    @property
    def lost(self) -> int:
        return sum(self.faults[name] for name in _LOST)

    @property
    def duplicated(self) -> int:
        return sum(self.faults[name] for name in _DUPLICATED)

    def decoded(self, position: RowPosition, where: int, unread: bool) -> None:
        key = self._key(position)
        known = self._known.get(key, 0)
        if known & _DECODED:
            self.faults["deserialize: duplicated"] += 1
        self._known[key] = known | where | unread * _DECODED_UNREAD

    def raw(self, position: RowPosition, payload: bytes | None, unread: bool) -> None:
        key = self._key(position)
        known = self._known.get(key, 0)
        if known & _RAW:
            self.faults["raw: duplicated"] += 1
        else:
            self._known[key] = known | _RAW | unread * _RAW_UNREAD | digest_payload(payload) << _FLAGS

    def record(self, position: RowPosition, payload: bytes | None, has_read: Callable[[RowPosition], bool]) -> None:
        """has_read: whether raw-ingest has read that position; asked where it has no row."""
        key = self._key(position)
        known = self._known.get(key, 0)
        if known:
            self._known[key] = known | _COMPARED
        if known & _RAW:
            if known >> _FLAGS != digest_payload(payload):
                self.faults["raw: bytes altered"] += 1
        elif has_read(position):
            self.faults["raw: lost"] += 1
        else:
            self.pending["raw-ingest"] += 1
        if self._decodes and known:
            self._decoded_record(key, known, payload)

    def gone(self, still_there: Callable[[RowPosition], bool]) -> int:
        """Counts the rows that no record was compared with, and returns how many of them the source has forgotten."""
        gone = 0
        for key, known in self._known.items():
            if known & _COMPARED:
                continue
            if not still_there(self._position(key)):
                gone += 1
                continue
            for where, table in ((_RAW, "raw"), (_DECODED, "deserialize")):
                if known & where:
                    self.faults[f"{table}: from nowhere"] += 1
            self._known[key] = known | _COMPARED
        return gone

    def kept(self, position: RowPosition, payload: bytes | None) -> None:
        """A row of the raw table: where its record is gone it stands for the record."""
        key = self._key(position)
        known = self._known[key]
        if not known & _COMPARED:
            self._known[key] = known | _COMPARED
            if self._decodes:
                self._decoded_record(key, known, payload)

    def gold(
        self, position: RowPosition, sensor: str, time: Any, revision: int | None, numbers: list[float | None]
    ) -> None:
        key = self._sensors.key(sensor, microseconds(time))
        newest = self._newest.get(key, 0)
        if newest & _IN_GOLD or key in self._unexpected:
            self.faults["gold: duplicated"] += 1
        if newest:
            self._newest[key] = newest | _IN_GOLD
        else:
            self._unexpected.add(key)
        position_key = self._key(position)
        if newest | _IN_GOLD == self._reading(position_key, revision or 0, numbers) | _IN_GOLD:
            return
        known = self._known.get(position_key, 0)
        if known & DESERIALIZED and (not known & _COMPARED or known & _DECODED_UNREAD):
            return  # its record is gone everywhere, or merge-gold goes on while this is counted
        self.faults["gold: not the newest reading" if newest else "gold: from nowhere"] += 1

    def end_of_gold(self) -> None:
        self.faults["gold: lost"] = sum(not newest & _IN_GOLD for newest in self._newest.values())

    def _decoded_record(self, key: int, known: int, payload: bytes | None) -> None:
        if not known & _DECODED:
            if known & _RAW_UNREAD:
                self.pending["deserialize"] += 1
            else:
                self.faults["deserialize: lost"] += 1
            return
        reading = self._judge(payload)
        if reading is None:
            if known & DESERIALIZED:
                self.faults["deserialize: bad row accepted"] += 1
            return
        if known & QUARANTINED:
            self.faults["deserialize: good row in quarantine"] += 1
        if not known & DESERIALIZED:
            return
        if known & _DECODED_UNREAD:
            self.pending["merge-gold"] += 1
            return
        sensor, time, revision, *numbers = reading
        gold_key = self._sensors.key(sensor, microseconds(time))
        candidate = self._reading(key, revision, numbers)
        if gold_key not in self._newest or self._rank(candidate) > self._rank(self._newest[gold_key]):
            self._newest[gold_key] = candidate

    def _reading(self, position_key: int, revision: int, numbers: list[float | None]) -> int:
        """Its lowest bit is free for _IN_GOLD; never 0, because the digest of numbers is not."""
        return ((revision << 2 * _WORD | position_key) << _WORD | digest_numbers(numbers)) << 1

    def _rank(self, reading: int) -> tuple[int, RowPosition]:
        revision, position_key = divmod(reading >> _WORD + 1, 1 << 2 * _WORD)
        return revision, self._position(position_key)

    def _key(self, position: RowPosition) -> int:
        source, partition, offset = position
        # A row that somebody wrote without an offset is found as one from nowhere.
        return self._places.key((source, partition), _NO_OFFSET if offset is None or offset < 0 else offset)

    def _position(self, key: int) -> RowPosition:
        (source, partition), offset = self._places.parts(key)
        return source, partition, offset


# Above every offset. Not a power of two: Python hashes a whole number modulo 2**61 - 1, and numbers that are shifted
# would fall on each other. Measured with 2**64: 288 s instead of 52 for 2,000,000 records.
_STRIDE = 0x9E3779B97F4A7C15
_BEGIN = datetime(1, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Name = TypeVar("Name", str, tuple[str, int])


class Numbered(Generic[Name]):
    """Names that many keys share have a number each; a key is that number and a place within it."""

    def __init__(self) -> None:
        self._numbers: dict[Name, int] = {}
        self.names: list[Name] = []

    def key(self, name: Name, within: int) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number * _STRIDE + within

    def parts(self, key: int) -> tuple[Name, int]:
        number, within = divmod(key, _STRIDE)
        return self.names[number], within


def digest_payload(payload: bytes | None) -> int:
    """Never 0 for bytes: no payload and an empty one are two things."""
    return 0 if payload is None else int.from_bytes(blake2b(payload, digest_size=8).digest(), "big") or 1


def digest_numbers(numbers: Sequence[float | None]) -> int:
    # Minus zero equals zero and has other bytes.
    known = [number + 0.0 for number in numbers if number is not None]
    return digest_payload(struct.pack(f"<{len(known)}d", *known)) if len(known) == len(numbers) else 0


def microseconds(moment: datetime | int | None) -> int:
    """Since the year 1; 0 for none, and for a time outside of the years 1 to 9999 a number that is no other's."""
    if moment is None:
        return 0
    return (moment - _BEGIN) // _MICROSECOND if isinstance(moment, datetime) else 1 << 62 | moment % (1 << 61)
