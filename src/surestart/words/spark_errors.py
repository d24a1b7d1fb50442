"""The name that Spark or Delta gave an error, on every line of Spark."""

from __future__ import annotations

import re

# There is no such table, or nothing that it could lie in.
NO_TABLE = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "SCHEMA_NOT_FOUND"})


def condition_of(error: BaseException) -> str:
    """Such as TABLE_OR_VIEW_NOT_FOUND, with its subclass where there is one; "" where it has none. Spark 3.5 calls it
    an error class and has no getCondition; its Connect client leaves the class of many errors in the message alone."""
    ask = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    named = ask() if ask else None
    if named:
        return str(named)
    found = _IN_FRONT.match(str(error))
    return found[1] if found else ""


# (org.apache.spark.sql.AnalysisException) [CONFIG_NOT_AVAILABLE.WITHOUT_SUGGESTION] Configuration …
_IN_FRONT = re.compile(r"(?:\([\w.$]+\) )?\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")


def is_condition(error: BaseException, names: frozenset[str]) -> bool:
    """Whether it is one of them, or a subclass of one: serverless compute says CONFIG_NOT_AVAILABLE.WITHOUT_SUGGESTION
    where others say CONFIG_NOT_AVAILABLE."""
    condition = condition_of(error)
    return condition in names or condition.partition(".")[0] in names
