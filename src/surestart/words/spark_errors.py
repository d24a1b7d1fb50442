"""The name that Spark or Delta gave an error, on every line of Spark."""

from __future__ import annotations

from surestart.library_types import PySparkException

# There is no such table, or nothing that it could lie in.
NO_TABLE = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "SCHEMA_NOT_FOUND"})


def condition_of(error: PySparkException) -> str:
    """Such as TABLE_OR_VIEW_NOT_FOUND, with its subclass where there is one; "" where it has none. Spark 3.5 calls it
    an error class and has no getCondition."""
    ask = getattr(error, "getCondition", None) or error.getErrorClass
    return str(ask() or "")


def is_condition(error: PySparkException, names: frozenset[str]) -> bool:
    """Whether it is one of them, or a subclass of one: serverless compute says CONFIG_NOT_AVAILABLE.WITHOUT_SUGGESTION
    where others say CONFIG_NOT_AVAILABLE."""
    condition = condition_of(error)
    return condition in names or condition.partition(".")[0] in names
