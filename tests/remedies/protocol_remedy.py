"""Planning, applying and undoing a remedy in the model's world, in the order of the real modules.

    plan     the real `Plan` with its digest; marks, cascade and starts as `planning` reckons them
    apply    look -> claim -> look again -> begun -> keep, clear, retire, start -> released -> run -> finished
    undo     look -> claim -> look again -> undoing -> `undo_order` -> withdrawn

Each `yield` is a place where the operator can die or somebody else can act.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from surestart.errors import Refused
from surestart.journal.journal import (
    BEGUN,
    DONE,
    FINISHED,
    RELEASED,
    UNDOING,
    UNDONE,
    WITHDRAWN,
    Journal,
    JournalEntry,
    find_open,
)
from surestart.journal.protocol import changes_content, check_move, moves_checkpoint
from surestart.journal.unfinished import unfinished_error
from surestart.remedies.apply.undo import undo_order
from surestart.remedies.basis.plan import Plan, Step
from surestart.remedies.basis.preconditions import describe_moves
from tests.remedies.protocol_rewind import (
    check_rewound,
    cut_of,
    facts_of,
    look_again,
    mark_of,
    pass_on,
    restore_for_rewind,
    rewind_steps,
)
from tests.remedies.protocol_stage import run_stage
from tests.remedies.protocol_world import (
    CHAIN,
    ENVIRONMENT,
    FACTS,
    GOLD,
    INPUT,
    OUTPUTS,
    RAW,
    STAGES,
    TORN,
    Begin,
    Checkpoint,
    Row,
    Steps,
    Violation,
    World,
    newest_per_key,
    refusal,
)

Marks = dict[Any, int]
RESET, POSITIONS, BATCH, LOST, REWIND = "reset", "positions", "batch", "lost", "rewind"
# A plan's digest is reckoned from all of it each time: too dear for every step of every schedule.
_digests: dict[int, tuple[Plan, str]] = {}


def make_plan(world: World, how: str, stage: str, cut: int, run: bool) -> Plan:
    """Only reads. how: reset, a rewind, or a replay from positions, from a batch, or of a lost checkpoint."""
    touched = [link.name for link in CHAIN.below(stage)] if world.rules.cascade else [stage]
    for name in touched:
        _refuse_open(world, ENVIRONMENT.query_name(name))
    steps = rewind_steps(world, touched, cut) if how == REWIND else _steps(world, how, stage, cut, touched)
    if run:
        steps += [Step(f"run:{name}", "run", "", name) for name in touched]
    made = Plan(
        remedy=how if how in (RESET, REWIND) else "replay",
        stage=stage,
        method="in-place",
        environment=FACTS,
        created_at=world.tick(),
        touched=tuple(touched),
        preconditions=_as_world(world, touched),
        steps=tuple(steps),
        undo="possible",
        pipeline="sensor",
    )
    return save_plan(made)


def _steps(world: World, how: str, stage: str, cut: int, touched: Sequence[str]) -> list[Step]:
    top = _top_marks(world, how, stage, cut)
    if top is not None and stage == RAW:
        top = {part: max(top.get(part, 0), low) for part, (low, _) in world.source.items()}
    if top is None and stage == RAW and any(low for low, _ in world.source.values()):
        top = {part: low for part, (low, _) in world.source.items()}
    marks: dict[str, Marks | None] = {stage: top}
    for name in touched[1:]:
        above = marks[str(CHAIN.link(name).upstream)]
        marks[name] = above if above is None or name == GOLD else _processed(world, name, above)
    starts = {
        name: {"kept": marks[name] is not None, "caught_up": name != stage and _is_caught_up(world, name, marks)}
        for name in touched
    }
    steps = [Step(f"keep:{name}", "keep", "", name, {"marks": _pairs(marks[name])}) for name in touched if marks[name]]
    for name in reversed(touched):
        for table in reversed(OUTPUTS[name]):
            arguments = {"table": table, "version": world.tables[table].version, "keeps": marks[name] is not None}
            steps.append(Step(f"clear:{table}", "clear", "", name, arguments))
    for name in reversed(touched):
        steps.append(Step(f"retire:{name}", "retire", "", name, {"manifest": _manifest(world.checkpoints[name])}))
    return [*steps, Step("start", "start", "", arguments={"starts": starts})]


def _top_marks(world: World, how: str, stage: str, cut: int) -> Marks | None:
    held = world.checkpoints[stage]
    if how == RESET:
        return None
    if how == LOST:
        if held is not None and held.batches:
            raise refusal("CheckpointThere")
        return _all_marks(world, stage)
    if how == POSITIONS:
        marks = _all_marks(world, stage)
        return {part: min(below, cut) if part % 2 else below for part, below in marks.items()}
    if stage == GOLD or held is None:
        raise refusal("BatchPurged")
    identity = held.query_id if world.rules.marks_capped_by_now else None
    then = {name: _version_before(world, name, identity, cut) for name in OUTPUTS[stage]}
    marks = _all_marks(world, stage, then)
    now = _all_marks(world, stage) if world.rules.marks_capped_by_now else marks
    return {part: min(below, now.get(part, 0)) for part, below in marks.items()}


def _all_marks(world: World, stage: str, versions: Mapping[str, int] | None = None) -> Marks:
    """What the output holds; of a stage that reads a table, up to the first row of it that the output has not."""
    versions = versions or {}
    if stage == GOLD:
        return _highest(world.tables["good"].rows())
    rows = [row for name in OUTPUTS[stage] for row in world.tables[name].rows(versions.get(name))]
    if stage == RAW:
        return _highest(rows)
    return _first_missing(world.tables["raw"].rows(), {row[:2] for row in rows})


def _version_before(world: World, name: str, identity: str | None, batch: int) -> int:
    """Just before that batch, counted from the last, was written; None: by the newest identity in the history."""
    table = world.tables[name]
    own = [version for version, commit in enumerate(table.commits) if commit.note.startswith("id-")]
    if identity is None and own:
        identity = table.commits[own[-1]].note
    mine = [version for version in own if table.commits[version].note == identity]
    return mine[-1 - batch] - 1 if batch < len(mine) else table.version


def _processed(world: World, name: str, above: Marks) -> Marks:
    given = [row for row in world.tables[INPUT[name]].rows() if row[1] < above.get(row[0], 0)]
    return _first_missing(given, set(world.positions(name)))


def _highest(rows: Iterable[Row]) -> Marks:
    marks: Marks = {}
    for part, offset, _ in rows:
        marks[part] = max(marks.get(part, 0), offset + 1)
    return marks


def _first_missing(given: Iterable[Row], held: set[tuple[Any, int]]) -> Marks:
    given = list(given)
    marks = _highest(given)
    for part, offset, _ in given:
        if (part, offset) not in held:
            marks[part] = min(marks[part], offset)
    return {part: below for part, below in marks.items() if below}


def _pairs(marks: Marks | None) -> list[list[int]]:
    return [[part, below] for part, below in sorted((marks or {}).items()) if below > 0]


def _is_caught_up(world: World, name: str, marks: Mapping[str, Marks | None]) -> bool:
    held = world.checkpoints[name]
    if not isinstance(held, Checkpoint) or held.in_flight or not held.batches:
        return False
    if world.rules.caught_up_needs_equal_marks:
        upstream = marks[str(CHAIN.link(name).upstream)]
        if name != GOLD and _pairs(marks[name]) != _pairs(_present(world, INPUT[name], upstream)):
            return False
    end = held.batches[-1][1]
    return not end.snapshot and end.version > world.tables[INPUT[name]].version


def _present(world: World, table: str, marks: Marks | None) -> Marks | None:
    """The marks, cut to the rows that there are."""
    if marks is None:
        return None
    return _highest(row for row in world.tables[table].rows() if row[1] < marks.get(row[0], 0))


def _manifest(checkpoint: Any) -> str:
    return repr(checkpoint)


def _as_world(world: World, stages: Iterable[str]) -> dict[str, Any]:
    found = {}
    for stage in stages:
        held = world.checkpoints[stage]
        known = isinstance(held, Checkpoint)
        found[stage] = {
            "query_id": held.query_id if known else None,
            "planned": len(held.batches) if known else None,
            "committed": held.commits if known else None,
            "manifest": _manifest(held),
            "tables": {name: {"id": name, "version": world.tables[name].version} for name in OUTPUTS[stage]},
        }
    return found


# --- apply


def apply_plan(world: World, me: str, plan: Plan) -> Steps:
    journal = _decide(world, plan)
    if journal is not None and journal.state == FINISHED:
        return
    if journal is None:
        _check_world(world, plan)
    yield
    if journal is None or journal.is_open:
        _claim(world, me, plan)
        yield
        if world.rules.journal_read_after_claim:
            journal = _decide(world, plan)
        if journal is None:
            if world.rules.world_checked_after_claim:
                _check_world(world, plan)
            world.saved[digest_of(plan)] = world.contents(changed_stages(plan))
            journal = _begin(world, plan) if world.rules.begun_first else Journal((_first(world, plan),))
            yield
        if journal.is_open:
            waiting = [step for step in plan.steps if step.kind != "run"]
            if not world.rules.clear_first:
                waiting = [step for step in waiting if step.kind != "clear"]
            for step in waiting:
                if step.id not in journal.done:
                    yield from _apply_step(world, plan, step)
                    journal = _enter(world, journal, DONE, step.id, facts_of(world, digest_of(plan), step))
                    yield
            journal = _enter(world, journal, RELEASED, "release")
        world.release(me, plan.touched)
        yield
    for step in plan.steps:
        if step.kind == "run" and step.id not in journal.done:
            yield from run_stage(world, me, step.stage, 9)
            journal = _enter(world, journal, DONE, step.id)
            yield
    if journal.state != FINISHED:
        _enter(world, journal, FINISHED, "")


def save_plan(plan: Plan) -> Plan:
    _digests[id(plan)] = plan, plan.digest
    return plan


def digest_of(plan: Plan) -> str:
    return _digests[id(plan)][1]


def forget_plans() -> None:
    _digests.clear()


def _decide(world: World, plan: Plan) -> Journal | None:
    """What the journals say of this plan; raises where one of another plan stands half-way."""
    journals = world.journals()
    journal = next((one for one in journals if one.digest == digest_of(plan)), None)
    if journal is not None and not world.rules.acts_once and journal.state == FINISHED:
        return Journal(journal.entries[:1])
    if journal is not None and journal.state in (UNDOING, WITHDRAWN):
        raise refusal("PlanWithdrawn")
    for query in plan.queries:
        _refuse_open(world, query, digest_of(plan))
    return journal


def _refuse_open(world: World, query: str, digest: str = "") -> None:
    found = find_open((one for one in world.journals() if one.digest != digest), query)
    if found is not None:
        raise unfinished_error(found, query, ENVIRONMENT)


def _check_world(world: World, plan: Plan) -> None:
    moves = describe_moves(plan.preconditions, _as_world(world, plan.touched))
    _refuse_gone(world, plan)
    if moves:
        raise Refused("; ".join(moves), meaning="model", next="model", code="PlanStale")


def _refuse_gone(world: World, plan: Plan) -> None:
    """What a rewind goes back to can still be read."""
    for step in plan.steps:
        if step.kind == "restore" and step.arguments["to"] < world.vacuumed.get(step.arguments["table"], 0):
            raise refusal("VersionGone")


def _claim(world: World, me: str, plan: Plan) -> None:
    if not world.rules.remedy_claims:
        return
    try:
        for stage in plan.touched:
            world.claim(stage, me)
    except Refused:
        world.release(me, plan.touched)
        raise


def _first(world: World, plan: Plan) -> JournalEntry:
    return JournalEntry(
        digest_of(plan),
        0,
        BEGUN,
        "",
        plan.steps[0].id,
        plan.remedy,
        plan.stage,
        plan.queries,
        world.tick(),
        {"plan": plan},
    )


def _begin(world: World, plan: Plan) -> Journal:
    entry = _first(world, plan)
    world.write_entry(entry)
    return Journal((entry,))


def _enter(world: World, journal: Journal, state: str, step: str, facts: Mapping[str, Any] | None = None) -> Journal:
    check_move(journal.state, state)
    first = journal.first
    entry = JournalEntry(
        first.digest,
        journal.last.number + 1,
        state,
        step,
        "",
        first.remedy,
        first.stage,
        first.queries,
        world.tick(),
        facts or {},
    )
    if not world.rules.begun_first and first.digest not in world.entries:
        if state == RELEASED:
            world.entries[first.digest] = [*journal.entries, entry]
        return Journal((*journal.entries, entry))
    world.write_entry(entry)
    return Journal((*journal.entries, entry))


def _apply_step(world: World, plan: Plan, step: Step) -> Steps:
    if step.kind == "clear":
        world.dirty.setdefault(digest_of(plan), set()).update(plan.touched)
        _clear(world, plan, step)
        yield
    elif step.kind == "retire":
        world.dirty.setdefault(digest_of(plan), set()).update(plan.touched)
        yield from _retire(world, step.stage, digest_of(plan), step.arguments["manifest"])
    elif step.kind == "restore":
        look_again(world, plan.steps)
        world.dirty.setdefault(digest_of(plan), set()).update(changed_stages(plan))
        yield from restore_for_rewind(world, digest_of(plan), step)
    elif step.kind == "rewind":
        yield from _rewind(world, digest_of(plan), step)
    elif step.kind == "start":
        for stage, how in step.arguments["starts"].items():
            if how.get("as_before"):
                _begins_as_before(world, stage)
            else:
                world.write_begin(stage, f"{digest_of(plan)}-start", _begin_of(world, plan, stage, how))
        if plan.remedy == REWIND:
            check_rewound(world, plan.touched)
        world.dirty.pop(digest_of(plan), None)
        yield


def _clear(world: World, plan: Plan, step: Step) -> None:
    name = step.arguments["table"]
    marks = _marks(plan, step.stage)
    if name == "raw" and world.rules.source_looked_at_again:
        for part, offset, _ in world.tables["raw"].rows():
            if marks.get(part, 0) <= offset < world.source[part][0]:
                raise refusal("SourceLostRows")
    note = f"{digest_of(plan)}:{step.id}"
    if name == "gold" and step.arguments["keeps"]:
        gold = world.tables["gold"].rows()
        going = {row for row in gold if row[1] >= marks.get(row[0], 0)}
        former = newest_per_key(row for row in world.tables["good"].rows() if row[1] < marks.get(row[0], 0))
        keys = newest_per_key(going)
        rows = [row for row in gold if row not in going]
        rows += [former[key] for key in keys if key in former]
        world.overwrite("gold", rows, note, 0, note)
        return
    world.keep_only(name, lambda row: row[1] < marks.get(row[0], 0), note, note)


def _marks(plan: Plan, stage: str) -> Marks:
    keep = next((step for step in plan.steps if step.id == f"keep:{stage}"), None)
    return dict(keep.arguments["marks"]) if keep else {}


def _retire(world: World, stage: str, digest: str, manifest: str) -> Steps:
    here = (stage, digest)
    if here not in world.complete:
        if _manifest(world.checkpoints[stage]) != manifest:
            raise refusal("CheckpointDiffers")
        world.retired[here] = TORN
        if not world.rules.copy_before_marker:
            world.complete.add(here)
        yield
        world.retired[here] = world.checkpoints[stage]
        world.complete.add(here)
        yield
    world.checkpoints[stage] = TORN
    yield
    known = world.retired[here]
    keeps_id = not world.rules.new_identity and known is not None
    world.checkpoints[stage] = Checkpoint(known.query_id) if keeps_id else None


def _rewind(world: World, digest: str, step: Step) -> Steps:
    pass_on(world, step)
    made = cut_of(world, digest, step)
    if world.checkpoints[step.stage] != made:
        yield from _retire(world, step.stage, digest, step.arguments["manifest"])
        yield
        world.checkpoints[step.stage] = made
    yield


def _begins_as_before(world: World, stage: str) -> None:
    """Where a rewind has moved its checkpoint aside: like its first start, which a row in the history allows."""
    begin = world.begin_of(stage)
    if begin is not None and world.checkpoints[stage] is None:
        world.ran_under.discard((stage, begin.digest))


def _runs_again_count(world: World, stage: str) -> None:
    """An undo takes back the remedy and every run since: those before it count again."""
    begin, held = world.begin_of(stage), world.checkpoints[stage]
    if begin is not None and held is not None and held.batches:
        world.ran_under.add((stage, begin.digest))


def changed_stages(plan: Plan) -> tuple[str, ...]:
    """Of a rewind not those that had no batch."""
    return tuple(name for name in plan.touched if any(step.stage == name and step.kind != "run" for step in plan.steps))


def _begin_of(world: World, plan: Plan, stage: str, how: Mapping[str, Any]) -> Begin:
    shift = 0 if world.rules.exact_positions else 1
    marks = {part: below + shift for part, below in _marks(plan, stage).items()} if how["kept"] else {}
    kept = tuple(sorted(marks.items()))
    if stage == RAW:
        below = None
        if not world.whole_files:
            below = tuple(sorted((part, marks.get(part, low)) for part, (low, _) in world.source.items()))
        return Begin(digest_of(plan), below=below, kept=kept)
    if how["caught_up"]:
        table, note = world.tables[INPUT[stage]], f"{digest_of(plan)}:begin:{stage}"
        if world.rules.start_version_exists and table.find(note) is None:
            world.append(INPUT[stage], (), note=note)
        found = table.find(note)
        return Begin(digest_of(plan), version=table.version + 1 if found is None else found)
    return Begin(digest_of(plan), kept=() if stage == GOLD else kept)


# --- undo


def undo_remedy(world: World, me: str, digest: str) -> Steps:
    journal = _decide_undo(world, digest)
    if journal.state == WITHDRAWN:
        return
    plan: Plan = journal.first.facts["plan"]
    yield
    _claim(world, me, plan)
    yield
    if world.rules.journal_read_after_claim:
        journal = _decide_undo(world, digest)
    if journal.state == WITHDRAWN:
        world.release(me, plan.touched)
        return
    if journal.state != UNDOING:
        if world.rules.restore_checks_source:
            _refuse_loss(world, plan)
        _refuse_vacuumed(world, plan)
        _refuse_readers(world, plan)
        journal = _enter(world, journal, UNDOING, "")
        yield
    elif world.rules.undo_looks_again and not is_touched(world, journal):
        try:
            _refuse_vacuumed(world, plan)
        except Refused:
            _enter(world, journal, former_state(journal), "")
            raise
    former = former_state(journal)
    for step in _order(world, plan):
        if step.id not in journal.undone:
            dirty = {digest: set(stages) for digest, stages in world.dirty.items()}
            try:
                yield from _undo_step(world, plan, journal, step)
            except Refused as problem:
                if problem.code == "UndoTooLate" and world.rules.undo_given_up and not is_touched(world, journal):
                    _enter(world, journal, former, "")
                    world.dirty = dirty
                raise
            journal = _enter(world, journal, UNDONE, step.id, _taken_back(world, plan, step))
            yield
    _check_undone(world, plan)
    _enter(world, journal, WITHDRAWN, "")
    world.release(me, plan.touched)


def _order(world: World, plan: Plan) -> list[Step]:
    order = undo_order(plan)
    if world.rules.tables_back_first:
        return order
    tables = [step for step in order if changes_content(step.kind)]
    return [step for step in order if step not in tables] + tables


def is_touched(world: World, journal: Journal) -> bool:
    """The undo has brought something back, or may have."""
    plan: Plan = journal.first.facts["plan"]
    if any(
        commit.note.startswith(f"{digest_of(plan)}:marker:")
        and not commit.note.startswith(f"{digest_of(plan)}:marker:rewind:")
        for table in world.tables.values()
        for commit in table.commits
    ):
        return True
    return any(moves_checkpoint(step.kind) and step.id in journal.undone for step in plan.steps)


def former_state(journal: Journal) -> str:
    return [entry.state for entry in journal.entries if entry.state not in (DONE, UNDONE)][-2]


def _refuse_vacuumed(world: World, plan: Plan) -> None:
    for step in plan.steps:
        if not changes_content(step.kind) or not _is_made(world, plan, step):
            continue
        if step.arguments["version"] < world.vacuumed.get(step.arguments["table"], 0):
            raise refusal("UndoTooLate")


def _decide_undo(world: World, digest: str) -> Journal:
    journals = world.journals()
    journal = next((one for one in journals if one.digest == digest), None)
    if journal is None:
        raise refusal("NeverApplied")
    later = [
        one
        for one in journals
        if one.first.at > journal.first.at
        and one.state != WITHDRAWN
        and set(one.first.queries) & set(journal.first.queries)
    ]
    if later and journal.state != WITHDRAWN and world.rules.overtaken_refused:
        raise refusal("RemedyOvertaken")
    return journal


def _refuse_loss(world: World, plan: Plan) -> None:
    """Rows that would be taken back and that the source cannot bring again."""
    for stage in plan.touched:
        if stage == RAW:
            clear = next(step for step in plan.steps if step.id in ("clear:raw", "restore:raw"))
            there = {row[:2] for row in world.tables["raw"].rows(clear.arguments["version"])}
            for part, offset, _ in world.tables["raw"].rows():
                if part is not None and (part, offset) not in there and offset < world.source[part][0]:
                    raise refusal("SourceLostRows")


def _refuse_readers(world: World, plan: Plan) -> None:
    """A stage below that had no batch then, and has read by now what goes."""
    for stage in plan.touched:
        held = world.checkpoints[stage]
        before = {step.arguments["table"]: step.arguments["version"] for step in plan.steps if step.kind == "restore"}
        if stage in changed_stages(plan) or not isinstance(held, Checkpoint) or not held.batches:
            continue
        end = held.batches[-1][1]
        if INPUT[stage] in before and end.version + (end.snapshot or end.index > 0) > before[INPUT[stage]] + 1:
            raise refusal("ReaderNotInRemedy")


def _undo_step(world: World, plan: Plan, journal: Journal, step: Step) -> Steps:
    if changes_content(step.kind) or moves_checkpoint(step.kind):
        world.dirty.setdefault(digest_of(plan), set()).update(changed_stages(plan))
    if moves_checkpoint(step.kind):
        yield from _bring_back(world, plan, journal, step)
    elif changes_content(step.kind):
        yield from _restore(world, plan, journal, step)
    elif step.kind == "start":
        for stage in changed_stages(plan):
            _runs_again_count(world, stage)
        world.dirty.pop(digest_of(plan), None)
        yield


def _bring_back(world: World, plan: Plan, journal: Journal, step: Step) -> Steps:
    stage, here = step.stage, (step.stage, digest_of(plan))
    since = (stage, f"{digest_of(plan)}-undone")
    if here in world.complete:
        if here not in world.restoring:
            if step.id in journal.done:
                yield from _retire(world, stage, since[1], _manifest(world.checkpoints[stage]))
            else:
                world.checkpoints[stage] = None
            world.restoring.add(here)
        world.checkpoints[stage] = TORN
        yield
        if here not in world.retired:
            raise Violation(f"the retired checkpoint of {stage} was taken from under an undo")
        world.checkpoints[stage] = world.retired[here]
        yield
    if _manifest(world.checkpoints[stage]) != step.arguments["manifest"]:
        raise refusal("CheckpointDiffers")
    world.complete.discard(here)
    world.restoring.discard(here)
    world.retired.pop(here, None)
    yield


def _restore(world: World, plan: Plan, journal: Journal, step: Step) -> Steps:
    name, before = step.arguments["table"], step.arguments["version"]
    table, marker = world.tables[name], f"{digest_of(plan)}:marker:{step.id}"
    made = _is_made(world, plan, step) and world.rules.unjournaled_clear_undone
    if step.id not in journal.done and not made:
        return
    if table.find_restore(marker, before) is None:
        if before < world.vacuumed.get(name, 0):
            raise refusal("UndoTooLate")
        rows = [(None, -1, 0)] if name in ("raw", "good") and world.rules.marker_row else []
        world.append(name, rows, marker, 0, marker)
        yield
        world.restore(name, before)
        yield


def _is_made(world: World, plan: Plan, step: Step) -> bool:
    note = mark_of(digest_of(plan), step) if step.kind == "restore" else f"{digest_of(plan)}:{step.id}"
    return world.tables[step.arguments["table"]].find(note) is not None


def _taken_back(world: World, plan: Plan, step: Step) -> dict[str, Any]:
    if not changes_content(step.kind) or not world.rules.skip_window:
        return {}
    table, before = world.tables[step.arguments["table"]], step.arguments["version"]
    restored = table.find_restore(f"{digest_of(plan)}:marker:{step.id}", before)
    return {} if restored is None else {"restored": before, "version": restored}


def _check_undone(world: World, plan: Plan) -> None:
    saved, found = world.saved[digest_of(plan)], world.contents(changed_stages(plan))
    if found != saved:
        other = [name for name in saved if saved[name] != found[name]]
        raise Violation(f"undone, and not as before: {', '.join(other)}")


def check_recoverable(world: World) -> None:
    """Each checkpoint that an undo would bring back is at its place, or complete aside."""
    for digest, saved in world.saved.items():
        entries = world.entries.get(digest)
        if not entries or entries[-1].state == WITHDRAWN:
            continue
        for stage in STAGES:
            aside = world.retired.get((stage, digest)) if (stage, digest) in world.complete else TORN
            if stage in saved and saved[stage] not in (world.checkpoints[stage], aside):
                raise Violation(f"the checkpoint of {stage} from before {digest[:8]} is nowhere any more")
