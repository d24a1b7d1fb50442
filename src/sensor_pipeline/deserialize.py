"""Stage 2, sensor-deserialize: each raw record becomes typed columns, or gets a reason to be quarantined.

    raw record ── not UTF-8, not one JSON object ──────────────────────> reason "unreadable: …"
               ── a field missing or mistyped ─────────────────────────> reason "schema: …"
               ── outside of what a sensor can measure ───────────────> reason "range: …"
               └─ otherwise ──────────────────────────────────────────> typed columns, reason null

The functions used are deterministic: a replayed batch decides the same for every record.

Spark's JSON reader is lenient where a strict one is not: options turn a part of that off, and `passed_over` finds what
no option refuses. tests/foundation/hostile_lines.py has the lines.

Stage 2 for Avro: the same columns and the same judgement as for JSON, from records with or without a schema id.

    format=confluent   payload has a magic byte and a schema id; schemas from a registry or a folder of <id>.avsc files
    format=avro        payload is a bare record of one fixed schema

Every writer's schema is read as READER by Avro's own rules: fields in any order, unknown ones ignored, missing null
(and then judged like a missing JSON field), int or float where a double is wanted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from sensor_pipeline.records import MESSAGE, RANGES, REQUIRED, TEXTS, TIME_FORM
from surestart import FixedSchema, RegistryResolver, SchemaResolver, decode_avro, is_valid_utf8, try_timestamp

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "_corrupt",
    # Spark's defaults for these two are true.
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    # A reading is flat. Jackson's own limit, 1000, is above what Python's reader always reaches.
    "maxNestingDepth": "100",
}


def to_readings(raw: DataFrame) -> DataFrame:
    """Every row of `raw` once, with the columns of a reading, the payload, and `reason` (null for a good one)."""
    from pyspark.sql import functions as F

    text = F.col("payload").cast("string")
    message = F.when(is_valid_utf8(text), F.from_json(text, f"{MESSAGE}, _corrupt STRING", STRICT))
    # Spark moves a filter on `reason` below a projection and would parse the text once for every field that the filter
    # looks at (220 us of CPU a record instead of 21), but not below an expression that it takes for non-deterministic.
    # This one always holds. explode(array(…)) is a barrier too, but runs interpreted: 6.3 s of CPU for 200,000 records
    # against 4.9 s.
    parsed = raw.select("*", F.when(F.spark_partition_id() >= 0, message).alias("message"))
    return parsed.select(*readings_of(F.col("message"), unreadable(F.col("payload"), F.col("message"))))


def unreadable(payload: Column, message: Column) -> Column:
    """Why the bytes are no message at all; null when they are one."""
    from pyspark.sql import functions as F

    text = payload.cast("string")
    corrupt = message["_corrupt"].isNotNull()
    nothing_read = F.coalesce(*[message[name].cast("string") for name in ("sensor_id", "reading_time")]).isNull()
    return (
        F.when(F.coalesce(F.length(payload), F.lit(0)) == 0, "unreadable: empty")
        .when(message.isNull(), F.when(is_valid_utf8(text), "unreadable: empty").otherwise("unreadable: not UTF-8"))
        .when(corrupt & nothing_read, "unreadable: not a JSON object")
        .when(corrupt, "schema: a field has the wrong type")
        .otherwise(passed_over(payload, message))
    )


def passed_over(payload: Column, message: Column) -> Column:
    """What Spark's reader passes over without a word: something behind the record, a number or an object given out as
    text. Null for a record that has nothing of the kind.

    Decided exactly, but only for records that cheap looks at the bytes do not clear: a flat record whose texts stand
    behind their names in quotes pays for the looks alone. Of a name that stands twice the last value counts, as in most
    readers; to look for that too made a record 1.4 times as dear.
    """
    from pyspark.sql import functions as F

    text = payload.cast("string")
    # All but the last character, or but a carriage return and the one before it.
    head = F.length(payload) - F.when(F.endswith(text, F.lit("\r")), 2).otherwise(1)
    nested = F.contains(F.substr(payload, F.lit(1), head).cast("string"), F.lit("}"))
    untyped = [
        message[name].isNotNull() & ~F.contains(text, F.lit(f'"{name}":"')) & ~F.contains(text, F.lit(f'"{name}": "'))
        for name in TEXTS
    ]
    # By functions that Spark compiles: a single one that it does not (from_json is one) would take the whole projection
    # out of the compiled stage, for every record: 4.1 s of CPU for 200,000 instead of 2.4 s.
    exactly = F.coalesce(_behind(text), *_no_texts(text, message))
    return F.when(reduce(or_, [*untyped, nested]), exactly)


def _behind(text: Column) -> Column:
    from pyspark.sql import functions as F

    # The reader has read one value; nothing but white space follows when the text is one element of a list. Asked
    # twice, because a text with a bracket in it could end the list itself.
    lengths = [F.json_array_length(F.concat(F.lit("["), text, F.lit(end))) for end in (",0]", ",0,0]")]
    alone = F.coalesce((lengths[0] == 2) & (lengths[1] == 3), F.lit(False))
    return F.when(~alone, "unreadable: something follows the JSON object")


def _no_texts(text: Column, message: Column) -> list[Column]:
    from pyspark.sql import functions as F

    # Behind a wildcard a value comes as it is written in JSON; $.room would give the text "5" and the number 5 alike.
    alone = F.concat(F.lit("["), text, F.lit("]"))
    written = {name: F.coalesce(F.get_json_object(alone, f"$[*].{name}"), F.lit("")) for name in TEXTS}
    return [
        F.when(message[name].isNotNull() & ~F.startswith(written[name], F.lit('"')), f"schema: {name} is not a text")
        for name in TEXTS
    ]


def readings_of(message: Column, unreadable: Column) -> list[Column]:
    """The columns of a reading from a message struct, judged: used for JSON and Avro alike."""
    from pyspark.sql import functions as F

    # The form decides what is a time at all; the cast, which would accept more forms, decides whether the day exists.
    time = F.when(message["reading_time"].rlike(TIME_FORM), try_timestamp(message["reading_time"]))
    reason = unreadable
    conditions = [(message[name].isNull(), f"schema: {name} is missing") for name in REQUIRED]
    conditions.append((time.isNull(), "schema: reading_time is not an ISO 8601 UTC time"))
    conditions += [
        (F.isnan(message[name].cast("double")) | ~message[name].between(low, high), f"range: {name}")
        for name, (low, high) in RANGES.items()
    ]
    judged = F.coalesce(reason, *[F.when(condition, F.lit(text)) for condition, text in conditions])
    return [
        *[message[name].alias(name) for name in ("sensor_id", "room", "firmware")],
        time.alias("reading_time"),
        time.cast("date").alias("reading_date"),
        *[message[name].alias(name) for name in ("revision", "temperature", "humidity", "battery")],
        *[F.col(name) for name in ("payload", "source", "partition", "offset", "ingested_at")],
        # The batch's own time, written in the checkpoint: a replay gives the same one.
        F.current_timestamp().alias("deserialized_at"),
        judged.alias("reason"),
    ]


_AVRO_TYPES = {"STRING": "string", "INT": "int", "DOUBLE": "double"}
_COLUMNS = [column.split() for column in MESSAGE.split(", ")]
READER = json.dumps(
    {
        "type": "record",
        "name": "Reading",
        "fields": [{"name": name, "type": ["null", _AVRO_TYPES[kind]], "default": None} for name, kind in _COLUMNS],
    }
)


@dataclass(frozen=True)
class AvroReadings:
    """Every row of `raw` once, with the columns of a reading, the payload, and `reason`. With a resolver `raw` must be
    a batch, because the ids in it are looked up first; with a fixed schema a stream will do."""

    resolver: SchemaResolver | FixedSchema

    def check(self) -> None:
        if isinstance(self.resolver, RegistryResolver):
            self.resolver.check()

    def with_credentials(self) -> AvroReadings:
        if isinstance(self.resolver, RegistryResolver):
            return AvroReadings(self.resolver.with_credentials())
        return self

    def __call__(self, raw: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        decoded = decode_avro(raw, "payload", READER, self.resolver, value="message", reason="unreadable")
        return decoded.select(*readings_of(F.col("message"), F.col("unreadable")))
