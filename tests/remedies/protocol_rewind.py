"""A rewind in the model's world: where each stage goes back to, and the two steps that take it there.

plan     the version before the first commit of a later batch; below, the newest batch that has read no more than that
restore  mark, RESTORE, and the pair (new id, batch) in a commit of no rows
rewind   the checkpoint is moved aside; its batches up to that one take its place, under the new id
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from surestart.journal.stage_start import former_ids
from surestart.remedies.basis.plan import Step
from tests.remedies.protocol_world import (
    INPUT,
    OUTPUTS,
    RAW,
    Checkpoint,
    Steps,
    Table,
    Violation,
    World,
    refusal,
)

BEFORE_THE_FIRST = -1


def rewind_steps(world: World, touched: Sequence[str], cut: int) -> list[Step]:
    """Only reads. cut: so many batches before the newest that it can go back to."""
    top = world.checkpoints[touched[0]]
    if not isinstance(top, Checkpoint) or not top.commits:
        raise refusal("BatchNotPossible")
    batch = top.commits - (1 if top.in_flight else 2) - cut
    if batch < 0:
        raise refusal("BatchNotPossible")
    versions: dict[str, int] = {}
    restores, rewinds = [], []
    for stage in touched:
        held = world.checkpoints[stage]
        if not isinstance(held, Checkpoint) or not held.batches:
            _refuse_kept(world, stage, versions)
            continue
        if stage != touched[0]:
            batch = _batch_below(world, stage, held, versions, batch)
        ids = former_ids(world.journals(), stage, held.query_id)
        query_id = f"id-{world.tick()}" if world.rules.rewound_is_another else held.query_id
        for name in OUTPUTS[stage]:
            versions[name] = _version_of_batch(world, name, ids, batch)
            arguments = {"table": name, "version": world.tables[name].version, "to": versions[name]}
            arguments |= {"batch": batch, "query_id": query_id}
            restores.append(Step(f"restore:{name}", "restore", "", stage, arguments))
        arguments = {"manifest": repr(held), "batch": batch, "query_id": query_id, "former": held.query_id}
        kind = "retire" if batch == BEFORE_THE_FIRST else "rewind"
        if stage != touched[0]:
            _refuse_kept(world, stage, versions)
        rewinds.append(Step(f"{kind}:{stage}", kind, "", stage, arguments))
    _refuse_lost(world, versions)
    starts = {step.stage: {"as_before": True} for step in rewinds}
    return [*reversed(restores), *reversed(rewinds), Step("start", "start", "", arguments={"starts": starts})]


def _batch_below(world: World, stage: str, held: Checkpoint, versions: Mapping[str, int], above: int) -> int:
    if not world.rules.readers_go_back:
        return min(above, held.commits - 1)
    if INPUT[stage] not in versions:
        raise refusal("BatchNotPossible")
    version = versions[INPUT[stage]]
    for number in range(held.commits - 1, -1, -1):
        end = held.batches[number][1]
        if end.version + (end.snapshot or end.index > 0) <= version + 1:
            return number
    begin = world.begin_of(stage)
    if begin is not None and begin.version is not None and begin.version > version + 1:
        raise refusal("ReaderCannotGoBack")
    return BEFORE_THE_FIRST


def _refuse_kept(world: World, stage: str, versions: Mapping[str, int]) -> None:
    """A former self of it has written them, or a replay has kept them: no batch says when, and they would stay."""
    given = world.tables[INPUT[stage]]
    going = {row[:2] for row in given.rows()} - {row[:2] for row in given.rows(versions.get(INPUT[stage]))}
    rows = [row[:2] for name in OUTPUTS[stage] for row in world.tables[name].rows(versions.get(name))]
    if world.rules.kept_rows_go_back and not going.isdisjoint(rows):
        raise refusal("ReaderCannotGoBack")


def check_rewound(world: World, touched: Sequence[str]) -> None:
    """No stage below holds a row that its input has no more."""
    for stage in touched[1:]:
        given = {row[:2] for row in world.tables[INPUT[stage]].rows()}
        if not given.issuperset(world.positions(stage)):
            raise Violation(f"{stage} kept rows that were taken back above it")


def _version_of_batch(world: World, name: str, ids: Sequence[str], batch: int) -> int:
    table = world.tables[name]
    standing = standing_commits(table)
    own = [(version, table.commits[version].pair[1]) for version in standing if table.commits[version].pair[0] in ids]
    if not own:
        raise refusal("CommitGone")
    later = [version for version, number in own if number > batch]
    found = later[0] - 1 if later else standing[-1]
    mine = {version for version, _ in own}
    for version in standing:
        commit = table.commits[version]
        if version > found and version not in mine and (commit.adds or commit.is_change):
            raise refusal("OthersHaveWritten")
    if found < world.vacuumed.get(name, 0):
        raise refusal("VersionGone")
    return found


def standing_commits(table: Table) -> tuple[int, ...]:
    """The versions that made the table what it is: without what a RESTORE has taken back."""
    at: list[tuple[int, ...]] = []
    for version, commit in enumerate(table.commits):
        kind, _, to = commit.note.partition(" ")
        at.append(at[int(to)] if kind == "restore" else (*(at[-1] if at else ()), version))
    return at[-1]


def _refuse_lost(world: World, versions: Mapping[str, int]) -> None:
    """Rows of raw that the source gives no more. What goes below is read again from raw, or is this."""
    if "raw" in versions:
        stays = {row[:2] for row in world.tables["raw"].rows(versions["raw"])}
        for part, offset, _ in world.tables["raw"].rows():
            if (part, offset) not in stays and part is not None and offset < world.source[part][0]:
                raise refusal("SourceLostRows")


def look_again(world: World, steps: Iterable[Step]) -> None:
    """The source's retention goes on while a plan lies half-way."""
    versions = {step.arguments["table"]: step.arguments["to"] for step in steps if step.kind == "restore"}
    if world.rules.source_looked_at_again:
        _refuse_lost(world, versions)


