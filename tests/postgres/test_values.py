"""What Spark holds is what PostgreSQL holds: every type, null and empty string apart, awkward text intact."""

from __future__ import annotations

import datetime as dt
import math
import re
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surestart.errors import UsageError
from surestart.facts.postgres.types import StagedColumn
from surestart.facts.postgres.url import DatabaseUrl
from surestart.sinks.postgres.batch import BatchWritten, write_batch
from surestart.sinks.postgres.copy import copy_batches
from surestart.sinks.postgres.sink import PostgresSink
from surestart.stage import BatchContext
from tests.postgres.database import EVENTS, Database, append, arrow_columns, readings
from tests.postgres.stream import local

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.none() | TEXTS | st.sampled_from(["", "\\.", "\n\\.\n", '"', "\\N", "\r\n", ",", "NULL", " "])),
        min_size=1,
        max_size=20,
    )
)
def test_any_text_comes_back_as_it_was(shared_database: Database, rows: list[tuple[str | None]]) -> None:
    database = shared_database
    database.execute("DROP TABLE IF EXISTS texts, surestart_ledger")
    database.execute("CREATE TABLE texts (n int, t text)")
    texts = [text for (text,) in rows]
    batch = pa.RecordBatch.from_pydict(
        {"n": pa.array(range(len(texts)), pa.int32()), "t": pa.array(texts, pa.string())}
    )
    what = replace(append(database, 0), target="texts", columns=arrow_columns(batch.schema))

    write_batch(what, lambda staging: (copy_batches([batch], what.url, staging),))

    assert database.rows("SELECT n, t FROM texts") == dict.fromkeys(enumerate(texts), 1)


# By hand, what PostgreSQL itself makes of the last: 0.30000000000000004 -> 0.3, 2^53 + 1 -> 2^53.
AWKWARD = [0.1 + 0.2, 1e22, 1e23, 5e-324, 2.0**53 + 2, -1 / 3, 1.7976931348623157e308, 123456789.123456789, -0.0]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
@example(AWKWARD)
def test_any_double_in_a_numeric_column_reads_back_as_the_same_double(
    shared_database: Database, doubles: list[float]
) -> None:
    database = shared_database
    database.execute("DROP TABLE IF EXISTS numbers, surestart_ledger")
    database.execute("CREATE TABLE numbers (n int, exact numeric, shown text, single numeric)")
    singles = pa.array(doubles, pa.float64()).cast(pa.float32(), safe=False)
    batch = pa.RecordBatch.from_pydict(
        {
            "n": pa.array(range(len(doubles)), pa.int32()),
            "exact": pa.array(doubles, pa.float64()),
            "shown": pa.array(doubles, pa.float64()),
            "single": pa.array([0.0 if math.isinf(one) else one for one in singles.to_pylist()], pa.float32()),
        }
    )
    # A server may be set so that a float's text is rounded.
    url = DatabaseUrl(variable="U").read({"U": database.url + "?options=-cextra_float_digits%3D0"})
    what = replace(append(database, 0), url=url, target="numbers", columns=arrow_columns(batch.schema))

    write_batch(what, lambda staging: (copy_batches([batch], what.url, staging),))

    with database.connect() as connection:
        found = connection.execute("SELECT exact, shown, single FROM numbers ORDER BY n").fetchall()
    # The same number again, and no more digits than tell it from its neighbours: 0.1, not 0.1000000000000000055.
    assert [float(exact) for exact, _, _ in found] == doubles
    assert all(len(f"{exact.normalize():e}".strip("-").partition("e")[0]) <= 18 for exact, _, _ in found)
    assert [float(shown) for _, shown, _ in found] == doubles
    assert pa.array([float(single) for *_, single in found], pa.float32()) == batch["single"]


def decimal(precision: int, scale: int) -> StagedColumn:
    return StagedColumn("v", "text", precision, scale)


