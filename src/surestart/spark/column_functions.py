"""Functions of columns that Spark 3.5 has under no name or another one, the same on every line of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def is_valid_utf8(text: Column) -> Column:
    """Whether the bytes of a string column are UTF-8."""
    from pyspark.sql import functions as F

    if hasattr(F, "is_valid_utf8"):
        return F.is_valid_utf8(text)
    # Java puts U+FFFD in the place of what it cannot decode, so such bytes do not come back as they were.
    given = text.cast("binary")
    return F.encode(F.decode(given, "UTF-8"), "UTF-8") == given


def try_timestamp(text: Column) -> Column:
    """The time that the text names, or null."""
    from pyspark.sql import functions as F

    # Asked of the class: a column takes any name that it does not know for one of a field.
    return text.try_cast("timestamp") if hasattr(type(text), "try_cast") else F.try_to_timestamp(text)