def mark_of(digest: str, step: Step) -> str:
    return f"{digest}:marker:rewind:{step.id}"


def restore_for_rewind(world: World, digest: str, step: Step) -> Steps:
    name, to, batch = step.arguments["table"], step.arguments["to"], step.arguments["batch"]
    table, mark = world.tables[name], mark_of(digest, step)
    if table.find_restore(mark, to) is None:
        if to < world.vacuumed.get(name, 0):
            raise refusal("UndoTooLate")
        rows = [(None, -1, 0)] if name in ("raw", "good") and world.rules.marker_row else []
        world.append(name, rows, mark, 0, mark)
        yield
        world.restore(name, to)
        yield
    if batch >= 0 and world.rules.rewound_is_told:
        world.append(name, (), step.arguments["query_id"], batch, step.arguments["query_id"])
    yield


def facts_of(world: World, digest: str, step: Step) -> dict[str, Any]:
    """What the journal says of it: what was taken back, and under which id the stage goes on."""
    if step.kind == "restore":
        to = step.arguments["to"]
        return {
            "restored": to,
            "version": world.tables[step.arguments["table"]].find_restore(mark_of(digest, step), to),
        }
    if step.kind == "rewind":
        return {name: step.arguments[name] for name in ("query_id", "former", "batch")}
    return {}


def cut_of(world: World, digest: str, step: Step) -> Checkpoint:
    """What is put in the place of the checkpoint, that in use or, where it is aside by now, that one."""
    here = (step.stage, digest)
    former = world.retired[here] if here in world.complete else world.checkpoints[step.stage]
    batch = step.arguments["batch"]
    return Checkpoint(step.arguments["query_id"], former.batches[: batch + 1], batch + 1)


def pass_on(world: World, step: Step) -> None:
    """What the stage was noted to pass over, it passes over under its new id as well."""
    if world.rules.passing_is_passed_on and step.stage != RAW:
        former, query_id = step.arguments["former"], step.arguments["query_id"]
        world.noted |= {(query_id, name, version) for one, name, version in world.noted if one == former}
