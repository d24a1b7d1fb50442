"""Decodes a column of Avro bytes row by row: a struct, or the reason why not. Never neither, never both, never a crash.

    Confluent wire format          00 │ 00 00 00 07 │ body            magic byte, schema id (big-endian), one record
    fixed schema                   body

    decode_avro(df, "payload", reader_schema, resolver)      ->  df with value STRUCT, reason STRING
        ids in df  ── distinct, on the driver ──> one writer schema per id ──> one branch per id, in one pass

Two decodings per row. The first one skips through the body by the writer's schema and looks at what follows:

    writer {v: <writer schema>, tail: fixed(8)}   reader {tail: fixed(8)}   input  body ++ TAIL   output  = TAIL ?

Only if the record ends exactly where TAIL begins is the body one whole record: a truncated one, or one with bytes left
over, gives something else. Only then is it decoded into the reader schema. from_avro alone accepts left-over bytes, and
a corrupt length makes it allocate what the length says: one such record ends Spark's JVM with an OutOfMemoryError, at
each restart again. Skipping allocates nothing. docs/decisions/0009-avro-two-decodings.md
"""

from __future__ import annotations

import json
from typing import Any

from surestart.avro.schemas import FixedSchema, SchemaResolver, WriterSchema, resolve
from surestart.errors import UsageError
from surestart.library_types import Column, DataFrame, SparkSession
from surestart.spark.session import spark_version
from surestart.spark.spark_lines import DEFAULT, LINES, get_line
from surestart.typed import typed
from surestart.words.next_commands import install
from surestart.words.spark_errors import is_condition

MAGIC = b"\x00"
HEADER_BYTES = 5
# No record ends in these bytes by chance, and no field of a record has a reason to.
TAIL = bytes.fromhex("9e5a1f00c3d27b84")
_TAIL_FIELD = {"name": "tail", "type": {"type": "fixed", "name": "SurestartTail", "size": len(TAIL)}}


def decode_avro(
    df: DataFrame,
    payload: str,
    reader_schema: str,
    resolver: SchemaResolver | FixedSchema,
    *,
    value: str = "value",
    reason: str = "reason",
) -> DataFrame:
    """Every row of df once, with `value` (null if unreadable) and `reason` (null if readable).

    With a resolver df must be a batch: the ids in it are collected first. With a FixedSchema a stream will do.
    """
    reader = check_reader_schema(reader_schema)
    if isinstance(resolver, FixedSchema):
        return _decode_fixed(df, payload, reader, resolver, value, reason)
    return _decode_confluent(df, payload, reader, resolver, value, reason)


def refuse_without_avro(spark: SparkSession) -> None:
    """Raises where this Spark has no Avro connector: each batch would fail, planned and not written."""
    from pyspark.errors import PySparkException

    try:
        _ = spark.range(0).select(_Branch("int", "int").nothing()).schema
    except PySparkException as problem:
        if not is_condition(problem, _NOT_LOADED):
            raise
        raise UsageError(
            f"Spark {spark_version(spark)} has no Avro connector here",
            meaning="Avro records cannot be decoded on it; JSON can. Nothing was started. There is no connector for "
            f"{' and '.join(line.name for line in LINES if not line.has_avro)}; Databricks brings its own.",
            next=install(get_line(DEFAULT).pyspark),
            code="AvroNotLoaded",
        ) from problem


_NOT_LOADED = frozenset({"AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"})


