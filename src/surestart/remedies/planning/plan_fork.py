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
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.facts.storage.open_storage import LocalStorage
from surestart.fork import CHECKPOINTS, TABLES
from surestart.history.describe_run import named, plan_command
from surestart.journal.journal import read_journals
from surestart.journal.stage_start import former_ids
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Chain, Link
from surestart.remedies.basis.change_place import refuse_too_large
from surestart.remedies.basis.fork_folder import fork_text
from surestart.remedies.basis.plan import FORK, Effect, Plan, Step
from surestart.remedies.basis.preconditions import LinkFacts, read_link
from surestart.remedies.basis.read_back import stopping_findings
from surestart.remedies.basis.rows_that_stay import deleted_files
from surestart.remedies.planning.estimate import number
from surestart.remedies.planning.free_place import refuse_no_fork_place
from surestart.remedies.planning.rewind_back import standing_commits
from surestart.remedies.planning.rewind_choice import RewindTo, choose_batch, not_possible
from surestart.remedies.planning.rewind_table import rows_at, try_cut, unread_files, version_of_batch
from surestart.remedies.planning.wanted import Request
from surestart.streams.project_file import FILE
from surestart.typed import surestart
from surestart.words.amounts import size_text, time_text


@dataclass(frozen=True)
class _Fork:
    """versions, rows: of each table at the batch.
    every: what each step is told."""

    link: Link
    facts: LinkFacts
    batch: int
    folder: Path
    cut: Cut
    versions: Mapping[str, int]
    rows: Mapping[str, int | None]
    places: Mapping[str, Path]
    every: Mapping[str, Any]

    @property
    def checkpoint(self) -> Path:
        return self.folder / CHECKPOINTS / self.link.query


def plan_fork(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, to: RewindTo, folder: str, request: Request
) -> Plan:
    link = chain.link(stage)
    place = refuse_no_fork_place(environment, chain, link, folder)
    _refuse_others(environment, link)
    facts = read_link(link, spark, with_files=False)
    _refuse_unwritten(environment, facts)
    whole = read_checkpoint(link.checkpoint)
    standing = standing_commits(spark, facts)
    ids = former_ids(read_journals(environment, spark), stage, whole.query_id or "")
    chosen = choose_batch(environment, link, whole, standing, ids, to, newest_too=True)
    batch = chosen.batch
    storage = LocalStorage(str(local_folder(link.checkpoint)))
    cut = try_cut(storage, batch)
    if not isinstance(cut, Cut):
        raise not_possible(environment, link, f"cannot be forked at batch {batch}: {cut}", "")
    refuse_too_large(cut.size, place.parent)
    known = tuple(dict.fromkeys(one.code for one in stopping_findings(spark, environment, link)))
    _refuse_unsafe(spark, environment, link, batch, CutStorage(storage, cut), known)
    versions = {}
    for name, commits in standing.items():
        table = facts.tables[name].table
        versions[name] = version_of_batch(environment, link, table, commits, ids, batch)
        _refuse_deleted(spark, environment, link, name, table, versions[name])
    rows = {name: rows_at(spark, environment, facts.tables[name].table, version) for name, version in versions.items()}
    fork = _new_fork(facts, batch, place, cut, versions, rows)
    asked = request.of_plan(environment)
    return Plan(
        remedy="rewind",
        stage=stage,
        method=FORK,
        **asked,
        # Nothing of the stream is changed, so nothing is claimed, and no other remedy waits for this one.
        touched=(),
        preconditions={},
        steps=(*_clone_steps(fork), _fork_step(fork, environment, whole, known, asked["created_at"])),
        effects=(
            *(Effect(str(fork.places[name]), "clone", rows[name], 0, 0) for name in versions),
            Effect(str(fork.checkpoint), "new", None, len(cut.copied) + 1, cut.size),
        ),
        statements=(
            *([chosen.by_time] if chosen.by_time else []),
            f"{link.query} as it was at batch {batch}, in {place}: a checkpoint under a query id of its own, and a "
            "shallow clone of each table. Nothing else is touched; the stream may go on meanwhile.",
            *(
                f"{name}: {number(rows[name])} rows, version {version} of {facts.tables[name].version}. The fork reads "
                "them from the original's files: once a VACUUM there has deleted one, it cannot be read any more."
                for name, version in versions.items()
            ),
            *_state(facts, batch),
            *_sources(storage, whole, link, batch),
            "One stream is forked: streams that read its tables are not. docs/rehearse.md runs new code on it.",
        ),
        undo=f"drops the fork: {place} with all that it has written. Refused while it runs, and when something else "
        "is there",
    )


