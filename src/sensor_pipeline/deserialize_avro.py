"""Stage 2 for Avro: the same columns and the same judgement as for JSON, from records with or without a schema id.

    format=confluent   payload has a magic byte and a schema id; schemas from a registry or a folder of <id>.avsc files
    format=avro        payload is a bare record of one fixed schema

Every writer's schema is read as READER by Avro's own rules: fields in any order, unknown ones ignored, missing null
(and then judged like a missing JSON field), int or float where a double is wanted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sensor_pipeline.deserialize import readings_of
from sensor_pipeline.records import MESSAGE
from surestart import FixedSchema, RegistryResolver, SchemaResolver, decode_avro

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
