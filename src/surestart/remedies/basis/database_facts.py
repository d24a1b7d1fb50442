"""What a plan rests on in a stage's PostgreSQL tables: which they are, what they hold, how much of it would go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from surestart.errors import Refused, SurestartError
from surestart.facts.postgres.connection import UNCHANGED, driver, error_in_four_parts, name, open_connection
from surestart.facts.postgres.ledger import TABLE
from surestart.facts.postgres.target import find_target
from surestart.library_types import DataFrame, PostgresConnection
from surestart.remedies.basis.chain import POSITION, Link
from surestart.sinks.postgres.once import Marks
from surestart.sinks.postgres.remedy import going, refuse_references
from surestart.sinks.postgres.sink import PostgresSink
from surestart.typed import surestart

T = TypeVar("T")


@dataclass(frozen=True)
class DatabaseFacts:
    """table_id "": there is no such table.

    batches: what its ledger says, which every batch changes."""

    target: str
    label: str
    table_id: str = ""
    batches: str = ""
    rows: int = 0
    size: int = 0

    @property
    def exists(self) -> bool:
        return bool(self.table_id)


def read_database(sink: PostgresSink) -> DatabaseFacts:
    return _ask(sink, _read)


def read_column_names(sink: PostgresSink) -> tuple[str, ...]:
    return _ask(sink, lambda connection, sink: find_target(connection, sink.target).names)


def count_going(sink: PostgresSink, marks: Marks | None) -> int:
    """Rows that would be removed. Raises Refused where that cannot be said by position, or would reach other tables."""

    def ask(connection: PostgresConnection, sink: PostgresSink) -> int:
        target = find_target(connection, sink.target)
        refuse_references(connection, target, sink.url)
        missing = [column for column in POSITION if column not in target.names]
        if marks is not None and missing:
            raise Refused(
                f"{target.label} has no column {', '.join(missing)}",
                meaning="Which of its rows came from where they are to be "
                "read again cannot be told. Nothing was planned.",
                next=surestart("plan", "reset", "--help", note="a reset removes all of them"),
                code="PostgresWithoutPositions",
            )
        condition, values = going(marks)
        return _one(connection, f"SELECT count(*) FROM {target.sql} t WHERE {condition}", values)

    return _ask(sink, ask)


def read_marks(kept: DataFrame) -> Marks:
    return tuple((str(row["source"]), int(row["partition"]), int(row["below"])) for row in kept.collect())


def as_database_preconditions(link: Link) -> dict[str, dict[str, str]]:
    """Target -> what has to be the same when the plan is applied."""
    facts = {sink.target: read_database(sink) for sink in link.databases}
    return {
        target: {"id": found.table_id, "version": found.batches, "label": found.label}
        for target, found in facts.items()
    }


def _read(connection: PostgresConnection, sink: PostgresSink) -> DatabaseFacts:
    quoted = name(*sink.target.split("."))
    there = connection.execute("SELECT to_regclass(%s)::oid::text", (quoted,)).fetchone()
    if not there or there[0] is None:
        return DatabaseFacts(sink.target, sink.url.label)
    target = find_target(connection, sink.target)
    return DatabaseFacts(
        target=sink.target,
        label=sink.url.label,
        table_id=f"{target.label} {there[0]}",
        batches=_batches(connection, target.schema, target.label),
        rows=_one(connection, f"SELECT count(*) FROM {target.sql}"),
        size=_one(connection, "SELECT pg_total_relation_size(%s::regclass)", [target.sql]),
    )


def _batches(connection: PostgresConnection, schema: str, label: str) -> str:
    ledger = name(schema, TABLE)
    there = connection.execute("SELECT to_regclass(%s)", (ledger,)).fetchone()
    if not there or there[0] is None:
        return "no batch"
    row = connection.execute(
        f"SELECT count(*), max(committed_at)::text FROM {ledger} WHERE target = %s", (label,)
    ).fetchone()
    return f"{row[0]} batches, the last at {row[1]}" if row and row[0] else "no batch"


def _ask(sink: PostgresSink, question: Callable[[PostgresConnection, PostgresSink], T]) -> T:
    psycopg = driver()
    url = sink.url.read()
    failure: SurestartError
    try:
        with open_connection(url, "surestart plan") as connection:
            connection.execute("SET default_transaction_read_only = on")
            return question(connection, sink)
    except psycopg.Error as error:
        failure = error_in_four_parts(error, url, f"looking at {sink.target}", UNCHANGED)
    raise failure


def _one(connection: PostgresConnection, sql: str, values: list[Any] | None = None) -> int:
    row = connection.execute(sql, values or None).fetchone()
    assert row is not None
    return int(row[0])
