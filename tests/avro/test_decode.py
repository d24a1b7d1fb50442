"""Every Avro record becomes its values or a reason, exactly one of the two, and no bytes whatever end the JVM."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from surestart.avro.decode import decode_avro
from surestart.avro.registry import RegistryResolver
from surestart.avro.schemas import FixedSchema, FolderResolver
from surestart.errors import CannotTell, UsageError
from tests.avro.avro_bytes import confluent, encode, number, record, text

V1 = record(
    "Reading",
    {"name": "sensor_id", "type": "string"},
    {"name": "temperature", "type": "float"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
)
V2 = record(
    "Reading",
    {"name": "room", "type": ["null", "string"], "default": None},
    {"name": "sensor_id", "type": "string"},
    {"name": "celsius", "type": "double"},
)
# The reader: knows temperature by both names, gives the room a default, does not want the tags.
READER = record(
    "Reading",
    {"name": "sensor_id", "type": "string"},
    {"name": "temperature", "aliases": ["celsius"], "type": "double"},
    {"name": "room", "type": ["null", "string"], "default": None},
    {"name": "floor", "type": "int", "default": -1},
)
OTHER = record("Reading", {"name": "sensor_id", "type": "string"})

ONE = encode(V1, {"sensor_id": "s-1", "temperature": 21.5, "tags": ["a", "bb"]})
TWO = encode(V2, {"room": (1, "r-2"), "sensor_id": "s-2", "celsius": -3.25})


def _frame(spark: SparkSession, payloads: Any) -> Any:
    rows = [(number, None if payload is None else bytearray(payload)) for number, payload in enumerate(payloads)]
    return spark.createDataFrame(rows, "n INT, payload BINARY")


def _decoded(spark: SparkSession, payloads: Any, resolver: Any, reader: Any = READER) -> Any:
    rows = decode_avro(_frame(spark, payloads), "payload", text(reader), resolver).orderBy("n").collect()
    assert len(rows) == len(payloads)
    assert [(row.value is None) for row in rows] == [(row.reason is not None) for row in rows]
    return [row.reason if row.value is None else row.value.asDict() for row in rows]


@pytest.fixture
def folder(tmp_path: Path) -> FolderResolver:
    for schema_id, schema in ((7, V1), (300, V2), (8, OTHER), (9, "string")):
        (tmp_path / f"{schema_id}.avsc").write_text(text(schema))
    return FolderResolver(str(tmp_path))


def test_records_of_several_writers_become_one_readers_records_and_the_rest_says_why(spark, folder):
    damaged = [
        (confluent(99, ONE), "avro: schema id 99 is unknown"),
        (b'{"sensor_id": "s-1"}', "avro: first byte 7B is not the magic byte 00"),
        (b"\x01" + confluent(7, ONE)[1:], "avro: first byte 01 is not the magic byte 00"),
        (b"\x00\x00\x07", "3 bytes, a header alone has 5"),
        (b"", "unreadable: empty"),
        (None, "unreadable: empty"),
        (confluent(8, encode(OTHER, {"sensor_id": "s-1"})), "avro: a record of schema 8 cannot be read"),
        (confluent(9, encode("string", "s-1")), "avro: a record of schema 9 cannot be read"),
        (confluent(7, b""), "avro: not one whole record of schema 7"),
        (confluent(7, ONE + b"\x00"), "avro: not one whole record of schema 7"),
        (confluent(7, TWO), "avro: not one whole record of schema 7"),
    ]
    damaged += [(confluent(7, ONE[:length]), "avro: not one whole record of schema 7") for length in range(len(ONE))]
    damaged += [
        (confluent(300, TWO[:length]), "avro: not one whole record of schema 300") for length in range(len(TWO))
    ]
    found = _decoded(spark, [confluent(7, ONE), confluent(300, TWO), *(payload for payload, _ in damaged)], folder)
    assert found[:2] == [
        {"sensor_id": "s-1", "temperature": 21.5, "room": None, "floor": -1},
        {"sensor_id": "s-2", "temperature": -3.25, "room": "r-2", "floor": -1},
    ]
    for reason, (payload, expected) in zip(found[2:], damaged, strict=True):
        assert isinstance(reason, str), (payload, reason)
        assert reason.startswith(expected), payload


def test_a_corrupt_length_is_quarantined_and_does_not_end_the_jvm(spark, folder):
    """from_avro alone allocates what a length says: 1.9 GB here, an OutOfMemoryError and the end of Spark's JVM."""
    lengths = [2**31 - 20, 1_900_000_000, 2**40, -5, -(2**62)]
    bodies = [number(length) + b"x" for length in lengths]
    # The same for the number of items of an array.
    start = encode(V1, {"sensor_id": "s-1", "temperature": 21.5, "tags": []})[:-1]
    bodies += [start + number(length) for length in lengths]
    found = _decoded(spark, [confluent(7, body) for body in bodies], folder)
    assert {reason[:38] for reason in found} == {"avro: not one whole record of schema 7"}
    # Spark is still there.
    assert spark.range(3).count() == 3


