"""Lines that a reader may take for a reading and another not, each with the reason that it has to get ("" for none).

JSON here is RFC 8259 and nothing that readers accept besides. Where it leaves a choice (limits of depth and length) the
line says what was chosen. A name that stands twice, half of a surrogate pair and 1e400 for a text are no part of
it: readers differ.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

PLAIN = {
    "sensor_id": '"sensor-00001"',
    "room": '"room-01"',
    "firmware": '"2.1.1"',
    "reading_time": '"2026-01-01T00:00:00Z"',
    "revision": "0",
    "temperature": "21.5",
    "humidity": "40.5",
    "battery": "99.5",
}
UNREADABLE, SCHEMA, RANGE = "unreadable: ", "schema: ", "range: "


def record(more: str = "", **changes: str) -> bytes:
    """The plain record with some values written otherwise, "" for a field that is left out, and `more` at its end."""
    fields = [f'"{name}":{text}' for name, text in {**PLAIN, **changes}.items() if text]
    return ("{" + ",".join([*fields, *([more] if more else [])]) + "}").encode()


def nested(levels: int) -> str:
    """A field whose deepest value stands in so many arrays and objects, the record's own included."""
    arrays = levels - 1
    return '"x":' + "[" * arrays + "]" * arrays


def at(moment: str) -> bytes:
    return record(reading_time=f'"{moment}"')


