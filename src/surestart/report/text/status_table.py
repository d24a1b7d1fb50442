"""What is where in an environment: tables, checkpoints, last batches; at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from surestart.environment import Environment
from surestart.typed import Place, Words, surestart
from surestart.words.amounts import time_text
from surestart.words.finding import labelled
from surestart.words.inert import inert

EACH = "each with its place"


@dataclass(frozen=True)
class TableStatus:
    """version None: the table is not there, or `problem` says why it was not read.
    rows None: not all files say."""

    name: str
    place: str
    version: int | None = None
    rows: int | None = None
    size: int | None = None
    written_at: int | None = None
    written_by: str = ""
    problem: str = ""


@dataclass(frozen=True)
class QueryStatus:
    stage: str
    checkpoint: str
    exists: bool | None
    query_id: str
    planned: int | None
    committed: int | None
    planned_at: int | None
    position: str


def render_status(
    environment: Environment, tables: Sequence[TableStatus], queries: Sequence[QueryStatus], options: Words = ()
) -> str:
    return "\n".join(_lines(environment, tables, queries, options)) + "\n"


def status_object(
    environment: Environment, tables: Sequence[TableStatus], queries: Sequence[QueryStatus]
) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "pipeline": environment.pipeline,
        "environment": environment.name,
        "tables": [
            {
                "name": table.name,
                "place": inert(table.place, 400),
                "version": table.version,
                "rows": table.rows,
                "bytes": table.size,
                "written_at": table.written_at,
                "written_by": inert(table.written_by),
                "problem": inert(table.problem, 400) or None,
            }
            for table in tables
        ],
        "queries": [
            {
                "stage": query.stage,
                "checkpoint": inert(query.checkpoint, 400),
                "exists": query.exists,
                "query_id": inert(query.query_id) or None,
                "batches": {"planned": query.planned, "committed": query.committed, "planned_at": query.planned_at},
                "position": inert(query.position),
            }
            for query in queries
        ],
    }


def _lines(
    environment: Environment, tables: Sequence[TableStatus], queries: Sequence[QueryStatus], options: Words
) -> Iterator[str]:
    yield f"{environment.pipeline} · {environment.name}"
    yield ""
    place = f"{environment.root}/tables" if environment.root else f"{environment.catalog}.{environment.schema}"
    # Declared streams lie anywhere: each names its own place then.
    elsewhere = bool(environment.root) and not all(_is_below(query.checkpoint, environment) for query in queries)
    yield from labelled("tables", EACH if elsewhere else inert(place, 300), indent=0, gap=13)
    width = max([8, *(len(table.name) for table in tables)])
    yield f"  {'':<{width}}  {'rows':>11}  {'version':>7}  {'written UTC':<11}  by"
    for table in tables:
        yield f"  {table.name:<{width}}  {_table(table)}"
        if elsewhere:
            yield f"  {'':<{width}}  {inert(table.place, 300)}"
    yield ""
    yield from labelled("checkpoints", EACH if elsewhere else inert(environment.checkpoint_root, 300), indent=0, gap=13)
    width = max([8, *(len(query.stage) for query in queries)])
    for query in queries:
        yield f"  {query.stage:<{width}}  {_query(query)}"
        if elsewhere:
            yield f"  {'':<{width}}  {inert(query.checkpoint, 300)}"
        if query.position:
            yield f"  {'':<{width}}  at {inert(query.position, 74 - width)}"
    yield ""
    yield f"Next: {surestart('doctor', place=Place(environment.name, options))}"


def _is_below(checkpoint: str, environment: Environment) -> bool:
    return checkpoint.startswith(f"{environment.checkpoint_root}/")


def _table(table: TableStatus) -> str:
    if table.problem:
        return inert(f"not read: {table.problem}", 48)
    if table.version is None:
        return "not there yet"
    rows = "?" if table.rows is None else f"{table.rows:,}"
    when = _short(table.written_at)
    return f"{rows:>11}  {table.version:>7}  {when:<11}  {inert(table.written_by, 14)}".rstrip()


def _short(milliseconds: int | None) -> str:
    """Month, day and time; for a table that is older than a year, minutes do not matter."""
    return "" if milliseconds is None else time_text(milliseconds)[5:16]


def _query(query: QueryStatus) -> str:
    if query.exists is None:
        return "cannot be read"
    if not query.exists:
        return "never started"
    if query.planned is None:
        return "started, no batch planned yet"
    state = "done" if query.planned == query.committed else "IN FLIGHT"
    when = f", {time_text(query.planned_at)}" if query.planned_at else ""
    return f"batch {query.planned} {state}{when}  id {inert(query.query_id, 8)}"
