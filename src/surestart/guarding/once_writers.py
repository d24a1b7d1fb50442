"""The pair as options of DataFrameWriters, one write to each table: pyspark's writers ask for it while a block is open.

On Spark Connect that is the only way: the session there is the user's own, so another stream or the notebook itself
would write with settings that are made in it. A write that cannot carry the pair this way is refused before it runs."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Protocol

from surestart.errors import Refused, UsageError
from surestart.history.checkpoint_place import checkpoint_place
from surestart.library_types import SparkSession
from surestart.sinks.delta.transaction import read_query_id
from surestart.spark.session import is_connect, running_query_id
from surestart.spark.stream_writer import read_batch_writer
from surestart.typed import in_the_code, surestart


class Carrier(Protocol):
    """What is asked by the writers of its session.

    busy: writes of its own are under way."""

    busy: bool

    def pair_for(self, target: str) -> dict[str, str]: ...


# By session. On classic Spark each stream has its own; on Spark Connect each stream's function has its own process.
_carriers: dict[int, Carrier] = {}
_changed: set[type] = set()
_CHANGES = re.compile(r"\s*(?:WITH\b.*\b)?(MERGE|UPDATE|DELETE|INSERT)\b", re.IGNORECASE | re.DOTALL)


def carry(spark: Any, carrier: Carrier | None) -> Carrier | None:
    """The session's writers ask this one from now on; returns the one before it."""
    _change(type(spark))
    former = _carriers.pop(id(spark), None)
    if carrier is not None:
        _carriers[id(spark)] = carrier
    return former


def _change(session: Any) -> None:
    """Changes the writers, once for each kind of session. Without an open block they do what they did before."""
    if session in _changed:
        return
    _changed.add(session)
    connect = session.__module__.startswith("pyspark.sql.connect")
    if connect:
        from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter
        from pyspark.sql.connect.readwriter import DataFrameWriterV2

        for name in ("append", "overwrite", "overwritePartitions", "replace", "createOrReplace", "create"):
            setattr(DataFrameWriterV2, name, _refused(getattr(DataFrameWriterV2, name), lambda words: "writeTo"))
        session.sql = _refused(session.sql, _changing_statement)
        kind: Any = ConnectWriter
    else:
        from pyspark.sql.readwriter import DataFrameWriter as ClassicWriter

        kind = ClassicWriter
    for name, argument in (("save", "path"), ("saveAsTable", "name"), ("insertInto", "tableName")):
        setattr(kind, name, _with_pair(getattr(kind, name), argument))


def _asked(session: Any) -> Carrier | None:
    carrier = _carriers.get(id(session))
    return None if carrier is None or carrier.busy else carrier


def _with_pair(write: Callable[..., Any], argument: str) -> Callable[..., Any]:
    @functools.wraps(write)
    def call(writer: Any, *args: Any, **kwargs: Any) -> Any:
        carrier = _asked(writer._spark)
        if carrier is not None:
            source, options = read_batch_writer(writer)
            source = (kwargs.get("format") or source or "delta").lower()
            if "txnappid" not in options and (source == "delta" or argument != "path"):
                named = args[0] if args else kwargs.get(argument)
                writer = writer.options(**carrier.pair_for(_place(argument, named or options.get("path", ""))))
        return write(writer, *args, **kwargs)

    return call


def _place(argument: str, named: str) -> str:
    return checkpoint_place(named) if argument == "path" else named.lower().replace("`", "")


def may_be_one(target: str, other: str) -> bool:
    """False for two paths, and for two names, that differ. A name may be that of any path."""
    by_path, also = ("/" in target or ":" in target), ("/" in other or ":" in other)
    if by_path and also:
        return target == other
    if by_path or also:
        return True
    one, two = target.split("."), other.split(".")
    shared = min(len(one), len(two))
    return one[-shared:] == two[-shared:]


def _changing_statement(words: tuple[Any, ...]) -> str:
    found = _CHANGES.match(str(words[0])) if words else None
    return found[1].upper() if found else ""


def _refused(act: Callable[..., Any], what: Callable[[tuple[Any, ...]], str]) -> Callable[..., Any]:
    @functools.wraps(act)
    def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
        named = what(args)
        if named and _asked(getattr(owner, "_spark", owner)) is not None:
            raise _cannot_carry(named)
        return act(owner, *args, **kwargs)

    return call


def _cannot_carry(what: str) -> UsageError:
    return UsageError(
        f"{what} inside surestart.once on Spark Connect: it has no options that could carry the pair",
        meaning="A batch that comes again would be written again. Nothing of this statement was run.",
        next=in_the_code("write.sql(statement, table='main.silver.orders'), or batch.write with mode('append')"),
        do_not="set the pair on the session: its other streams would write with it.",
        code="OnceNotCarried",
    )


def identity_of_batch(spark: SparkSession, checkpoint: str = "") -> str:
    """The pair's query id. Raises when no query is running here, or when several are and nobody has said which one it
    is."""
    running = _running_ids(spark)
    if checkpoint:
        own = read_query_id(checkpoint, spark, lambda: running[0] if len(running) == 1 else "")
        if running and own not in running:
            raise Refused(
                f"the batch comes from query {' or '.join(running)}, and {checkpoint} is that of {own}",
                meaning="Written under another query's id, a batch would be taken for one of that query, and dropped. "
                "Nothing of this one was written.",
                next=surestart("inspect", checkpoint),
                do_not="write under an id of your own.",
                code="OnceOfAnotherQuery",
            )
        return own
    if len(running) == 1:
        return running[0]
    raise UsageError(
        f"surestart.once was called where {len(running)} queries run, and nothing tells to which one the batch belongs",
        meaning="Without the query's id a batch that comes again cannot be told from a new one. Nothing was written.",
        next=in_the_code("surestart.once(batch, batch_id, checkpoint='/the/checkpoint/of/the/query')"),
        do_not="give a constant in its place.",
        code="OnceWithoutQuery",
    )


def _running_ids(spark: SparkSession) -> list[str]:
    """Classic Spark: the query whose batch this thread runs. Spark Connect: those of the session."""
    if not is_connect(spark):
        found = running_query_id(spark, "")
        return [found] if found else []
    return [str(one.id) for one in spark.streams.active]
