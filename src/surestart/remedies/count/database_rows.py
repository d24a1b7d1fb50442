"""Compares a PostgreSQL table with the rows that it should hold, on every column, without moving the rows.

    each side   row ──> text of its key, text of its row ──> md5 ──> one of 4096 buckets by key
                per bucket: rows, and two sums of 32 bits of the rows' md5
    equal       in all three: the bucket holds the same rows
    differing   its rows are fetched from both and compared one by one

The text of a value is the same on both sides: its length, a colon, and the number of days or microseconds for a time.
A double has no text that both agree on: its bits down to 2^-20 and the 32 below are two whole numbers, made by steps
that lose nothing on either side. Columns that PostgreSQL may store in another form (json, uuid, …) are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surestart.facts.postgres.connection import UNCHANGED, driver, error_in_four_parts, name, open_connection
from surestart.facts.postgres.target import find_target
from surestart.library_types import DataFrame, PostgresConnection
from surestart.remedies.basis.chain import POSITION
from surestart.remedies.count.counts import Counts
from surestart.sinks.postgres.sink import PostgresSink

# So many rows of differing buckets are looked at one by one; beyond, the numbers are a lower bound.
_LOOKED_AT = 500_000
_EXAMPLES = 20
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FLOATING = ("float", "double")
# 2^20, 2^32 and 2^42: multiplying by a power of two is exact.
_HIGH, _LOW, _LARGE = 1_048_576, 4_294_967_296, 4_398_046_511_104
_TIMES = ("timestamp with time zone", "timestamp without time zone")
_SAME_FORM: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_WHOLE, ("smallint", "integer", "bigint")),
    "string": ("text", "character varying"),
    "decimal": ("numeric",),
    "boolean": ("boolean",),
    "date": ("date",),
    "timestamp": _TIMES,
    "float": ("real", "double precision"),
    "double": ("double precision",),
}


@dataclass(frozen=True)
class FoundRows:
    """missing: where the rows come from that a backfill would write, of keys that are lost; of an upsert also of those
    that are wrong."""

    counts: Counts
    missing: tuple[tuple[str, int, int], ...] = ()
    examples: tuple[str, ...] = ()
    problem: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Row:
    """A row as two texts: of its key, and of all its columns."""

    key: str
    row: str
    position: tuple[str, int, int] | None


@dataclass(frozen=True)
class _Texts:
    """SQL for the text of a key and of a row."""

    key: str
    row: str


def count_database(sink: PostgresSink, reference: DataFrame, keys: Sequence[str], order: Sequence[str]) -> FoundRows:
    """reference: what the table should hold. Errors that keep it from being asked are the caller's."""
    pg, url = driver(), sink.url.read()
    failure = None
    try:
        with open_connection(url, "surestart verify") as connection:
            there_as = {column.name: column.type for column in find_target(connection, sink.target).columns}
    except pg.Error as error:
        failure = error_in_four_parts(error, url, f"counting {sink.target}", UNCHANGED)
    if failure is not None:
        raise failure
    kinds = {field.name: field.dataType.simpleString() for field in reference.schema}
    decisive = list(dict.fromkeys((*keys, *order)))
    strange = [f"{column} is missing" for column in decisive if column not in kinds or column not in there_as]
    strange += [
        f"{column} is {kinds[column]}"
        for column in decisive
        if column in kinds and _postgres_text(column, kinds[column]) is None
    ]
    if strange:
        return FoundRows(Counts(), problem=f"cannot be compared between Spark and PostgreSQL: {', '.join(strange)}")
    columns = [*decisive, *(c for c in kinds if c not in decisive and _is_common(c, kinds[c], there_as.get(c, "")))]
    left_out = tuple(column for column in kinds if column not in columns)
    ours = _Texts(*(" || ".join(_spark_text(c, kinds[c]) for c in some) for some in (keys, columns)))
    theirs = _Texts(*(" || ".join(str(_postgres_text(c, kinds[c])) for c in some) for some in (keys, columns)))
    expected = _spark_buckets(reference, ours)
    try:
        with open_connection(url, "surestart verify", autocommit=False) as connection:
            # Both questions see the same rows, and none of them can write.
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            found = _postgres_buckets(connection, sink, theirs)
            buckets = sorted(expected.keys() | found.keys())
            differing = [bucket for bucket in buckets if expected.get(bucket) != found.get(bucket)]
            rows = sum(one[0] for one in found.values())
            chosen = _few(differing, expected, found)
            fetched = _spark_rows(reference, ours, chosen) if chosen else []
            there = _postgres_rows(connection, sink, theirs, chosen) if chosen else Counter()
    except pg.Error as error:
        failure = error_in_four_parts(error, url, f"counting {sink.target}", UNCHANGED)
    if failure is not None:
        raise failure
    keys_there = rows - _beyond_first(there)
    given = Counter((row.key, row.row) for row in fetched)
    counts, lost, wrong, strange = _judge(given, there, sum(one[0] for one in expected.values()), rows, keys_there)
    left = len(differing) - len(chosen)
    problem = f"{left} of 4096 buckets differ and were not looked at one by one" if left else ""
    wanted = {*lost, *(wrong if sink.mode == "upsert" else ())}
    missing = tuple(row.position for row in fetched if row.position is not None and row.key in wanted)
    return FoundRows(counts, missing, (*lost, *wrong, *strange)[:_EXAMPLES], problem, left_out)