def check_reader_schema(text: str) -> Any:
    """The schema as an object; raises unless it is a record, the only thing that has columns."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        schema = str(error)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise UsageError(
            f"the reader schema is not an Avro record: {str(schema)[:120]}",
            meaning="Its fields become the columns of the table, so nothing can be decoded.",
            next=typed("python", "-m", "json.tool", "your_schema.avsc"),
            code="ReaderSchema",
        )
    return schema


def _decode_fixed(
    df: DataFrame, payload: str, reader: Any, resolver: FixedSchema, value: str, reason: str
) -> DataFrame:
    from pyspark.sql import functions as F

    refuse_without_avro(df.sparkSession)
    branch = _Branch(resolver.schema, reader)
    body = F.col(payload)
    decoded = _computed_once(df, "_whole", branch.is_whole(body))
    decoded = _computed_once(decoded, value, F.when(F.col("_whole"), branch.decode(body)).otherwise(branch.nothing()))
    why = (
        F.when(F.coalesce(F.length(body), F.lit(0)) == 0, "unreadable: empty")
        .when(~F.col("_whole"), "avro: not one whole record of the schema (truncated, or written with another one)")
        .when(F.col(value).isNull(), "avro: the record cannot be read with the reader schema")
    )
    return decoded.withColumn(reason, why).drop("_whole")


def _decode_confluent(
    df: DataFrame, payload: str, reader: Any, resolver: SchemaResolver, value: str, reason: str
) -> DataFrame:
    from pyspark.sql import functions as F

    bytes_ = F.col(payload)
    headed = (F.length(bytes_) >= HEADER_BYTES) & (F.substring(bytes_, 1, 1) == F.lit(MAGIC))
    written_id = F.conv(F.hex(F.substring(bytes_, 2, 4)), 16, 10).cast("bigint")
    df = df.withColumn("_id", F.when(headed, written_id))
    ids = [row[0] for row in df.where(F.col("_id").isNotNull()).select("_id").distinct().collect()]
    schemas = [resolve(resolver, schema_id) for schema_id in sorted(ids)]
    branches = {schema.id: _Branch(schema.parsed, reader) for schema in schemas if not schema.problem}

    body = F.expr(f"substring({_quoted(payload)}, {HEADER_BYTES + 1})")
    whole = F.when(F.col("_id").isNull(), F.lit(False))
    decoded = F.when(~F.col("_whole"), _Branch(reader, reader).nothing())
    for schema_id, branch in branches.items():
        whole = whole.when(F.col("_id") == schema_id, branch.is_whole(body))
        decoded = decoded.when(F.col("_id") == schema_id, branch.decode(body))
    df = _computed_once(df, "_whole", whole.otherwise(F.lit(False)))
    df = _computed_once(df, value, decoded)
    return df.withColumn(reason, _why(bytes_, schemas, value)).drop("_id", "_whole")


def _computed_once(df: DataFrame, name: str, column: Column) -> DataFrame:
    """A list of one, unpacked: Spark moves a later filter on `reason` below a projection and would decode each record
    again for every column that the filter looks at, but it does not move it below this."""
    from pyspark.sql import functions as F

    return df.select("*", F.explode(F.array(column)).alias(name))


def _why(payload: Column, schemas: list[WriterSchema], value: str) -> Column:
    from pyspark.sql import functions as F

    size, named = F.coalesce(F.length(payload), F.lit(0)), F.col("_id").cast("string")
    why = F.when(size == 0, "unreadable: empty")
    why = why.when(
        F.substring(payload, 1, 1) != F.lit(MAGIC),
        F.concat(F.lit("avro: first byte "), F.hex(F.substring(payload, 1, 1)), F.lit(" is not the magic byte 00")),
    )
    why = why.when(
        size < HEADER_BYTES, F.concat(size.cast("string"), F.lit(f" bytes, a header alone has {HEADER_BYTES}"))
    )
    for schema in schemas:
        if schema.problem:
            why = why.when(F.col("_id") == schema.id, f"avro: {schema.problem}")
    why = why.when(
        ~F.col("_whole"),
        F.concat(
            F.lit("avro: not one whole record of schema "), named, F.lit(" (truncated, or written with another one)")
        ),
    )
    return why.when(
        F.col(value).isNull(),
        F.concat(F.lit("avro: a record of schema "), named, F.lit(" cannot be read with the reader schema")),
    )


class _Branch:
    """One writer schema, read as one reader schema."""

    def __init__(self, writer: Any, reader: Any) -> None:
        self._writer = _wrapped(_without_defaults(writer), _TAIL_FIELD)
        self._reader = _wrapped(reader)

    def is_whole(self, body: Column) -> Column:
        from pyspark.sql import functions as F

        tail = self._from_avro(body, json.dumps({**_wrapped(None), "fields": [_TAIL_FIELD]}))["tail"]
        return F.coalesce(tail == F.lit(TAIL), F.lit(False))

    def decode(self, body: Column) -> Column:
        return self._from_avro(body, json.dumps(self._reader))["v"]

    def nothing(self) -> Column:
        """Null, of the type that decode gives."""
        from pyspark.sql import functions as F

        return self.decode(F.lit(None).cast("binary"))

    def _from_avro(self, body: Column, reader: str) -> Column:
        from pyspark.sql import functions as F
        from pyspark.sql.avro.functions import from_avro

        options = {"mode": "PERMISSIVE", "avroSchema": reader}
        return from_avro(F.concat(body, F.lit(TAIL)), json.dumps(self._writer), options)


def _wrapped(schema: Any, *more: Any) -> dict[str, Any]:
    """A record around the schema: its encoding is the schema's own, and it can be told apart from null."""
    return {"type": "record", "name": "SurestartBody", "fields": [{"name": "v", "type": schema}, *more]}


def _without_defaults(schema: Any) -> Any:
    """Defaults of a writer schema say nothing about its records, and Avro refuses a schema for a wrong one."""
    if isinstance(schema, list):
        return [_without_defaults(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: value for key, value in schema.items() if not (key == "default" and "name" in schema and "type" in schema)
    }
    for key in ("type", "items", "values", "fields"):
        if key in kept:
            kept[key] = _without_defaults(kept[key])
    return kept


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"
