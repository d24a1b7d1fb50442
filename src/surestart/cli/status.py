"""`surestart status`: what is where in an environment. Reads files only, starts nothing, judges nothing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable

from surestart.cli.arguments import add_environment_arguments, read_given_environment
from surestart.cli.doctor import given_options
from surestart.declaration import StageDeclaration
from surestart.errors import EXIT_CANNOT_TELL, EXIT_FINE, CannotTell
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.delta import read_active_files, read_delta_log, read_history
from surestart.facts.delta.listing import NoDeltaLog
from surestart.report.text.status_table import QueryStatus, TableStatus, render_status, status_object


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_environment_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    environment, pipeline, settings = read_given_environment(args)
    declarations = [stage.declare(environment) for stage in pipeline.build_stages(settings)]
    tables = [_read_table(label, path) for label, path in _tables(declarations)]
    queries = [_read_query(declaration) for declaration in declarations]
    if args.json:
        sys.stdout.write(json.dumps(status_object(environment, tables, queries), indent=2) + "\n")
    else:
        sys.stdout.write(render_status(environment, tables, queries, given_options(args)))
    unread = any(table.problem for table in tables) or any(query.exists is None for query in queries)
    return EXIT_CANNOT_TELL if unread else EXIT_FINE


def _tables(declarations: Iterable[StageDeclaration]) -> list[tuple[str, str]]:
    """(target, path) of every Delta table, in the order in which rows reach them."""
    found: dict[str, str] = {}
    for declaration in declarations:
        for source in declaration.sources:
            if source.kind == "delta":
                found.setdefault(source.target, source.path)
        for sink in declaration.sinks:
            if sink.is_delta:
                found.setdefault(sink.target, sink.path)
    return list(found.items())


def _read_table(label: str, path: str) -> TableStatus:
    name = label.replace("/", ".").rpartition(".")[2]
    if not path:
        return TableStatus(name, label, problem="its files cannot be opened by name from here")
    try:
        log = read_delta_log(path)
        files = read_active_files(path, log.latest_version)
        last = next(iter(read_history(path, limit=1)), None)
    except NoDeltaLog:
        return TableStatus(name, path)
    except CannotTell as problem:
        return TableStatus(name, path, problem=problem.what)
    counts = [None if file.rows is None else file.rows - file.deleted_rows for file in files]
    written_by = ""
    if last is not None:
        written_by = f"{last.mark.stage} {last.mark.batch_id}" if last.mark and last.mark.stage else last.operation
    return TableStatus(
        name=name,
        place=path,
        version=log.latest_version,
        rows=None if any(count is None for count in counts) else sum(count or 0 for count in counts),
        size=sum(file.size for file in files),
        written_at=last.timestamp if last else None,
        written_by=written_by,
    )


def _read_query(declaration: StageDeclaration) -> QueryStatus:
    checkpoint = read_checkpoint(declaration.checkpoint, entries=2)
    entry = checkpoint.latest_offsets
    positions = [source.end.describe() for source in checkpoint.sources if source.end is not None]
    return QueryStatus(
        stage=declaration.stage,
        checkpoint=declaration.checkpoint,
        exists=checkpoint.exists,
        query_id=checkpoint.query_id or "",
        planned=checkpoint.latest_planned,
        committed=checkpoint.latest_committed,
        planned_at=entry.timestamp_ms if isinstance(entry, OffsetLogEntry) else None,
        position="; ".join(positions),
    )