A = record()
GOOD: dict[str, bytes] = {
    "plain": A,
    "as Python writes it": json.dumps(json.loads(A)).encode(),
    "indented with spaces and tabs": A.replace(b",", b" ,\t ").replace(b'":', b'"\t:  '),
    "white space around": b" \t" + A + b" \t ",
    "a carriage return at the end": A + b"\r",
    "fields in another order": b"{" + b",".join(reversed(A[1:-1].split(b","))) + b"}",
    "a field more": record('"x":1'),
    "a field more without a name": record('"":1'),
    "an object more": record('"x":{"y":{"z":[1,{"room":5}]}}'),
    "an object before": A.replace(b"{", b'{"x":{"room":5},', 1),
    "a string more that holds braces": record('"x":"}{}"'),
    "a brace in the room": record(room='"a}b"'),
    "a quote in the room": record(room=r'"a\"b"'),
    "a field's text in the room": record(room=r'"\"room\":5,"'),
    "an escaped name": A.replace(b'"room"', rb'"\u0072oom"'),
    "all escapes": record(room=r'"\"\\\/\b\f\n\r\tA"'),
    "a room without ASCII": record(room='"Küche 厨房 🌡"'),
    "a surrogate pair": record(room=r'"\ud83c\udf21"'),
    "an escaped backslash before ud800": record(room=r'"\\ud800"'),
    "a character that is none": record(room=r'"￿\uffff"'),
    "DEL and line separators in a string": record(room='"\x7f\u0085\u2028"'),
    "an escaped NUL": record(room=r'"\u0000"'),
    "room null": record(room="null"),
    "room missing": record(room=""),
    "firmware null, with spaces": A.replace(b'"firmware":"2.1.1"', b'"firmware" : null '),
    "all texts empty that may be": record(sensor_id='""', room='""', firmware='""'),
    "a room called null": record(room='"null"'),
    "negative zeros": record(battery="-0.0", humidity="-0", revision="-0"),
    "exponents": record(temperature="2E+1", humidity="405e-1", battery="1e-400"),
    "many digits": record(temperature="21." + "5" * 300),
    "an integer where a double is wanted": record(temperature="21"),
    "more than an int in a field more": record('"x":99999999999999999999'),
    "1e400 in a field more": record('"x":1e400'),
    "1000 digits in a field more": record('"x":' + "7" * 1000),
    "1000 digits in pieces": record(f'"x":-{"7" * 500}.{"7" * 497}e+777'),
    "1001 digits in a string": record(f'"x":"{"7" * 1001}"'),
    "100 levels": record(nested(100)),
    "200 brackets in a string": record('"x":"' + "[{" * 100 + '"'),
    "200 arrays side by side": record('"x":[' + ",".join(["[]"] * 200) + "]"),
    "a name of the record in an inner object": record('"x":{"room":"b","sensor_id":7}'),
    "the same name in another case": record('"Room":5,"ROOM":6'),
    "the first moment": at("0001-01-01T00:00:00Z"),
    "a leap day long ago": at("1200-02-29T12:34:56Z"),
    "a day that the calendar left out": at("1582-10-10T23:59:59Z"),
    "before nanoseconds begin": at("1500-06-01T00:00:01Z"),
    "after nanoseconds end": at("2262-04-12T00:00:00Z"),
    "the last moment": at("9999-12-31T23:59:59Z"),
}
BAD: dict[str, tuple[bytes, str]] = {
    # Not one JSON text.
    "nothing": (b"", UNREADABLE + "empty"),
    "white space only": (b" \t\r", UNREADABLE + "empty"),
    "two records": (A + A, UNREADABLE),
    "two records, a space between": (A + b" " + A, UNREADABLE),
    "two records, a comma between": (A + b"," + A, UNREADABLE),
    "the second cut off": (A + A[:50], UNREADABLE),
    "a word behind": (A + b"garbage", UNREADABLE),
    "a number behind": (A + b" 1", UNREADABLE),
    "a brace behind": (A + b"}", UNREADABLE),
    "a bracket behind": (A + b"]", UNREADABLE),
    "brackets that close a list": (A + b"],[", UNREADABLE),
    "an element and the end of a list": (A + b",1]", UNREADABLE),
    "two elements and the end of a list": (A + b",0,0]", UNREADABLE),
    "a comma behind": (A + b",", UNREADABLE),
    "a quote behind": (A + b',"', UNREADABLE),
    "a NUL behind": (A + b"\x00", UNREADABLE),
    "a form feed behind": (A + b"\x0c", UNREADABLE),
    "a no-break space behind": (A + "\u00a0".encode(), UNREADABLE),
    "a comment behind": (A + b"//", UNREADABLE),
    "an object and more behind": (record('"x":{}') + b"{}", UNREADABLE),
    "cut off": (A[:-1], UNREADABLE),
    "cut off in a string": (A[:20], UNREADABLE),
    "a list of one": (b"[" + A + b"]", UNREADABLE),
    "an empty list": (b"[]", UNREADABLE),
    "null": (b"null", UNREADABLE),
    "a number": (b"5", UNREADABLE),
    "a string": (b'"a"', UNREADABLE),
    "an object in a string": (json.dumps(A.decode()).encode(), UNREADABLE),
    # Not UTF-8, or not characters.
    "a byte order mark": (b"\xef\xbb\xbf" + A, UNREADABLE),
    "UTF-16": (A.decode().encode("utf-16"), UNREADABLE + "not UTF-8"),
    "Latin-1": (record(room='"Küche"').decode().encode("latin-1"), UNREADABLE + "not UTF-8"),
    "an overlong slash": (A.replace(b"room-", b"room\xc0\xaf"), UNREADABLE + "not UTF-8"),
    "a surrogate as bytes": (A.replace(b"room-", b"room\xed\xa0\x80"), UNREADABLE + "not UTF-8"),
    "beyond the last character": (A.replace(b"room-", b"room\xf4\x90\x80\x80"), UNREADABLE + "not UTF-8"),
    # What lenient readers accept.
    "single quotes": (A.replace(b'"', b"'"), UNREADABLE),
    "single quotes around a value": (record(room="'a'"), UNREADABLE),
    "single quotes in a field more": (record("'x':1"), UNREADABLE),
    "a name without quotes": (record("x:1"), UNREADABLE),
    "a comment": (record('"x":/* */1'), UNREADABLE),
    "a comma at the end": (A[:-1] + b",}", UNREADABLE),
    "two commas": (A.replace(b",", b",,", 1), UNREADABLE),
    "NaN": (record(temperature="NaN"), UNREADABLE),
    "NaN in a field more": (record('"x":NaN'), UNREADABLE),
    "Infinity": (record(humidity="Infinity"), UNREADABLE),
    "minus Infinity in a field more": (record('"x":-Infinity'), UNREADABLE),
    "INF in a field more": (record('"x":+INF'), UNREADABLE),
    "a zero before": (record(temperature="021.5"), UNREADABLE),
    "zeros before in a field more": (record('"x":007'), UNREADABLE),
    "a plus": (record(temperature="+21.5"), UNREADABLE),
    "no digit before the point": (record(temperature=".5"), UNREADABLE),
    "no digit after the point": (record(temperature="21."), UNREADABLE),
    "hexadecimal": (record(revision="0x1"), UNREADABLE),
    "True": (record('"x":True'), UNREADABLE),
    "a tab in a string": (record(room='"a\tb"'), UNREADABLE),
    "a control character in a string": (record(room='"a\x01b"'), UNREADABLE),
    "a control character in a field more": (record('"x":"a\x1fb"'), UNREADABLE),
    "a NUL in a string": (record(room='"a\x00b"'), UNREADABLE),
    "a form feed between": (A.replace(b",", b",\x0c", 1), UNREADABLE),
    "an escape that is none": (record(room=r'"a\qb"'), UNREADABLE),
    "an escaped single quote": (record(r'"x":"\'"'), UNREADABLE),
    "an escape of three digits": (record(r'"x":"\u00g0"'), UNREADABLE),
    # Beyond the limits of both readers.
    "101 levels": (record(nested(101)), UNREADABLE),
    "101 levels, with quotes and brackets in strings": (record(r'"y":"\"]]]",' + nested(101)), UNREADABLE),
    "5000 levels": (record(nested(5000)), UNREADABLE),
    "5000 brackets": (b"[" * 5000, UNREADABLE),
    "5000 objects": (b'{"x":' * 5000 + b"1" + b"}" * 5000, UNREADABLE),
    "1001 digits in a field more": (record('"x":' + "7" * 1001), UNREADABLE),
    "1001 digits in pieces": (record(f'"x":-{"7" * 500}.{"7" * 498}e+777'), UNREADABLE),
    # Of another type.
    "an empty object": (b"{}", SCHEMA + "sensor_id is missing"),
    "no sensor": (record(sensor_id=""), SCHEMA + "sensor_id is missing"),
    "sensor null": (record(sensor_id="null"), SCHEMA + "sensor_id is missing"),
    "sensor in another case": (A.replace(b"sensor_id", b"Sensor_id"), SCHEMA + "sensor_id is missing"),
    "a sensor number": (record(sensor_id="5"), SCHEMA + "sensor_id"),
    "a sensor number, with spaces": (
        A.replace(b'"sensor_id":"sensor-00001"', b'"sensor_id" : 5'),
        SCHEMA + "sensor_id",
    ),
    "a sensor number, name escaped": (record(sensor_id="5").replace(b"sensor_id", rb"sensor\u005fid"), SCHEMA),
    "a true sensor": (record(sensor_id="true"), SCHEMA + "sensor_id"),
    "a sensor object": (record(sensor_id='{"id":"a"}'), SCHEMA + "sensor_id"),
    "a sensor list": (record(sensor_id='["a"]'), SCHEMA + "sensor_id"),
    "a room number": (record(room="5"), SCHEMA + "room"),
    "a room number and a text of that name": (record(r'"x":"\"room\":\"a\""', room="5"), SCHEMA + "room"),
    "a room number and an inner room": (record('"x":{"room":"a"}', room="5"), SCHEMA + "room"),
    "a false room": (record(room="false"), SCHEMA + "room"),
    "an empty room object": (record(room="{}"), SCHEMA + "room"),
    "an empty room list": (record(room="[]"), SCHEMA + "room"),
    "a firmware number": (record(firmware="2.1"), SCHEMA + "firmware"),
    "a firmware object": (record(firmware='{"firmware":"a"}'), SCHEMA + "firmware"),
    "a time number": (record(reading_time="20260101"), SCHEMA + "reading_time"),
    "no time": (record(reading_time=""), SCHEMA + "reading_time"),
    "no revision": (record(revision=""), SCHEMA + "revision"),
    "revision 1.0": (record(revision="1.0"), SCHEMA),
    "revision 1e0": (record(revision="1e0"), SCHEMA),
    "revision as text": (record(revision='"1"'), SCHEMA),
    "revision true": (record(revision="true"), SCHEMA),
    "revision beyond int": (record(revision="2147483648"), SCHEMA),
    "revision beyond long": (record(revision="99999999999999999999"), SCHEMA),
    "temperature as text": (record(temperature='"21.5"'), SCHEMA),
    "temperature as text NaN": (record(temperature='"NaN"'), SCHEMA),
    "temperature as text Infinity": (record(temperature='"-Infinity"'), SCHEMA),
    "temperature as empty text": (record(temperature='""'), SCHEMA),
    "temperature null": (record(temperature="null"), SCHEMA + "temperature is missing"),
    "temperature true": (record(temperature="true"), SCHEMA),
    "temperature in a list": (record(temperature="[21.5]"), SCHEMA),
    # No time of the form 2026-01-01T00:00:00Z.
    "a day": (at("2026-01-01"), SCHEMA + "reading_time"),
    "an offset": (at("2026-01-01T00:00:00+00:00"), SCHEMA + "reading_time"),
    "no zone": (at("2026-01-01T00:00:00"), SCHEMA + "reading_time"),
    "a small z": (at("2026-01-01T00:00:00z"), SCHEMA + "reading_time"),
    "a space for the T": (at("2026-01-01 00:00:00Z"), SCHEMA + "reading_time"),
    "part of a second": (at("2026-01-01T00:00:00.5Z"), SCHEMA + "reading_time"),
    "a line end behind": (at(r"2026-01-01T00:00:00Z\n"), SCHEMA + "reading_time"),
    "a carriage return behind": (at(r"2026-01-01T00:00:00Z\r"), SCHEMA + "reading_time"),
    "a line separator behind": (at(r"2026-01-01T00:00:00Z\u2028"), SCHEMA + "reading_time"),
    "a space before": (at(" 2026-01-01T00:00:00Z"), SCHEMA + "reading_time"),
    "other digits": (at("٢٠٢٦-01-01T00:00:00Z"), SCHEMA + "reading_time"),
    "30 February": (at("2026-02-30T00:00:00Z"), SCHEMA + "reading_time"),
    "29 February 1500": (at("1500-02-29T00:00:00Z"), SCHEMA + "reading_time"),
    "24 o'clock": (at("2026-01-01T24:00:00Z"), SCHEMA + "reading_time"),
    "a leap second": (at("2016-12-31T23:59:60Z"), SCHEMA + "reading_time"),
    "the year 0": (at("0000-01-01T00:00:00Z"), SCHEMA + "reading_time"),
    "the year 10000": (at("10000-01-01T00:00:00Z"), SCHEMA + "reading_time"),
    "the year -1": (at("-001-01-01T00:00:00Z"), SCHEMA + "reading_time"),
    # What no sensor measures.
    "1e400": (record(temperature="1e400"), RANGE + "temperature"),
    "-1e400": (record(humidity="-1e400"), RANGE + "humidity"),
    "401 digits": (record(battery="1" + "0" * 400), RANGE + "battery"),
    "a little too warm": (record(temperature="120.00000000000002"), RANGE + "temperature"),
    "below zero per cent": (record(humidity="-5e-324"), RANGE + "humidity"),
    "revision -1": (record(revision="-1"), RANGE + "revision"),
    "revision 1000001": (record(revision="1000001"), RANGE + "revision"),
}
LINES = {**{name: (line, "") for name, line in GOOD.items()}, **BAD}