def _few(
    differing: Sequence[int], ours: Mapping[int, tuple[int, ...]], theirs: Mapping[int, tuple[int, ...]]
) -> list[int]:
    chosen: list[int] = []
    rows = 0
    for bucket in differing:
        rows += ours.get(bucket, (0,))[0] + theirs.get(bucket, (0,))[0]
        if chosen and rows > _LOOKED_AT:
            break
        chosen.append(bucket)
    return chosen


def _judge(
    given: Counter[tuple[str, str]], there: Counter[tuple[str, str]], expected: int, rows: int, distinct: int
) -> tuple[Counts, list[str], list[str], list[str]]:
    """The numbers, and the keys that are lost, that are wrong and that come from nowhere."""
    of_ours: dict[str, set[str]] = {}
    of_theirs: dict[str, set[str]] = {}
    for (key, row), _ in given.items():
        of_ours.setdefault(key, set()).add(row)
    for (key, row), _ in there.items():
        of_theirs.setdefault(key, set()).add(row)
    lost = [key for key in of_ours if key not in of_theirs]
    strange = [key for key in of_theirs if key not in of_ours]
    wrong = [key for key in of_ours if key in of_theirs and of_ours[key] != of_theirs[key]]
    counts = Counts(
        input=expected,
        rows=rows,
        distinct=distinct,
        lost=len(lost),
        wrong=len(wrong),
        from_nowhere=len(strange),
        duplicated=_beyond_first(there),
    )
    return counts, lost, wrong, strange


def _beyond_first(there: Counter[tuple[str, str]]) -> int:
    return sum(there.values()) - len({key for key, _ in there})


def _spark_text(column: str, kind: str) -> str:
    quoted = "`" + column.replace("`", "``") + "`"
    text = {"date": f"unix_date({quoted})", "timestamp": f"unix_micros({quoted})", "boolean": f"CAST({quoted} AS INT)"}
    if kind in _FLOATING:
        high = f"CAST(CAST({quoted} AS DOUBLE) * {_HIGH}D AS BIGINT)"
        low = f"CAST((CAST({quoted} AS DOUBLE) * {_HIGH}D - CAST({high} AS DOUBLE)) * {_LOW}D AS BIGINT)"
        text[kind] = (
            f"CASE WHEN isnan({quoted}) THEN 'NaN' WHEN {quoted} >= {_LARGE}D THEN 'large' WHEN {quoted} <= -{_LARGE}D "
            f"THEN '-large' ELSE concat(CAST({high} AS STRING), '.', CAST({low} AS STRING)) END"
        )
    value = f"CAST({text.get(kind, quoted)} AS STRING)"
    return f"coalesce(CAST(length({value}) AS STRING) || ':' || {value}, '-')"


