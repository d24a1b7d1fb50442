"""A fork: one stream as it was at a batch, beside, with nothing else touched. To try new code on real state, and to
look at what a batch did.

    checkpoint   Spark's own entries up to the batch, under a query id of its own
    tables       a shallow clone of each, at the version that held the batch

The stream may go on meanwhile: nothing is claimed and nothing waits. Streams below are not forked.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surestart.environment import Environment, Table
from surestart.errors import Refused, UsageError
from surestart.facts.checkpoint.cut import Cut, CutStorage
from surestart.fork import CHECKPOINTS, TABLES
from surestart.history.describe_run import named, plan_command
from surestart.journal.journal import read_journals
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Chain, Link
from surestart.remedies.basis.change_place import refuse_too_large
from surestart.remedies.basis.fork_folder import fork_text
from surestart.remedies.basis.plan import FORK, Effect, Plan, Step
from surestart.remedies.basis.preconditions import LinkFacts, TableFacts, read_link
from surestart.remedies.basis.read_back import stopping_findings
from surestart.remedies.basis.rows_that_stay import why_not_readable
from surestart.remedies.planning.estimate import number
from surestart.remedies.planning.free_place import refuse_no_fork_place
from surestart.remedies.planning.rewind_choice import RewindTo, StreamNow, choose_batch, not_possible, read_stream_now
from surestart.remedies.planning.rewind_table import rows_at, try_cut, unread_files, version_of_batch
from surestart.remedies.planning.wanted import Request
from surestart.streams.project_file import FILE
from surestart.typed import surestart
from surestart.words.amounts import size_text, time_text


@dataclass(frozen=True)
class _Fork:
    """versions, rows: of each table at the batch.
    places: where the clone of each table goes.
    note: what the fork's folder says of it."""

    now: StreamNow
    batch: int
    folder: Path
    cut: Cut
    versions: Mapping[str, int]
    rows: Mapping[str, int | None]
    places: Mapping[str, Path]
    note: Mapping[str, Any]

    @property
    def link(self) -> Link:
        return self.now.link

    @property
    def tables(self) -> Mapping[str, TableFacts]:
        return self.now.facts.tables

    @property
    def checkpoint(self) -> Path:
        return self.folder / CHECKPOINTS / self.link.query

    @property
    def every(self) -> dict[str, Any]:
        """What each step is told."""
        told = {"folder": str(self.folder), "note": self.note}
        return {**told, "batch": self.batch, "query_id": self.note["query_id"]}


def plan_fork(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, to: RewindTo, folder: str, request: Request
) -> Plan:
    link = chain.link(stage)
    place = refuse_no_fork_place(environment, chain, link, folder)
    _refuse_others(environment, link)
    facts = read_link(link, spark, with_files=False)
    _refuse_unwritten(environment, facts)
    now = read_stream_now(spark, facts, read_journals(environment, spark))
    chosen = choose_batch(environment, now, to, beside=str(place))
    cut = try_cut(now.storage, chosen.batch)
    if not isinstance(cut, Cut):
        raise not_possible(environment, link, f"cannot be forked at batch {chosen.batch}: {cut}", "")
    refuse_too_large(cut.size, place.parent)
    known = tuple(dict.fromkeys(one.code for one in stopping_findings(spark, environment, link)))
    _refuse_unsafe(spark, environment, link, chosen.batch, CutStorage(now.storage, cut), known)
    fork = _new_fork(spark, environment, now, chosen.batch, place, cut)
    asked = request.of_plan(environment)
    return Plan(
        remedy="rewind",
        stage=stage,
        method=FORK,
        **asked,
        # Nothing of the stream is changed, so nothing is claimed, and no other remedy waits for this one.
        touched=(),
        preconditions={},
        steps=(*_clone_steps(fork), _fork_step(fork, environment, known, asked["created_at"])),
        effects=(
            *(Effect(str(fork.places[name]), "clone", fork.rows[name], 0, 0) for name in fork.versions),
            Effect(str(fork.checkpoint), "new", None, len(cut.copied) + 1, cut.size),
        ),
        statements=(*([chosen.by_time] if chosen.by_time else []), *_statements(fork)),
        undo=f"drops the fork: {place} with all that it has written. Refused while it runs, and when something else "
        "is there",
    )


def _new_fork(
    spark: SparkSession, environment: Environment, now: StreamNow, batch: int, folder: Path, cut: Cut
) -> _Fork:
    versions: dict[str, int] = {}
    rows: dict[str, int | None] = {}
    for name, commits in now.standing.items():
        table = now.facts.tables[name].table
        versions[name] = version_of_batch(environment, now.link, table, commits, now.ids, batch)
        _refuse_deleted(spark, environment, now.link, name, table, versions[name])
        rows[name] = rows_at(spark, environment, table, versions[name])
    places = _places(folder, now.facts)
    note = {
        "stage": now.link.name,
        "query": now.link.query,
        "batch": batch,
        "query_id": str(uuid.uuid4()),
        "of": now.link.checkpoint,
        "tables": sorted(path.name for path in places.values()),
    }
    return _Fork(now, batch, folder, cut, versions, rows, places, note)