_PIECES = [
    *(b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\u", b"\\ud83c", b"\\udf21", b" ", b"\t", b"\x00"),
    *(b"\r", b"0", b"-", b"+", b".", b"e9", b"NaN", b"null", b"true", b"5", b"//", b"\x1f"),
    *(b'"room":5,', b'"room":"b",', b',"x":1', b',"x":{"room":5}', "\u00a0".encode(), "\ufeff".encode(), "🌡".encode()),
    *(b"\xff", b"\xc0\xaf", A, A[:40], A[-40:]),
]  # fmt: skip


def mangled(count: int, seed: int = 42) -> Iterator[bytes]:
    """Lines of the table with one to three pieces put in, cut out or moved: what nobody thought of."""
    dice = random.Random(seed)
    lines = [line for line, _ in LINES.values() if len(line) < 400]
    for _ in range(count):
        line = dice.choice(lines) if dice.random() < 0.5 else A
        for _ in range(dice.choice((1, 1, 1, 2, 2, 3))):
            here, there = sorted(dice.randrange(len(line) + 1) for _ in range(2))
            match dice.randrange(4):
                case 0:
                    line = line[:here] + dice.choice(_PIECES) + line[here:]
                case 1:
                    line = line[:here] + line[min(there, here + dice.choice((1, 1, 2, 9))) :]
                case 2:
                    line = line[:here] + dice.choice(_PIECES) + line[here + 1 :]
                case _:
                    line = line[:here] + line[there:] + line[here:there]
        line = line.replace(b"\n", b"")
        if not _is_left_open(line):
            yield line


def _is_left_open(line: bytes) -> bool:
    """A name that stands twice, or half of a surrogate pair."""
    twice = False

    def look(pairs: list[tuple[str, object]]) -> None:
        nonlocal twice
        twice = twice or len(dict(pairs)) < len(pairs)

    try:
        json.loads(line.decode("utf-8"), object_pairs_hook=look)
    except (ValueError, RecursionError):
        return False
    return twice or re.search(rb"\\u[dD][89a-fA-F]", line) is not None