def _postgres_text(column: str, kind: str) -> str | None:
    """None: a type whose text is not the same on both sides."""
    quoted = name(column)
    if kind == "string" or kind in _WHOLE:
        value = f"{quoted}::text"
    elif kind.startswith("decimal"):
        value = f"{quoted}::{kind.replace('decimal', 'numeric')}::text"
    elif kind == "boolean":
        value = f"{quoted}::int::text"
    elif kind == "date":
        value = f"({quoted} - DATE '1970-01-01')::text"
    elif kind == "timestamp":
        value = f"(extract(epoch FROM {quoted}) * 1000000)::bigint::text"
    elif kind in _FLOATING:
        number = f"{quoted}::{'real' if kind == 'float' else 'float8'}::float8"
        high = f"trunc({number} * {_HIGH})"
        low = f"trunc(({number} * {_HIGH} - {high}) * {_LOW}::float8)"
        value = (
            f"CASE WHEN {number} = 'NaN' THEN 'NaN' WHEN {number} >= {_LARGE}::float8 THEN 'large' WHEN {number} <= "
            f"-{_LARGE}::float8 THEN '-large' ELSE {high}::bigint::text || '.' || {low}::bigint::text END"
        )
    else:
        return None
    return f"coalesce(length({value}) || ':' || {value}, '-')"


def _is_common(column: str, kind: str, there: str) -> bool:
    """Whether equal values have equal texts in a column of that type: json, uuid, enums and padded text are rewritten
    when they are stored, real and numeric(…) may have rounded."""
    if _postgres_text(column, kind) is None:
        return False
    return there in _SAME_FORM["decimal" if kind.startswith("decimal") else kind]


def _spark_buckets(reference: DataFrame, texts: _Texts) -> dict[int, tuple[int, ...]]:
    from pyspark.sql import functions as F

    marked = reference.select(
        F.expr(f"CAST(conv(substr(md5({texts.key}), 1, 3), 16, 10) AS INT)").alias("bucket"),
        F.expr(f"md5({texts.row})").alias("mark"),
    )
    sums = [F.expr(f"sum(CAST(conv(substr(mark, {start}, 8), 16, 10) AS BIGINT))") for start in (1, 9)]
    rows = marked.groupBy("bucket").agg(F.count("*").alias("rows"), sums[0].alias("low"), sums[1].alias("high"))
    return {int(row["bucket"]): (int(row["rows"]), int(row["low"]), int(row["high"])) for row in rows.collect()}


def _spark_rows(reference: DataFrame, texts: _Texts, buckets: Sequence[int]) -> list[_Row]:
    from pyspark.sql import functions as F

    rows = reference.where(F.expr(f"CAST(conv(substr(md5({texts.key}), 1, 3), 16, 10) AS INT)").isin(list(buckets)))
    positioned = set(POSITION) <= set(reference.columns)
    found = rows.select(F.expr(texts.key), F.expr(texts.row), *(POSITION if positioned else ())).collect()
    return [_Row(row[0], row[1], _position(row[2:])) for row in found]


def _position(values: Sequence[Any]) -> tuple[str, int, int] | None:
    if not values or any(value is None for value in values):
        return None
    source, partition, offset = values
    return str(source), int(partition), int(offset)


def _bucket(texts: _Texts) -> str:
    return f"('x' || substr(md5(convert_to({texts.key}, 'UTF8')), 1, 3))::bit(12)::int"


def _target(sink: PostgresSink) -> str:
    return name(*sink.target.split("."))


def _postgres_buckets(connection: PostgresConnection, sink: PostgresSink, texts: _Texts) -> dict[int, tuple[int, ...]]:
    sums = ", ".join(f"sum(('x' || substr(mark, {start}, 8))::bit(32)::bigint)" for start in (1, 9))
    rows = connection.execute(
        f"SELECT bucket, count(*), {sums} FROM (SELECT {_bucket(texts)} AS bucket,"
        f" md5(convert_to({texts.row}, 'UTF8')) AS mark FROM {_target(sink)}) AS marked GROUP BY bucket"
    ).fetchall()
    return {int(bucket): (int(count), int(low), int(high)) for bucket, count, low, high in rows}


def _postgres_rows(
    connection: PostgresConnection, sink: PostgresSink, texts: _Texts, buckets: Sequence[int]
) -> Counter[tuple[str, str]]:
    rows = connection.execute(
        f"SELECT {texts.key}, {texts.row} FROM {_target(sink)} WHERE {_bucket(texts)} = ANY(%s)", [list(buckets)]
    )
    return Counter((key, row) for key, row in rows)