@pytest.mark.parametrize(
    ("column", "kind", "values", "kept"),
    [
        # What the table would round is refused, whatever the values are; what it holds comes back.
        (StagedColumn("v", "bigint"), "double precision", [2**53 + 1], None),
        (StagedColumn("v", "bigint"), "real", [1], None),
        (StagedColumn("v", "integer"), "real", [2**24 + 1], None),
        (StagedColumn("v", "integer"), "double precision", [2**31 - 1], [2.0**31 - 1]),
        (StagedColumn("v", "smallint"), "real", [32767], [32767.0]),
        (StagedColumn("v", "bigint"), "numeric", [2**63 - 1], [Decimal(2**63 - 1)]),
        (StagedColumn("v", "double precision"), "real", [0.1], None),
        (StagedColumn("v", "double precision"), "cents", [0.005], None),
        (StagedColumn("v", "real"), "numeric(12,2)", [0.5], None),
        (StagedColumn("v", "real"), "double precision", [0.5], [0.5]),
        (decimal(20, 18), "numeric(12,2)", ["1.005000000000000001"], None),
        (decimal(20, 3), "cents", ["1.005"], None),
        (decimal(20, 3), "money", ["1.005"], None),
        (decimal(16, 0), "double precision", ["9007199254740993"], None),
        (decimal(7, 7), "real", ["0.1234567"], None),
        (decimal(15, 2), "double precision", ["1234567890123.25"], [1234567890123.25]),
        (decimal(38, 18), "numeric", ["12345678901234567890.123456789012345678"], ...),
        (decimal(12, 2), "cents", ["1234567890.12"], ...),
        (decimal(12, 2), "numeric(20,4)", ["1234567890.12"], ...),
        (StagedColumn("v", "timestamp with time zone"), "timestamptz(3)", [1_000_001], None),
        (StagedColumn("v", "timestamp without time zone"), "timestamp(0)", [1], None),
        (StagedColumn("v", "timestamp without time zone"), "timestamp(6)", [1], [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
    ],
)
def test_a_column_keeps_every_digit_or_is_refused(
    shared_database: Database, column: StagedColumn, kind: str, values: list[Any], kept: Any
) -> None:
    database = shared_database
    database.execute("DROP TABLE IF EXISTS numbers, surestart_ledger; DROP DOMAIN IF EXISTS cents")
    database.execute("CREATE DOMAIN cents AS numeric(12,2)")
    database.execute(f"CREATE TABLE numbers (v {kind})")
    what = replace(append(database, 0), target="numbers", columns=(column,))
    batch = pa.RecordBatch.from_pydict({"v": pa.array(values, ARROW[column.kind])})

    def run() -> BatchWritten:
        return write_batch(what, lambda staging: (copy_batches([batch], what.url, staging),))

    if kept is None:
        with pytest.raises(UsageError, match=f"would take v {re.escape(column.shown)} into ") as refused:
            run()
        assert refused.value.code == "PostgresTypeMismatch"
        assert database.rows("SELECT * FROM numbers") == {}
        return
    run()
    expected = [Decimal(value) for value in values] if kept is ... else kept
    assert database.rows("SELECT * FROM numbers") == {(value,): 1 for value in expected}


ARROW = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "text": pa.string(),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "timestamp without time zone": pa.timestamp("us"),
}


def test_every_spark_type_arrives_with_its_value(spark: Any, database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE kinds (n int, b boolean, s smallint, l bigint, f real, d double precision, m numeric(12,3),"
        ' day date, t timestamptz, nt timestamp, bytes bytea, st jsonb, ar jsonb, ma jsonb, "odd ""name" text)'
    )
    rows = spark.sql(
        """SELECT n, b, s, l, f, d, CAST(m AS DECIMAL(12,3)) m, day, t, nt, bytes, st, ar, ma, `odd "name` FROM VALUES
        (1, true, 7S, 9223372036854775807L, 0.1F, 1e300D, 123456789.125BD, DATE'2026-02-28',
         TIMESTAMP'2026-03-29 03:30:00.123456+02:00', TIMESTAMP_NTZ'2026-03-29 02:30:00', X'00FF5C',
         named_struct('x', 1, 'y', CAST(NULL AS STRING)), array('a', NULL), map('k', 1.5D), ''),
        (2, false, -7S, -1L, CAST('NaN' AS FLOAT), CAST('-Infinity' AS DOUBLE), -0.001BD, DATE'1900-01-01',
         TIMESTAMP'1969-12-31 23:59:59.999999Z', TIMESTAMP_NTZ'0001-01-01 00:00:00', X'', NULL, array(), map(), 'ü'),
        (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
        AS t(n, b, s, l, f, d, m, day, t, nt, bytes, st, ar, ma, `odd "name`)"""
    )

    _write(spark, tmp_path, rows, PostgresSink(target="kinds"))

    utc = dt.UTC
    with database.connect() as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        found = connection.execute("SELECT * FROM kinds ORDER BY n").fetchall()
    assert found[0] == (
        *(1, True, 7, 9223372036854775807, 0.1, 1e300, Decimal("123456789.125"), dt.date(2026, 2, 28)),
        *(dt.datetime(2026, 3, 29, 1, 30, 0, 123456, utc), dt.datetime(2026, 3, 29, 2, 30), b"\x00\xff\\"),
        *({"x": 1, "y": None}, ["a", None], {"k": 1.5}, ""),
    )
    assert str(found[1][4]) == "nan"
    assert found[1][5:] == (
        *(float("-inf"), Decimal("-0.001"), dt.date(1900, 1, 1)),
        *(dt.datetime(1969, 12, 31, 23, 59, 59, 999999, utc), dt.datetime(1, 1, 1), b"", None, [], {}, "ü"),
    )
    assert found[2] == (3, *[None] * 14)


@pytest.mark.parametrize(
    "sink", [PostgresSink(target="events", load="driver"), PostgresSink(target="events", connections=1)]
)
def test_the_driver_or_one_connection_loads_the_same_rows(
    spark: Any, database: Database, tmp_path: Path, sink: PostgresSink
) -> None:
    database.execute(EVENTS)
    rows = spark.createDataFrame(readings(0), "sensor string, part int, pos bigint, value double").repartition(3)

    written = _write(spark, tmp_path, rows, sink)

    assert written.rows == 1000
    assert database.rows("SELECT * FROM events") == dict.fromkeys(readings(0), 1)


def test_empty_partitions_open_no_connection(spark: Any, database: Database, tmp_path: Path) -> None:
    database.execute(EVENTS)
    rows = spark.createDataFrame(readings(0)[:1], "sensor string, part int, pos bigint, value double").repartition(8)
    before = database.one("SELECT sessions FROM pg_stat_database WHERE datname = current_database()")

    assert _write(spark, tmp_path, rows, PostgresSink(target="events")).rows == 1

    after = database.one("SELECT sessions FROM pg_stat_database WHERE datname = current_database()")
    # The driver's, one task's, and the two of this test's own questions.
    assert after - before <= 4


def test_prepare_creates_target_and_ledger_and_refuses_a_table_that_cannot_be_upserted(
    spark: Any, database: Database, tmp_path: Path
) -> None:
    columns = (("sensor", "text"), ("part", "int"), ("pos", "bigint"), ("value", "float8"))
    upsert = PostgresSink(target="gold", mode="upsert", keys=("sensor",), order=("part", "pos"))
    database.execute(EVENTS)

    PostgresSink(target="gold", mode="upsert", keys=("sensor",), order=("part", "pos"), columns=columns).prepare(
        spark, local(tmp_path)
    )
    upsert.prepare(spark, local(tmp_path))
    with pytest.raises(UsageError, match="no primary key or unique index"):
        PostgresSink(target="events", mode="upsert", keys=("sensor",), order=("pos",)).prepare(spark, local(tmp_path))

    assert database.rows("SELECT * FROM gold") == {}
    assert database.rows("SELECT * FROM surestart_ledger") == {}


def test_a_sink_that_makes_no_sense_is_refused_when_it_is_written() -> None:
    for wrong in (
        {"mode": "replace"},
        {"mode": "upsert"},
        {"mode": "append", "keys": ("a",)},
        {"target": "a.b.c"},
        {"load": "somewhere"},
        {"gaps": "ignore"},
    ):
        with pytest.raises(UsageError) as refused:
            PostgresSink(**wrong)
        assert refused.value.code == "PostgresSinkMisused"


def _write(spark: Any, root: Path, rows: Any, sink: PostgresSink) -> Any:
    """One batch of a query whose checkpoint holds nothing but its id."""
    checkpoint = root / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(f'{{"id":"{uuid.uuid4()}"}}')
    context = BatchContext(local(root), "load", "sensor-load", str(checkpoint))
    return sink.batch_writer(context).write(rows, 0)
