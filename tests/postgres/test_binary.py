"""Arrow values reach PostgreSQL's binary rows unchanged, whatever is null and wherever a batch was cut."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from surestart.sinks.postgres.copy import HEADER, TRAILER, encode
from tests.postgres.database import Database, arrow_columns

MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999))
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "whole": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "single": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "twofold": (pa.float64(), st.floats(allow_nan=False)),
    "yes": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates()),
    "at": (pa.timestamp("us", "Europe/Berlin"), MOMENTS.map(lambda at: at.replace(tzinfo=dt.UTC))),
    "local": (pa.timestamp("us"), MOMENTS),
    "words": (pa.string(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)),
    "bytes": (pa.binary(), st.binary(max_size=9)),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()])
ROWS = st.lists(st.tuples(*(st.none() | values for _, values in KINDS.values())), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None)
@given(ROWS, st.data())
def test_every_value_comes_back(shared_database: Database, rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows) - 1))
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    cut = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA).slice(start)
    columns = arrow_columns(SCHEMA)

    with shared_database.connect() as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        declared = ", ".join(f"{column.name} {column.kind}" for column in columns)
        connection.execute(f"CREATE TEMPORARY TABLE kinds (n serial, {declared})")
        with connection.cursor().copy(f"COPY kinds ({', '.join(KINDS)}) FROM STDIN (FORMAT binary)") as copy:
            copy.write(HEADER)
            copy.write(encode(cut, tuple(column.kind for column in columns)))
            copy.write(TRAILER)
        # A real is printed with the few digits that identify it among reals; widened, it is printed whole.
        wanted = ", ".join(KINDS).replace("single", "single::float8")
        found = connection.execute(f"SELECT {wanted} FROM kinds ORDER BY n").fetchall()

    assert found == rows[start:]


def test_long_offsets_of_large_strings_are_read(shared_database: Database) -> None:
    batch = pa.RecordBatch.from_pydict({"t": pa.array(["ab", None, "", "ü"], pa.large_string())})

    with shared_database.connect() as connection:
        connection.execute("CREATE TEMPORARY TABLE words (n serial, t text)")
        with connection.cursor().copy("COPY words (t) FROM STDIN (FORMAT binary)") as copy:
            copy.write(HEADER)
            copy.write(encode(batch, ("text",)))
            copy.write(TRAILER)
        found = connection.execute("SELECT t FROM words ORDER BY n").fetchall()

    assert found == [("ab",), (None,), ("",), ("ü",)]
