"""The pair as options of DataFrameWriters, for Spark Connect: its sessions are the user's, and what is set there,
another stream or the notebook itself would write with.

The function of a batch runs in a Python process of its own there; in it pyspark's writers are changed for the block.
What cannot carry the pair so is refused before it runs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from surestart.errors import UsageError
from surestart.typed import in_the_code

Options = Callable[[], dict[str, str]]
# None: writes of surestart's own, which carry what they need.
_carried: ContextVar[Options | None] = ContextVar("surestart_once", default=None)
_CHANGES = re.compile(r"\s*(?:WITH\b.*\b)?(MERGE|UPDATE|DELETE|INSERT)\b", re.IGNORECASE | re.DOTALL)


@contextmanager
def writers_carry(options: Options | None) -> Iterator[None]:
    """Inside the block a DataFrameWriter carries these options, for this code alone."""
    _change_once()
    token = _carried.set(options)
    try:
        yield
    finally:
        _carried.reset(token)


@functools.cache
def _change_once() -> None:
    from pyspark.sql.connect.readwriter import DataFrameWriter, DataFrameWriterV2
    from pyspark.sql.connect.session import SparkSession

    for name in ("save", "saveAsTable", "insertInto"):
        setattr(DataFrameWriter, name, _with_options(getattr(DataFrameWriter, name)))
    for name in ("append", "overwrite", "overwritePartitions", "replace", "createOrReplace", "create"):
        setattr(DataFrameWriterV2, name, _refused(getattr(DataFrameWriterV2, name), "writeTo"))
    sql: Any = SparkSession.sql

    @functools.wraps(sql)
    def guarded_sql(session: Any, sqlQuery: str, *args: Any, **kwargs: Any) -> Any:
        changes = _CHANGES.match(sqlQuery)
        if _carried.get() is not None and changes:
            raise _cannot_carry(changes[1].upper())
        return sql(session, sqlQuery, *args, **kwargs)

    setattr(SparkSession, "sql", guarded_sql)  # noqa: B010


def _with_options(write: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(write)
    def call(writer: Any, *args: Any, **kwargs: Any) -> Any:
        options = _carried.get()
        said = {key.lower() for key in (*writer._write.options, *kwargs)}
        source = kwargs.get("format") or writer._write.source or "delta"
        if options is not None and "txnappid" not in said and source.lower() == "delta":
            writer = writer.options(**options())
        return write(writer, *args, **kwargs)

    return call


def _refused(write: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(write)
    def call(writer: Any, *args: Any, **kwargs: Any) -> Any:
        if _carried.get() is not None:
            raise _cannot_carry(what)
        return write(writer, *args, **kwargs)

    return call


def _cannot_carry(what: str) -> UsageError:
    return UsageError(
        f"{what} inside surestart.once on Spark Connect: it has no options that could carry the pair",
        meaning="A batch that comes again would be written again. Nothing of this statement was run.",
        next=in_the_code("write.sql(statement, table='main.silver.orders'), or batch.write with mode('append')"),
        do_not="set the pair on the session: its other streams would write with it.",
        code="OnceNotCarried",
    )
