"""Values inside SQL text. Named parameters would do the same, but Delta's parser drops them on Spark 4.1 and 4.2 (Delta
4.4.0: UNBOUND_SQL_PARAMETER, seen)."""

from __future__ import annotations


def sql_value(value: object, kind: str) -> str:
    """The value as an expression of that type. A text goes by its bytes, so nothing in it can end the literal."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, str):
        return f"CAST(CAST(X'{value.encode().hex()}' AS STRING) AS {kind})"
    if isinstance(value, int):
        return f"CAST({int(value)} AS {kind})"
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as a literal")


def select_values(rows: list[dict[str, object]], kinds: dict[str, str]) -> str:
    """A query that gives these rows, with these columns and types."""
    columns = [", ".join(f"{sql_value(row[name], kind)} AS `{name}`" for name, kind in kinds.items()) for row in rows]
    return " UNION ALL ".join(f"SELECT {text}" for text in columns)
