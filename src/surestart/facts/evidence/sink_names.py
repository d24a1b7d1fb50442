"""A sink as it is named on the command line, and what a person says of it there.

/path/of/a/table                 a Delta table, written in a way that the table itself has to show
delta.`/path/of/a/table`         the same, as SQL spells it; parquet.`/out` alike
KIND:TARGET                      kafka:readings, parquet:/out, foreach-batch:/table, postgres:schema.table
kafka://HOST:PORT/TOPIC          a topic, and the brokers that are asked about it
KIND+SAID:TARGET                 what is said of it, several with +
  shared | alone                 others write there as well | only this query does
  new                            this query has never written there
  keys=a,b                       the MERGE matches by these columns and sets its rows, it does not add to them
  app-id=NAME                    the function writes under the constant txnAppId NAME
  ledger=TABLE                   a row of (query id, batch id) is written there in the rows' own transaction
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from surestart.declaration import DELTA_SINKS, SinkDeclaration
from surestart.errors import UsageError
from surestart.facts.evidence.file_sink import FILE_SINKS
from surestart.typed import Verbatim, surestart, typed

NO_SINK = "none"
DELTA_KINDS = (*DELTA_SINKS, "foreach-batch")
# They keep no rows, or none after the driver has gone: nothing can be lost or doubled there.
HARMLESS = ("console", "memory", "noop")
# Written without a record of batches that this program could read.
UNRECORDED = ("kafka", "jdbc", "foreach", *HARMLESS, "hudi", "other")
SINK_KINDS = (*DELTA_KINDS, "iceberg", "postgres", *FILE_SINKS, *UNRECORDED)
_SCHEMES = (
    "file",
    "dbfs",
    "s3",
    "s3a",
    "s3n",
    "abfs",
    "abfss",
    "wasb",
    "wasbs",
    "gs",
    "adl",
    "hdfs",
    "viewfs",
)
_IN_SQL = re.compile(rf"(?i)(delta|iceberg|{'|'.join(FILE_SINKS)})\.`([^`]+)`")
_BROKERS = re.compile(r"[A-Za-z0-9.\-\[\]:]+:[0-9]{1,5}(,[A-Za-z0-9.\-\[\]:]+:[0-9]{1,5})*")
_DATABASES = ("postgres", "postgresql", "jdbc", "postgresql+psycopg")
_NEXT = surestart("inspect", "PATH", "--sink", "PATH_OF_THE_TABLE")


def read_sink_name(name: str) -> SinkDeclaration:
    """The sink of that name; never a URL with a password. What the name does not say is unknown, and not "none"."""
    if "@" in name and "//" in name.partition("@")[0] and name.partition(":")[0] in _DATABASES:
        raise UsageError(
            "a database URL was given as a sink",
            meaning="Arguments are seen by every user of the machine and kept in the shell's history.",
            next=replace(
                surestart("inspect", "PATH", "--sink", "postgres:SCHEMA.TABLE"),
                first=typed(
                    "export", Verbatim("SURESTART_POSTGRES_URL='postgresql://user:password@host:5432/database'")
                ),
            ),
            do_not="write a password into a command.",
            code="DatabaseUrlInArgument",
        )
    if not name.strip():
        raise _unknown("an empty sink was given")
    if in_sql := _IN_SQL.fullmatch(name):
        name = f"{in_sql[1].lower()}:{in_sql[2]}"
    head, colon, target = name.partition(":")
    kind, *said = head.split("+")
    bootstrap = ""
    if kind == "kafka" and target.startswith("//"):
        bootstrap, _, target = target[2:].rpartition("/")
        if not _BROKERS.fullmatch(bootstrap):
            # Not repeated: a pasted address may have a password in it.
            raise _unknown("a Kafka sink is kafka:TOPIC, or kafka://HOST:PORT/TOPIC for its brokers to be asked")
    if not colon or any(mark in kind for mark in "/.`") or target.startswith("//") or kind in _SCHEMES:
        return _table("delta", name)
    if kind not in SINK_KINDS:
        raise _unknown(f"{kind!r} is not a kind of sink: {', '.join(SINK_KINDS)}")
    if not target:
        raise _unknown(f"--sink {name} names no target")
    sink = SinkDeclaration(kind=kind, target=target, path=target if kind in FILE_SINKS or "/" in target else "")
    if kind in (*DELTA_KINDS, "iceberg"):
        sink = _table(kind, target)
    elif kind in UNRECORDED:
        sink = replace(sink, identity="none", path="", bootstrap=bootstrap)
    for one in said:
        sink = say_of(sink, one)
    return sink


def say_of(sink: SinkDeclaration, said: str) -> SinkDeclaration:
    """The sink with one thing more that a person says of it."""
    word, _, value = said.partition("=")
    if word in ("shared", "alone", "new") and not value:
        return replace(sink, new=True) if word == "new" else replace(sink, shared=word == "shared")
    if word == "keys" and value:
        return replace(sink, keys=tuple(key.strip() for key in value.split(",") if key.strip()))
    if word == "app-id" and value:
        return replace(sink, identity="constant", constant=value)
    if word == "ledger" and value:
        return replace(sink, ledger=value)
    raise _unknown(f"{said!r} says nothing of a sink: shared, alone, new, keys=COLUMN,…, app-id=NAME, ledger=TABLE")


def with_said(name: str, said: Sequence[str]) -> str:
    """The name of the sink with these things said of it, as it could have been typed."""
    if not said or name == NO_SINK:
        return name
    sink = read_sink_name(name)
    head, _, rest = name.partition(":")
    kind, rest = (head, rest) if head.split("+")[0] == sink.kind else ("delta", name)
    return f"{'+'.join([kind, *said])}:{rest}"


def _table(kind: str, target: str) -> SinkDeclaration:
    if in_sql := _IN_SQL.fullmatch(target):
        target = in_sql[2]
    # A name in back-ticks may have anything in it.
    path = target if "`" not in target and ("/" in target or target.startswith(".")) else ""
    # Delta's own sink always writes the pair; what a function does, the table has to show.
    identity = "query-id" if kind == "delta-builtin" else "unknown"
    return SinkDeclaration(kind=kind, target=target, path=path, identity=identity)


def _unknown(what: str) -> UsageError:
    return UsageError(
        what, meaning="Taken for a table's name it would be asked for in vain.", next=_NEXT, code="SinkNotUnderstood"
    )