def test_bytes_at_random_give_a_value_or_a_reason(spark, folder):
    dice = random.Random(42)
    payloads = []
    for _ in range(300):
        body = bytearray(dice.choice((ONE, TWO)))
        for _ in range(dice.randint(0, 3)):
            body[dice.randrange(len(body))] = dice.randrange(256)
        payloads.append(confluent(dice.choice((7, 300)), bytes(body)))
    found = _decoded(spark, payloads, folder)
    assert any(isinstance(one, dict) for one in found)
    assert any(isinstance(one, str) for one in found)


def test_a_fixed_schema_needs_no_header_and_works_on_a_stream(spark, tmp_path):
    found = _decoded(spark, [ONE, ONE[:-1], ONE + b"!", b"", None, TWO], FixedSchema(text(V1)))
    assert found[0] == {"sensor_id": "s-1", "temperature": 21.5, "room": None, "floor": -1}
    assert found[1:] == [
        "avro: not one whole record of the schema (truncated, or written with another one)",
        "avro: not one whole record of the schema (truncated, or written with another one)",
        "unreadable: empty",
        "unreadable: empty",
        "avro: not one whole record of the schema (truncated, or written with another one)",
    ]
    assert _decoded(spark, [encode(OTHER, {"sensor_id": "s"})], FixedSchema(text(OTHER))) == [
        "avro: the record cannot be read with the reader schema"
    ]
    _frame(spark, [ONE, b"?"]).write.format("delta").save(str(tmp_path / "raw"))
    stream = spark.readStream.format("delta").load(str(tmp_path / "raw"))
    query = (
        decode_avro(stream, "payload", text(READER), FixedSchema(text(V1)))
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination(120)
    rows = spark.read.format("delta").load(str(tmp_path / "out")).orderBy("n").collect()
    assert [(row.value is not None, row.reason is not None) for row in rows] == [(True, False), (False, True)]


def test_what_spark_itself_writes_is_read(spark, registry):
    """The hand-written encoder and Spark's agree."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import to_avro

    registry.register(5, V1)
    value = F.struct(
        F.lit("s-1").alias("sensor_id"),
        F.lit(21.5).cast("float").alias("temperature"),
        F.array(F.lit("a"), F.lit("bb")).alias("tags"),
    )
    written = spark.range(1).select(to_avro(value, text(V1)).alias("body")).collect()[0].body
    assert bytes(written) == ONE
    assert _decoded(spark, [confluent(5, bytes(written))], RegistryResolver(registry.url))[0]["sensor_id"] == "s-1"
    assert registry.asked == {"/schemas/ids/5": 1}


def test_a_wrong_default_in_a_writers_schema_does_not_matter(spark, tmp_path):
    """Registries take such schemas, Avro's parser refuses them; a default says nothing about records as written."""
    wrong = record(
        "Reading",
        {"name": "sensor_id", "type": ["string", "null"], "default": None},
        {"name": "temperature", "type": "double", "default": "warm"},
    )
    (tmp_path / "1.avsc").write_text(text(wrong))
    body = encode(wrong, {"sensor_id": (0, "s-1"), "temperature": 1.5})
    reader = record(
        "Reading", {"name": "sensor_id", "type": ["null", "string"]}, {"name": "temperature", "type": "double"}
    )
    assert _decoded(spark, [confluent(1, body)], FolderResolver(str(tmp_path)), reader) == [
        {"sensor_id": "s-1", "temperature": 1.5}
    ]


def test_a_batch_without_a_readable_row_still_has_the_readers_columns(spark, folder):
    decoded = decode_avro(_frame(spark, [b"?"]), "payload", text(READER), folder)
    assert decoded.schema["value"].dataType.fieldNames() == ["sensor_id", "temperature", "room", "floor"]
    assert decoded.where("value IS NULL AND reason IS NOT NULL").count() == 1
    assert decode_avro(_frame(spark, []), "payload", text(READER), folder).count() == 0


def test_an_unreachable_registry_fails_the_batch_and_quarantines_nothing(spark, registry):
    registry.fails_with = 503
    with pytest.raises(CannotTell, match="HTTP 503"):
        decode_avro(_frame(spark, [confluent(7, ONE)]), "payload", text(READER), RegistryResolver(registry.url))


@pytest.mark.parametrize("reader", ["", "{", '"string"', '{"type": "array", "items": "string"}', "[]"])
def test_a_reader_schema_that_has_no_columns_is_refused(reader):
    with pytest.raises(UsageError, match="not an Avro record"):
        decode_avro(None, "payload", reader, FixedSchema("{}"))