def _statements(fork: _Fork) -> Iterator[str]:
    yield (
        f"{fork.link.query} as it was at batch {fork.batch}, in {fork.folder}: a checkpoint under a query id of its "
        "own, and a shallow clone of each table. Nothing else is touched; the stream may go on meanwhile."
    )
    for name, version in fork.versions.items():
        yield (
            f"{name}: {number(fork.rows[name])} rows, version {version} of {fork.tables[name].version}. The fork reads "
            "them from the original's files: once a VACUUM there has deleted one, it cannot be read any more."
        )
    names = [operator.name or f"operator {operator.id}" for operator in fork.now.facts.checkpoint.state.operators]
    if names:
        yield f"Its state ({', '.join(names)}) is that of batch {fork.batch}, version {fork.batch + 1}."
    yield f"It reads the original's source, from where batch {fork.batch} ended."
    if gone := list(unread_files(fork.now.storage, fork.now.checkpoint, fork.batch)):
        since = f"Of what {fork.link.query} has read since, {len(gone):,} files are gone"
        yield f"{since}, such as {gone[0]}: the fork lacks them."
    yield "One stream is forked: streams that read its tables are not. docs/rehearse.md runs new code on it."


def _clone_steps(fork: _Fork) -> Iterator[Step]:
    for name, version in fork.versions.items():
        table, to = fork.tables[name], str(fork.places[name])
        what = (
            f"make a shallow clone of {name} as it was at batch {fork.batch}, version {version} of {table.version}, "
            f"in {to}"
        )
        told = {**fork.every, "table": name, "table_id": table.table_id, "version": version, "to": to}
        yield Step.of("clone", name, what, fork.link.name, told)


def _fork_step(fork: _Fork, environment: Environment, known: tuple[str, ...], made: int) -> Step:
    link, cut = fork.link, fork.cut
    head = f"A fork of {link.name} at batch {fork.batch}, {time_text(made)}."
    head += " Dropped by `surestart undo`, digest in fork.json."
    tables = {fork.tables[name].table.path: str(fork.places[name]) for name in fork.versions}
    told = {
        **fork.every,
        "to": str(fork.checkpoint),
        "former": fork.now.checkpoint.query_id,
        "findings": list(known),
        "file": fork_text(link.stage.declare(environment), fork.folder, fork.checkpoint, tables, head),
    }
    what = (
        f"write a checkpoint of {link.query} that ends with batch {fork.batch} ({len(cut.copied) + 1} files, "
        f"{size_text(cut.size)}) to {fork.checkpoint}, and declare the fork in {fork.folder / FILE}"
    )
    return Step.of("fork", link.name, what, link.name, told)


def _places(place: Path, facts: LinkFacts) -> dict[str, Path]:
    """Where the clone of each table goes: by its name, which stays one of a stage's; of a path, by its last part."""
    found: dict[str, Path] = {}
    for name in facts.tables:
        last = name.rstrip("/").rpartition("/")[2]
        taken = {path.name for path in found.values()}
        found[name] = place / TABLES / (last if last not in taken else f"{last}_{len(taken) + 1}")
    return found


def _refuse_unsafe(
    spark: SparkSession, environment: Environment, link: Link, batch: int, shown: CutStorage, known: tuple[str, ...]
) -> None:
    found = [one for one in stopping_findings(spark, environment, link, shown) if one.code not in known]
    if found:
        raise Refused(
            f"{link.query} could not start from batch {batch}: {found[0].code}: {found[0].evidence}",
            meaning=f"{found[0].meaning} Nothing was planned.",
            next=found[0].next,
            code=found[0].code,
        )


def _refuse_deleted(
    spark: SparkSession, environment: Environment, link: Link, name: str, table: Table, version: int
) -> None:
    if why := why_not_readable(spark, environment, table, version):
        raise Refused(
            why,
            meaning="The fork would read them, and could not. A newer batch may still be whole. Nothing was planned.",
            next=surestart("doctor", link.name, place=named(environment)),
            code="VersionGone",
        )


def _refuse_unwritten(environment: Environment, facts: LinkFacts) -> None:
    lacking = [name for name, table in facts.tables.items() if not table.exists]
    if lacking:
        raise UsageError(
            f"{', '.join(lacking)}: there is no such table yet, and {facts.link.query} writes to it",
            meaning="There is nothing to make a clone of. Nothing was planned.",
            next=surestart("doctor", facts.link.name, place=named(environment)),
            code="ForkNotOffered",
        )


def _refuse_others(environment: Environment, link: Link) -> None:
    """What a shallow clone by its path cannot be made of."""
    names = [f"PostgreSQL {sink.target}" for sink in link.databases] + [own.label for own in link.own_sinks]
    names += [output.table.label for output in link.outputs if not output.table.path]
    if not names and link.outputs:
        return
    raise UsageError(
        f"{link.query} writes to {', '.join(names) or 'no Delta table'}",
        meaning="A fork is a shallow clone of Delta tables that are known by their path. Nothing was planned.",
        next=surestart("doctor", link.name, place=named(environment))
        if not link.outputs
        else plan_command(environment, "rewind", link.name, "--to-batch", 0, note="the stream itself, with an undo"),
        code="ForkNotOffered",
    )
