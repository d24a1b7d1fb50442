"""From Spark's types to staging columns, and from staging columns to the target's, without losing anything unnoticed.

    Spark                          staging                     target
    byte short, integer, long      smallint, integer, bigint   the same, wider, numeric; out of range is refused
    float, double                  real, double precision      the same, wider, numeric without a scale
    decimal                        text                        numeric with as many digits after the point
    boolean, date                  boolean, date               the same; a date also fits a timestamp
    timestamp, timestamp_ntz       timestamptz, timestamp      either (as UTC), with all six digits of the second
    binary                         bytea                       bytea
    string                         text                        whatever reads that text: varchar, numeric, uuid, enum, …
    struct, array, map, variant    text (JSON)                 json, jsonb, text
    anything else                  text                        whatever reads that text

A number goes into real and double precision where all its digits survive: 6 and 15 of them. PostgreSQL itself would
round 40000.7 into an integer column, 0.1 + 0.2 into a numeric one (15 digits), 0.005 into numeric(12,2) and 2^53 + 1
into double precision, and cut a time off a date column, without a word.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from surestart.errors import UsageError
from surestart.facts.postgres.connection import name
from surestart.library_types import Column, DataFrame, StructField
from surestart.typed import in_the_code

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
# Decimal digits of the greatest value.
_INTEGERS = {"smallint": 5, "integer": 10, "bigint": 19}
# Decimal digits that come back as they were: FLT_DIG and DBL_DIG of IEEE 754.
_FLOATS = {"real": 6, "double precision": 15}
_SECOND_DIGITS = 6
_PARTS_OF_A_TIME = frozenset(("date", "time without time zone", "time with time zone"))


@dataclass(frozen=True)
class StagedColumn:
    """precision, scale: of a decimal, whose staging column is text."""

    name: str
    kind: str
    precision: int | None = None
    scale: int = 0

    @property
    def shown(self) -> str:
        return self.kind if self.precision is None else f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True)
class TargetColumn:
    """type: as it is written in SQL, without a length.
    declared: with it.
    is_text: text assigns to it as it is.
    bounded: of a domain the type that it stands for, with the length; else as declared."""

    name: str
    type: str
    declared: str
    is_text: bool
    bounded: str = ""

    @property
    def digits(self) -> tuple[int, int] | None:
        """What stands in the brackets: precision and scale of a number, or the digits of a second."""
        found = re.search(r"\((\d+)(?:,(-?\d+))?\)", self.bounded or self.declared)
        return (int(found[1]), int(found[2] or 0)) if found else None


def staged_columns(batch_df: DataFrame) -> tuple[StagedColumn, ...]:
    """The staging columns that hold this batch as `staged` prepares it."""
    from pyspark.sql.types import DecimalType

    return tuple(
        StagedColumn(field.name, TEXT, field.dataType.precision, field.dataType.scale)
        if isinstance(field.dataType, DecimalType)
        else StagedColumn(field.name, _kind(field))
        for field in batch_df.schema.fields
    )


def staged(batch_df: DataFrame) -> DataFrame:
    """The columns in forms that staging holds: nested ones as JSON, what PostgreSQL reads from text as text."""
    if not batch_df.columns:
        raise UsageError(
            "the batch has no columns",
            meaning="There is nothing that could be stored.",
            next=in_the_code("select the target's columns in the stage's transform"),
            code="PostgresNoColumns",
        )
    return batch_df.select(*(_prepared(field) for field in batch_df.schema.fields))


def converted(column: StagedColumn, target: TargetColumn) -> str:
    """The staging column as an SQL expression that assigns to the target's column."""
    if column.kind in _FLOATS and target.type == "numeric":
        # PostgreSQL's cast keeps 15 digits of a double and 6 of a real; its text has all that tell it from its
        # neighbours.
        return f"{name(column.name)}::text::numeric"
    # Without a length: an explicit cast to varchar(3) cuts the text, the assignment that follows refuses it.
    return f"{name(column.name)}::{target.type}" if _needs_cast(column, target) else name(column.name)


def loses_something(column: StagedColumn, target: TargetColumn) -> bool:
    """Whether PostgreSQL would change some value of the column without a word. What it refuses aloud is no loss."""
    if column.kind.startswith("timestamp"):
        short = target.type.startswith("timestamp") and target.digits is not None and target.digits[0] < _SECOND_DIGITS
        return short or target.type in _PARTS_OF_A_TIME
    if column.kind in _FLOATS and target.type in _FLOATS:
        return column.kind == "double precision" and target.type == "real"
    digits = _digits(column)
    if digits is None:
        return False
    precision, scale = digits
    if target.type in _FLOATS:
        return precision > _FLOATS[target.type]
    if target.type in _INTEGERS:
        # A decimal arrives as text, in which an integer column refuses a point.
        return column.kind in _FLOATS
    return (target.type == "numeric" and target.digits is not None and scale > target.digits[1]) or (
        target.type == "money" and scale > 2
    )


def _digits(column: StagedColumn) -> tuple[float, float] | None:
    """How many decimal digits a value may have, and how many of them after the point; None: it is no number."""
    if column.precision is not None:
        return column.precision, column.scale
    if column.kind in _FLOATS:
        return math.inf, math.inf
    return (_INTEGERS[column.kind], 0) if column.kind in _INTEGERS else None


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