def _new_fork(
    facts: LinkFacts,
    batch: int,
    folder: Path,
    cut: Cut,
    versions: Mapping[str, int],
    rows: Mapping[str, int | None],
) -> _Fork:
    places, query_id = _places(folder, facts), str(uuid.uuid4())
    note = {
        "stage": facts.link.name,
        "query": facts.link.query,
        "batch": batch,
        "query_id": query_id,
        "of": facts.link.checkpoint,
        "tables": sorted(path.name for path in places.values()),
    }
    every = {"folder": str(folder), "note": note, "batch": batch, "query_id": query_id}
    return _Fork(facts.link, facts, batch, folder, cut, versions, rows, places, every)


def _clone_steps(fork: _Fork) -> Iterator[Step]:
    for name, version in fork.versions.items():
        table, to = fork.facts.tables[name], str(fork.places[name])
        what = (
            f"make a shallow clone of {name} as it was at batch {fork.batch}, version {version} of {table.version}, "
            f"in {to}"
        )
        told = {**fork.every, "table": name, "table_id": table.table_id, "version": version, "to": to}
        yield Step(f"clone:{name}", "clone", what, fork.link.name, told)


def _fork_step(fork: _Fork, environment: Environment, whole: Checkpoint, known: tuple[str, ...], made: int) -> Step:
    link, cut = fork.link, fork.cut
    head = f"A fork of {link.name} at batch {fork.batch}, {time_text(made)}."
    head += " Dropped by `surestart undo`, digest in fork.json."
    tables = {fork.facts.tables[name].table.path: str(fork.places[name]) for name in fork.versions}
    told = {
        **fork.every,
        "to": str(fork.checkpoint),
        "former": whole.query_id,
        "findings": list(known),
        "file": fork_text(link.stage.declare(environment), fork.folder, fork.checkpoint, tables, head),
    }
    what = (
        f"write a checkpoint of {link.query} that ends with batch {fork.batch} ({len(cut.copied) + 1} files, "
        f"{size_text(cut.size)}) to {fork.checkpoint}, and declare the fork in {fork.folder / FILE}"
    )
    return Step(f"fork:{link.name}", "fork", what, link.name, told)


def _places(place: Path, facts: LinkFacts) -> dict[str, Path]:
    """Where the clone of each table goes: by its name, which stays one of a stage's; of a path, by its last part."""
    found: dict[str, Path] = {}
    for name in facts.tables:
        last = name.rstrip("/").rpartition("/")[2]
        taken = {path.name for path in found.values()}
        found[name] = place / TABLES / (last if last not in taken else f"{last}_{len(taken) + 1}")
    return found


def _state(facts: LinkFacts, batch: int) -> list[str]:
    names = [operator.name or f"operator {operator.id}" for operator in facts.checkpoint.state.operators]
    return [f"Its state ({', '.join(names)}) is that of batch {batch}, version {batch + 1}."] if names else []


def _sources(storage: LocalStorage, whole: Checkpoint, link: Link, batch: int) -> list[str]:
    lines = [f"It reads the original's source, from where batch {batch} ended."]
    gone = list(unread_files(storage, whole, batch))
    if gone:
        since = f"Of what {link.query} has read since, {len(gone):,} files are gone"
        lines.append(f"{since}, such as {gone[0]}: the fork lacks them.")
    return lines


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
    gone, of = deleted_files(spark, environment, table, version)
    if gone:
        raise Refused(
            f"{gone} of {of} files of version {version} of {name} are deleted (VACUUM)",
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
