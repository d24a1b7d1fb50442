"""From Spark's types to staging columns, and from staging columns to the target's, without losing anything unnoticed.

    Spark                          staging                     target
    byte short, integer, long      smallint, integer, bigint   the same, wider, numeric; out of range is refused
    float, double                  real, double precision      the same, numeric; an integer column is refused
    boolean, date                  boolean, date               the same; a date also fits a timestamp
    timestamp, timestamp_ntz       timestamptz, timestamp      either (as UTC); a date or time column is refused
    binary                         bytea                       bytea
    string, decimal                text                        whatever reads that text: varchar, numeric, uuid, enum, …
    struct, array, map, variant    text (JSON)                 json, jsonb, text
    anything else                  text                        whatever reads that text

PostgreSQL itself would round 40000.7 into an integer column and cut a time off a date column without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surestart.errors import UsageError
from surestart.sinks.postgres_connection import name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

TEXT = "text"

_KINDS = {
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "binary": "bytea",
}
_NESTED = frozenset(("struct", "array", "map", "variant"))
_INTEGERS = frozenset(("smallint", "integer", "bigint"))
_PARTS_OF_A_TIME = frozenset(("date", "time without time zone", "time with time zone"))


@dataclass(frozen=True)
class StagedColumn:
    name: str
    kind: str


@dataclass(frozen=True)
class TargetColumn:
    """type: as it is written in SQL, without a length; declared: with it. is_text: text assigns to it as it is."""

    name: str
    type: str
    declared: str
    is_text: bool


def staged_columns(batch_df: DataFrame) -> tuple[StagedColumn, ...]:
    """The staging columns that hold this batch as `staged` prepares it."""
    return tuple(StagedColumn(field.name, _kind(field)) for field in batch_df.schema.fields)


def staged(batch_df: DataFrame) -> DataFrame:
    """The columns in forms that staging holds: nested ones as JSON, what PostgreSQL reads from text as text."""
    if not batch_df.columns:
        raise UsageError(
            "the batch has no columns",
            meaning="There is nothing that could be stored.",
            next="select the target's columns in the stage's transform",
            code="PostgresNoColumns",
        )
    return batch_df.select(*(_prepared(field) for field in batch_df.schema.fields))


def arrow_columns(schema: pa.Schema) -> tuple[StagedColumn, ...]:
    """The staging columns for Arrow batches that did not come from Spark."""
    import pyarrow as pa

    kinds = {
        pa.int8(): "smallint",
        pa.int16(): "smallint",
        pa.int32(): "integer",
        pa.int64(): "bigint",
        pa.float32(): "real",
        pa.float64(): "double precision",
        pa.bool_(): "boolean",
        pa.date32(): "date",
        pa.binary(): "bytea",
        pa.string(): TEXT,
    }

    def kind(field: pa.Field) -> str:
        if pa.types.is_timestamp(field.type):
            return "timestamp with time zone" if field.type.tz else "timestamp without time zone"
        return kinds[field.type]

    return tuple(StagedColumn(field.name, kind(field)) for field in schema)


def converted(column: StagedColumn, target: TargetColumn) -> str:
    """The staging column as an SQL expression that assigns to the target's column."""
    # Without a length: an explicit cast to varchar(3) cuts the text, the assignment that follows refuses it.
    return f"{name(column.name)}::{target.type}" if _needs_cast(column, target) else name(column.name)


def loses_something(column: StagedColumn, target: TargetColumn) -> bool:
    if column.kind in ("real", "double precision"):
        return target.type in _INTEGERS
    if column.kind.startswith("timestamp"):
        return target.type in _PARTS_OF_A_TIME
    return False


def _needs_cast(column: StagedColumn, target: TargetColumn) -> bool:
    return column.kind == TEXT and not target.is_text


def _kind(field: StructField) -> str:
    return _KINDS.get(field.dataType.typeName(), TEXT)


def _prepared(field: StructField) -> Column:
    from pyspark.sql import functions as F

    kind = field.dataType.typeName()
    column = F.col("`" + field.name.replace("`", "``") + "`")
    if kind in _NESTED:
        column = F.to_json(column, {"ignoreNullFields": "false"})
    elif kind not in _KINDS and kind != "string":
        column = column.cast("string")
    return column.alias(field.name)
