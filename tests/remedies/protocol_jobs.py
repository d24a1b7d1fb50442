"""The jobs of a remedy's stages under arbitrary schedules: two operators, a scheduler, and people who pause and deploy.

    jobs       active or paused; what people want of each is kept beside, and known to nobody in here
    runs       of an active job: through the gate, with a claim; told to end, they end some time later
    journal    the real `Entry` and `Journal`; what was paused before is reckoned by the real `paused_before`

Steps of apply and undo as in `stop_stages`, `set_jobs_back` and `fill_beside`; each `yield` is a place to die.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from surestart.errors import Refused
from surestart.journal.journal import (
    BEGUN,
    DONE,
    FILLING,
    FINISHED,
    JOBS,
    OF_ANOTHER,
    RELEASED,
    UNDOING,
    UNDONE,
    UNPAUSE,
    WITHDRAWN,
    Journal,
    JournalEntry,
    find_open,
)
from surestart.journal.protocol import LOOK, check_move
from surestart.remedies.jobs.state import (
    JobState,
    JobTrigger,
    StoppedJobs,
    as_before,
    read_stopped_jobs,
    taken_over,
    with_new_jobs,
    without_held,
)

Steps = Iterator[None]
STAGES = ("raw-ingest", "merge-gold")
CHECK, CLEAR, RUN = "check", "clear", "run"
TO_THE_END = 1_000
# Schedules that chance meets once in some thousand: each has once broken it.
KNOWN = (202, 242, 575, 2959, 10774, 11868, 12608, 19296, 30449, 34904, 60800)
STOPS = [TO_THE_END] * 8 + list(range(1, 24))


@dataclass(frozen=True)
class Rules:
    """The protocol. Each rule that is switched off is a bug that has to be found."""

    gate_reads_journal: bool = True
    begun_before_pause: bool = True
    written_before_pause: bool = True
    waits_for_runs: bool = True
    pending_counts_in_undo: bool = True
    pending_counts_in_apply: bool = True
    back_when_refused: bool = True
    back_when_a_run_fails: bool = True
    back_when_the_count_fails: bool = True
    back_when_undone: bool = True
    claims_end_first: bool = True
    rivals_refused: bool = True
    dead_remedies_count: bool = True
    dead_remedies_closed: bool = True
    unpause_looks_again: bool = True
    starts_look_again: bool = True
    held_by_a_later_remedy: bool = True
    deleted_jobs_followed: bool = True
    new_jobs_stopped: bool = True
    set_back_by_another_noticed: bool = True
    nobody_else_has_written: bool = True


class Violation(AssertionError):
    """What must never happen has happened."""


@dataclass
class Job:
    """wanted: what people have set, whoever has paused it since. deployed: when."""

    stage: str
    active: bool
    wanted: bool
    deployed: int = 0


class Plan(NamedTuple):
    digest: str
    stages: tuple[str, ...]
    beside: bool
    at: int


@dataclass
class World:
    rules: Rules
    now: int = 0
    jobs: dict[int, Job] = field(default_factory=dict)
    runs: dict[int, int] = field(default_factory=dict)
    claims: dict[str, str] = field(default_factory=dict)
    entries: dict[str, list[JournalEntry]] = field(default_factory=dict)
    dirty: set[str] = field(default_factory=set)

    def tick(self) -> int:
        self.now += 1
        return self.now

    def journals(self) -> tuple[Journal, ...]:
        found = [Journal(tuple(entries)) for entries in self.entries.values()]
        return tuple(sorted(found, key=lambda journal: journal.first.at))

    def journal(self, plan: Plan) -> Journal | None:
        return next((one for one in self.journals() if one.digest == plan.digest), None)

    def enter(self, plan: Plan, number: int, state: str, step: str = "", facts: Any = None) -> Journal:
        known = self.entries.setdefault(plan.digest, [])
        if len(known) != number:
            raise refusal(OF_ANOTHER)
        if known:
            check_move(Journal(tuple(known)).state, state)
        known.append(
            JournalEntry(plan.digest, number, state, step, "", "reset", "", plan.stages, self.tick(), facts or {})
        )
        return Journal(tuple(known))

    # --- the workspace

    def deploy(self, stage: str, wanted: bool) -> None:
        self.jobs[self.tick()] = Job(stage, wanted, wanted, self.now)

    def jobs_of(self, stages: tuple[str, ...]) -> tuple[JobState, ...]:
        return tuple(
            JobState(number, job.stage, (job.stage,), (JobTrigger("schedule", not job.active),), self.runs_of(number))
            for number, job in self.jobs.items()
            if job.stage in stages
        )

    def runs_of(self, job: int) -> tuple[int, ...]:
        return tuple(run for run, its in self.runs.items() if its == job)

    def start(self, job: int) -> None:
        """A schedule fires, or a continuous job begins its next run; nothing begins where a claim is held."""
        stage = self.jobs[job].stage
        if self.rules.gate_reads_journal and find_open(self.journals(), stage) is not None:
            return
        if stage in self.dirty:
            raise Violation(f"{stage} starts over half-cleared output")
        if stage not in self.claims:
            run = self.tick()
            self.runs[run] = job
            self.claims[stage] = f"run {run}"

    def end(self, run: int) -> None:
        del self.runs[run]
        self.release(f"run {run}")

    def release(self, me: str) -> None:
        self.claims = {stage: who for stage, who in self.claims.items() if who != me}

    def unpause(self, job: int, me: str) -> None:
        """A job that runs all the time starts at once."""
        stage = self.jobs[job].stage
        if not self.jobs[job].active:
            if stage in self.dirty:
                raise Violation(f"the job of {stage} is started over half-cleared output")
            if self.claims.get(stage) == me:
                raise Violation(f"the job of {stage} is started by who still holds its claim")
            self.jobs[job].active = True


def refusal(code: str) -> Refused:
    return Refused(code, meaning="model", next="model", code=code)


class Run:
    """One process of a plan: the journal is what it has read or written last."""

    def __init__(self, world: World, me: str, plan: Plan, fails: str) -> None:
        self.world, self.me, self.plan, self.fails, self.journal = world, me, plan, fails, world.journal(plan)
        self.asked_at = 0

    @property
    def done(self) -> frozenset[str]:
        return frozenset() if self.journal is None else self.journal.done

    @property
    def state(self) -> str:
        return "" if self.journal is None else self.journal.state

    @property
    def paused(self) -> Any:
        return None if self.journal is None else self.journal.paused_jobs

    @property
    def place(self) -> str:
        """Once this is in the journal, somebody may have changed a table."""
        return CHECK if self.plan.beside else LOOK

    def enter(self, state: str, step: str = "", facts: Any = None) -> None:
        number = 0 if self.journal is None else self.journal.last.number + 1
        self.journal = self.world.enter(self.plan, number, state, step, facts)

    def read_again(self) -> None:
        self.journal = self.world.journal(self.plan)

    def still_ours(self, state: str) -> None:
        known = self.journal
        self.read_again()
        moved = self.world.rules.nobody_else_has_written and self.journal != known
        if self.state != state or moved:
            raise refusal(OF_ANOTHER)

    def claim(self) -> None:
        for stage in self.plan.stages:
            if self.world.claims.get(stage, self.me) != self.me:
                raise refusal("OWNER_RUNNING")
            self.world.claims[stage] = self.me

    def release(self) -> None:
        self.world.release(self.me)


# --- apply


def apply_plan(world: World, me: str, plan: Plan, fails: str = "") -> Steps:
    """fails: the step at which it is refused by what it finds."""
    rules, run = world.rules, Run(world, me, plan, fails)
    for other in world.journals():
        if other.is_unfinished and other.digest != plan.digest and set(other.first.queries) & set(plan.stages):
            raise refusal("REMEDY_UNFINISHED")
    if run.state in (UNDOING, WITHDRAWN):
        raise refusal("PlanWithdrawn")
    if run.state == FINISHED:
        _set_back(run)
        return
    yield
    if run.state in ("", FILLING, BEGUN):
        if plan.beside and run.state == "":
            run.enter(FILLING)
            yield
            try:
                _refuse_rivals(run)
            except Refused:
                run.enter(WITHDRAWN)
                raise
        if run.state != BEGUN and rules.begun_before_pause:
            run.enter(BEGUN)
            yield
        yield from _stand_still(run)
        if CLEAR not in run.done:
            _check_still(run)
            world.dirty.update(plan.stages)
            yield
            run.enter(DONE, CLEAR)
            yield
        world.dirty.difference_update(plan.stages)
        run.enter(RELEASED)
        run.release()
        yield
    if RUN not in run.done:
        if fails == RUN:
            if rules.back_when_a_run_fails:
                run.read_again()
                _set_back(run)
            raise refusal("the run fails")
        run.enter(DONE, RUN)
        yield
    if UNPAUSE not in run.done:
        if rules.unpause_looks_again:
            _resume(run, Run(world, me, plan, "").paused)
        else:
            _resume(run, run.paused)
        yield
        run.enter(DONE, UNPAUSE)
        yield
    run.enter(FINISHED)


def _stand_still(run: Run) -> Steps:
    try:
        if not run.plan.beside and run.place not in run.done and run.journal is not None:
            _refuse_rivals(run)
        yield from _stop(run, DONE)
        if run.state != BEGUN:
            run.enter(BEGUN)
        run.claim()
        yield
        run.still_ours(BEGUN)
        if run.place not in run.done:
            if run.fails == run.place:
                raise refusal("moved, or the count does not hold")
            run.enter(DONE, run.place)
            yield
    except Refused as problem:
        yield from _go_back(run, problem, _before_apply)


def _before_apply(run: Run) -> str:
    back = FILLING if run.plan.beside else WITHDRAWN
    return "" if run.place in run.done or run.state not in (BEGUN, back) else back


def _go_back(run: Run, problem: Refused, back_to: Callable[[Run], str]) -> Steps:
    rules = run.world.rules
    if problem.code == OF_ANOTHER:
        run.release()
        _set_back_again(run)
        raise problem
    if rules.claims_end_first:
        run.release()
    yield
    run.read_again()
    state = back_to(run)
    if state:
        if run.state != state:
            run.enter(state)
            yield
        if run.paused is not None:
            if rules.back_when_the_count_fails if run.plan.beside else rules.back_when_refused:
                _set_back(run)
            run.release()
            raise problem
    _set_back_again(run)
    run.release()
    raise problem


def _set_back_again(run: Run) -> None:
    """Another process has set the jobs back while this one was pausing them."""
    run.read_again()
    journal = run.journal
    if journal is None or not run.world.rules.set_back_by_another_noticed:
        return
    last = [entry.facts for entry in journal.entries if entry.step == JOBS][-1:]
    if last and journal.state not in (BEGUN, UNDOING):
        _resume(run, last[0])


def _refuse_rivals(run: Run) -> None:
    journals = run.world.journals() if run.world.rules.rivals_refused else ()
    ours = next(index for index, one in enumerate(journals) if one.digest == run.plan.digest) if journals else 0
    for index, other in enumerate(journals):
        first_come = index < ours or other.state == UNDOING
        if index != ours and first_come and other.is_unfinished and set(other.first.queries) & set(run.plan.stages):
            raise refusal("REMEDY_UNFINISHED")


# --- the jobs


def _stop(run: Run, state: str) -> Steps:
    world, rules = run.world, run.world.rules
    run.asked_at = world.tick()
    counts = rules.pending_counts_in_apply if state == DONE else rules.pending_counts_in_undo
    others = world.journals() if rules.dead_remedies_count else ()
    there = StoppedJobs(as_before(world.jobs_of(run.plan.stages), others, run.plan.digest))
    jobs = there
    if run.paused is not None and counts:
        known = read_stopped_jobs(run.paused)
        jobs = with_new_jobs(known, there) if rules.new_jobs_stopped else known
    if rules.written_before_pause and run.journal is not None:
        run.enter(state, JOBS, jobs.as_dict())
        yield
        _close_dead(run, jobs)
        yield
    for job in jobs.jobs:
        if job.job_id in world.jobs:
            world.jobs[job.job_id].active = False
            yield
        elif not rules.deleted_jobs_followed:
            raise refusal("JobNotFound")
    yield from _cancel(world, jobs)
    if not rules.written_before_pause or run.journal is None:
        if run.journal is None:
            run.enter(BEGUN)
        run.enter(state, JOBS, jobs.as_dict())
        yield


def _close_dead(run: Run, jobs: StoppedJobs) -> None:
    """Remedies that have left these jobs paused have nothing to set back any more."""
    world = run.world
    for other in taken_over(jobs.jobs, world.journals(), run.plan.digest) if world.rules.dead_remedies_closed else ():
        world.entries[other.digest].append(
            replace(other.last, number=other.last.number + 1, state=UNDONE, step=UNPAUSE, facts={})
        )


def _cancel(world: World, jobs: StoppedJobs) -> Steps:
    """Told to end, and waited for; those of a deleted job too, where they are known."""
    known = {job.job_id for job in jobs.jobs}
    told = [run for run, job in world.runs.items() if job in known]
    yield
    for run in told:
        if run in world.runs and world.rules.waits_for_runs:
            world.end(run)
    yield


def _resume(run: Run, before: Any) -> None:
    if before is None:
        return
    if run.world.rules.starts_look_again and Run(run.world, run.me, run.plan, "").state in (BEGUN, UNDOING):
        raise refusal(OF_ANOTHER)
    others = run.world.journals() if run.world.rules.held_by_a_later_remedy else ()
    for job in without_held(read_stopped_jobs(before), others, run.plan.digest).jobs:
        if job.job_id in run.world.jobs and any(not trigger.paused for trigger in job.triggers):
            run.world.unpause(job.job_id, run.me)


def _set_back(run: Run) -> None:
    if run.journal is None or run.paused is None or not run.journal.leaves_jobs_paused:
        return
    _resume(run, run.paused)
    run.enter(UNDONE, UNPAUSE)


def _check_still(run: Run) -> None:
    """Of a process that is about to change a table: nobody else does, or will."""
    world = run.world
    running = [world.jobs[job].stage for job in world.runs.values() if job in world.jobs]
    if set(running) & set(run.plan.stages):
        raise Violation(f"a run goes on while its output is cleared: {running}")
    for job in world.jobs.values():
        if job.active and job.stage in run.plan.stages and job.deployed < run.asked_at:
            raise Violation(f"the job of {job.stage} is active while its output is cleared")


# --- undo


def undo_remedy(world: World, me: str, plan: Plan, fails: str = "") -> Steps:
    run = Run(world, me, plan, fails)
    if run.journal is None:
        raise refusal("NeverApplied")
    if run.state == WITHDRAWN:
        _set_back(run)
        return
    _refuse_overtaken(run)
    yield
    taken_over = not plan.beside or CHECK in run.done
    if not taken_over:
        run.read_again()
        if CHECK in run.done or run.state == WITHDRAWN:
            raise refusal(OF_ANOTHER)
    if run.state != UNDOING:
        run.enter(UNDOING)
        yield
    if taken_over:
        yield from _stand_still_again(run)
        if CLEAR not in run.journal.undone:
            _check_still(run)
            world.dirty.update(plan.stages)
            yield
            run.enter(UNDONE, CLEAR)
            yield
    world.dirty.difference_update(plan.stages)
    run.enter(WITHDRAWN)
    run.release()
    yield
    if world.rules.back_when_undone:
        _set_back(run)


def _stand_still_again(run: Run) -> Steps:
    try:
        yield from _stop(run, UNDONE)
        run.claim()
        yield
        run.still_ours(UNDOING)
        assert run.journal is not None
        if LOOK not in run.journal.undone:
            if run.fails == LOOK and _before_undo(run):
                raise refusal("what the undo needs is gone")
            run.enter(UNDONE, LOOK)
            yield
    except Refused as problem:
        yield from _go_back(run, problem, _before_undo)


def _before_undo(run: Run) -> str:
    assert run.journal is not None
    if run.state != UNDOING or LOOK in run.journal.undone:
        return ""
    states = [entry.state for entry in run.journal.entries if entry.state not in (DONE, UNDONE)]
    if states[-2:-1] and states[-2] in (RELEASED, FINISHED):
        return states[-2]
    return "" if run.place in run.done else WITHDRAWN


def _refuse_overtaken(run: Run) -> None:
    assert run.journal is not None
    for other in run.world.journals():
        later = other.first.at > run.journal.first.at and other.state != WITHDRAWN
        if later and set(other.first.queries) & set(run.plan.stages):
            raise refusal("RemedyOvertaken")


# --- who acts


class Actors:
    def __init__(self, rules: Rules) -> None:
        self.world = World(rules)
        self.running: dict[str, tuple[Steps, Plan]] = {}
        self.plans: list[Plan] = []
        self.dead: set[str] = set()
        for stage in STAGES:
            self.world.deploy(stage, True)
        self.world.deploy(STAGES[1], False)

    def act(self, chance: random.Random) -> None:
        world = self.world
        what = chance.choice(("fire", "fire", "end", "people", "deploy", "new", "new", "apply", "undo", "go", "go"))
        if what == "fire":
            for number in [number for number, job in world.jobs.items() if job.active]:
                world.start(number)
        elif what == "end" and world.runs:
            world.end(chance.choice(list(world.runs)))
        elif what == "people":
            self.people_pause(chance.choice(list(world.jobs)))
        elif what == "deploy":
            self.deploy_anew(chance.choice(list(world.jobs)))
        elif what == "new":
            plan = Plan(f"{world.tick():064d}", chance.choice((STAGES, STAGES[1:])), chance.random() < 0.3, world.now)
            self.plans.append(plan)
            self.begin(chance, apply_plan, plan)
        elif what in ("apply", "undo") and self.plans:
            self.begin(chance, apply_plan if what == "apply" else undo_remedy, self.plans[-chance.choice((1, 1, 2))
                       if len(self.plans) > 1 else -1])  # fmt: skip
        elif what == "go" and self.running:
            self.advance(chance.choice(list(self.running)), chance.choice(STOPS), chance.random() < 0.3)

    def people_pause(self, number: int) -> None:
        """Or un-pause. While a remedy has jobs paused, or is at that, they keep their hands off, as the documentation
        says."""
        job, world = self.world.jobs[number], self.world
        held = any(one.is_unfinished or one.paused_jobs is not None for one in world.journals())
        # A process that has let the stages go is only running them by now.
        for steps, _ in self.running.values():
            run = steps.gi_frame.f_locals.get("run")  # type: ignore[attr-defined]
            held = held or run is None or run.state != RELEASED
        if not held and job.active == job.wanted:
            job.active = job.wanted = not job.wanted

    def deploy_anew(self, number: int) -> None:
        """Under another id: its runs go on for a while, and the new one is set as people want it."""
        job = self.world.jobs.pop(number)
        self.world.deploy(job.stage, job.wanted)

    def begin(self, chance: random.Random, verb: Any, plan: Plan) -> None:
        who = f"operator {chance.choice((1, 2))}"
        if who not in self.running:
            fails = chance.choice(("", "", "", LOOK, CHECK, RUN))
            self.running[who] = verb(self.world, who, plan, fails), plan
            self.advance(who, chance.choice(STOPS), chance.random() < 0.5)

    def advance(self, who: str, stop: int, dies: bool) -> Refused | None:
        """So many steps further; then it waits there, or is dead. The refusal that ended it, if one did."""
        steps, plan = self.running[who]
        try:
            for _ in range(stop):
                next(steps)
        except StopIteration:
            self.ended(who, plan)
            return None
        except Refused as problem:
            self.ended(who, plan)
            return problem
        if dies and self._is_set_back(plan):
            return self.advance(who, TO_THE_END, False)
        if dies:
            self.dead.add(plan.digest)
            del self.running[who]
            steps.close()  # type: ignore[attr-defined]
            self.world.release(who)
        return None

    def _is_set_back(self, plan: Plan) -> bool:
        """By another process of the plan, while this one pauses. Killed before it sees that, it leaves jobs paused that
        no journal knows of: not covered, docs/stopping-jobs.md says so."""
        journal = self.world.journal(plan)
        if journal is None or journal.state in (BEGUN, UNDOING) or journal.paused_jobs is not None:
            return False
        return any(entry.step == JOBS for entry in journal.entries)

    def ended(self, who: str, plan: Plan) -> None:
        """By itself: what it has paused is set back, or the stages may not start yet, or another goes on with it."""
        del self.running[who]
        self.world.release(who)
        journal = self.world.journal(plan)
        if journal is None or any(one == plan for _, one in self.running.values()):
            return
        if journal.state == FINISHED:
            noted = [entry for entry in journal.entries if entry.step == JOBS][-1]
            former = [one for one in self.world.journals() if one.last.at < noted.at]
            if taken_over(read_stopped_jobs(noted.facts).jobs, former, plan.digest):
                raise Violation("the doctor names a remedy that has nothing to set back")
        # Where a process has died, only the same command sets them back, or a later remedy.
        if journal.leaves_jobs_paused and plan.digest not in self.dead:
            raise Violation(f"{who} ended with {journal.state}, and jobs are paused")

    def end(self) -> None:
        """Everybody goes on to the end, what was begun is ended; then every job is set as people want it."""
        world = self.world
        for who in list(self.running):
            self.advance(who, TO_THE_END, True)
        # The platform ends those of deleted jobs.
        for run in [run for run, job in world.runs.items() if job not in world.jobs]:
            world.end(run)
        # The newest first: the others wait for it.
        for journal in reversed(world.journals()):
            plan = next(plan for plan in self.plans if plan.digest == journal.digest)
            if journal.state in (FINISHED, WITHDRAWN) and not journal.leaves_jobs_paused:
                continue
            verb = undo_remedy if journal.state in (UNDOING, WITHDRAWN) else apply_plan
            self.running["operator 9"] = verb(world, "operator 9", plan), plan
            problem = self.advance("operator 9", TO_THE_END, True)
            if problem is not None and problem.code == "REMEDY_UNFINISHED":
                # Two that began at once, and died before they saw each other: the later one is taken back.
                self.running["operator 9"] = undo_remedy(world, "operator 9", plan), plan
                problem = self.advance("operator 9", TO_THE_END, True)
            if problem is not None:
                raise Violation(f"stuck: {problem.code}")
        for number, job in world.jobs.items():
            if job.active != job.wanted:
                raise Violation(f"job {number} is {'active' if job.active else 'paused'}, and was not to be")


def act_at_random(rules: Rules, seed: int, acts: int = 12) -> None:
    """One schedule; raises Violation."""
    chance = random.Random(seed)
    actors = Actors(rules)
    for _ in range(acts):
        actors.act(chance)
    actors.end()
