"""One owner per query: takes the claim, or refuses with who holds it, since when, and the last batch.

A dead owner is followed without a question; the history says that it died and who came after it. A paused one (SIGSTOP)
and one that cannot be judged are followed when somebody accepts that by its code: should it wake up, the sinks know
its batches by (query id, batch id) and its next entry in the checkpoint is refused, so it writes nothing twice.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from surestart.environment import Environment
from surestart.errors import CannotTell, Refused, SurestartError
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.history.claim_file import OWNER_UNKNOWN as OWNER_UNKNOWN
from surestart.history.claim_file import ClaimContent, HeldClaim, read_claim, seize_claim, take_claim
from surestart.history.claim_row import claim_by_row
from surestart.history.run_record import REMEDY, RunRecord
from surestart.library_types import SparkSession
from surestart.runs.owner import Life, OwnerState, describe_owner, judge_owner, read_job_state
from surestart.typed import typed
from surestart.words.next_commands import Commands

# Mounts of object stores and NFS without its lock daemon answer so to flock (man 2 flock, man 2 intro).
_NO_LOCKS = (errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS)
OWNER_RUNNING = "OWNER_RUNNING"
OWNER_PAUSED = "OWNER_PAUSED"
_HARMLESS = (
    "Should it wake up, it writes nothing twice: the sinks know its batches, the checkpoint refuses its next entry."
)


@dataclass(frozen=True)
class FileClaim:
    """held None: a paused owner has it, whose claim is seized once the start has been judged.
    died: runs that ended without a row in the history, oldest first.
    follows: the run of that paused owner."""

    path: Path
    held: HeldClaim | None
    record: RunRecord
    died: tuple[RunRecord, ...] = ()
    follows: str = ""


def claim_by_file(folder: Path, record: RunRecord, accept: Sequence[str], commands: Commands) -> FileClaim:
    path = folder / f"{record.query}.lock"
    try:
        claim = take_claim(path)
    except OSError as problem:
        if problem.errno in _NO_LOCKS:
            raise CannotTell(
                f"{record.query} is not started: the file system of {folder} has no locks ({problem.strerror})",
                meaning="Whether another driver runs this query cannot be told there. Nothing was started. Runs and "
                'claims belong on a disk that has locks, or into a schema: `history = "CATALOG.SCHEMA"` in '
                "surestart.toml for a declared stream, --catalog and --schema for a stage.",
                next=typed("ls", "-ld", folder),
                do_not="start it past the gate: two drivers on one checkpoint corrupt it.",
                code="CLAIM_NOT_TAKEN",
            ) from problem
        raise CannotTell(
            f"{record.query} is not started: its claim {path} cannot be taken: {problem.strerror}",
            meaning="Whether another driver runs this query cannot be told. Nothing was started.",
            next=typed("ls", "-ld", folder),
            code="CLAIM_NOT_TAKEN",
        ) from problem
    if claim is None:
        content = read_claim(path)
        record = _from_holder(content.record, path, record, accept, commands)
        followed = content.record.run_id if content.record is not None else ""
        return FileClaim(path, None, record, _ended_silently(content), followed)
    content = claim.read()
    try:
        if content.torn:
            record = _from_torn(path, record, accept, commands)
            claim.forget()
        elif content.record is not None:
            # Nobody on this host has the lock; a driver on another host might, if its file system does not share locks.
            beat = claim.silent_for() if content.beats else None
            state = judge_run(content.record, asking=record, silent_for=beat)
            record = _follow(content.record, state, record, accept, commands, lock_is_free=True)
    except BaseException:
        claim.release(clear=False)
        raise
    return FileClaim(path, claim, record, _ended_silently(content))


def seize_or_refuse(claim: FileClaim, commands: Commands) -> HeldClaim:
    """The claim of the paused owner, which this start was allowed to follow."""
    owner = read_claim(claim.path).record
    if owner is None:
        raise _being_started(claim.record, claim.path, commands)
    held = seize_claim(claim.path, owner.run_id) if owner.run_id == claim.follows else None
    if held is None:
        raise _running(owner, OwnerState(Life.ALIVE, "it claimed the query a moment earlier"), commands)
    return held


def refuse_live_owner(
    record: RunRecord, runs: Sequence[RunRecord], accept: Sequence[str], commands: Commands
) -> RunRecord:
    """Where claims are rows: the run of the newest claim decides, if it has not ended. Not the newest by the clock:
    another machine's may be fast."""
    own = [run for run in runs if (run.query, run.environment) == (record.query, record.environment)]
    own = [run for run in own if run.event != REMEDY]
    last = max(own, key=lambda run: (run.epoch or 0, run.started_at), default=None)
    if last is None or last.outcome:
        return record
    return _follow(last, judge_run(last, asking=record), record, accept, commands)


def claim_or_refuse(
    spark: SparkSession, environment: Environment, record: RunRecord, runs: Sequence[RunRecord], commands: Commands
) -> RunRecord:
    """The row of this run is in the table and is the query's newest claim; raises when another driver was first."""
    ours, owner = claim_by_row(spark, environment, record, runs)
    if owner.run_id != ours.run_id:
        raise _running(owner, OwnerState(Life.ALIVE, "it claimed the query a moment earlier"), commands)
    return ours


def _from_holder(
    owner: RunRecord | None, path: Path, record: RunRecord, accept: Sequence[str], commands: Commands
) -> RunRecord:
    if owner is None:
        raise _being_started(record, path, commands)
    state = judge_run(owner)
    if state.life is not Life.PAUSED:
        raise _running(owner, state, commands)
    if OWNER_PAUSED not in accept:
        raise _paused(owner, state, commands)
    return _takes_over(record, owner, state, OWNER_PAUSED)


def _from_torn(path: Path, record: RunRecord, accept: Sequence[str], commands: Commands) -> RunRecord:
    if OWNER_UNKNOWN not in accept:
        raise CannotTell(
            f"{record.query} is not started: its claim {path} is not whole, so who has run it last is not known",
            meaning="A crash or a full disk leaves such a claim. No driver of this machine holds it; one of another "
            "machine may. Two drivers on one checkpoint replay the same batch at the same time.",
            next=commands.accept(OWNER_UNKNOWN),
            do_not="accept it before you have checked whether it runs elsewhere.",
            code=OWNER_UNKNOWN,
        )
    note = f"{path.name}: its claim was not whole"
    return replace(record, taken_over=note, accepted=(*record.accepted, OWNER_UNKNOWN))


def _ended_silently(content: ClaimContent) -> tuple[RunRecord, ...]:
    started = content.record is not None and content.record.query_id
    return (*content.former, content.record) if content.record and started else content.former


def _being_started(record: RunRecord, path: Path, commands: Commands) -> SurestartError:
    return Refused(
        f"{record.query} is not started: another driver is starting it at this moment",
        meaning=f"It holds {path} and has not said yet who it is. Two drivers on one checkpoint corrupt it.",
        next=commands.history(),
        do_not=f"delete {path}.",
        code=OWNER_RUNNING,
    )


def _follow(
    last: RunRecord,
    state: OwnerState,
    record: RunRecord,
    accept: Sequence[str],
    commands: Commands,
    *,
    lock_is_free: bool = False,
) -> RunRecord:
    # A process of this host that is alive and has not the lock has ended the run without being able to say so. A driver
    # elsewhere may hold a lock that its file system does not show here.
    if state.life is Life.DEAD or (lock_is_free and state.life is Life.ALIVE and state.by_process):
        return _takes_over(record, last, state)
    if state.life is Life.PAUSED:
        if OWNER_PAUSED in accept:
            return _takes_over(record, last, state, OWNER_PAUSED)
        raise _paused(last, state, commands)
    if state.life is Life.UNKNOWN:
        if OWNER_UNKNOWN in accept:
            return _takes_over(record, last, state, OWNER_UNKNOWN)
        raise CannotTell(
            f"{record.query} is not started: {describe_owner(last)}, has not ended, and whether it is alive cannot be "
            f"told: {state.why}; {_last_batch(last)}",
            meaning="Two drivers on one checkpoint replay the same batch at the same time. That it plans no batch "
            "proves nothing: there may be no new data. "
            f"Look at {last.job_url or _where(last)}; when it has ended, accept it.",
            next=commands.accept(OWNER_UNKNOWN),
            do_not="accept it before you have looked at that driver.",
            code=OWNER_UNKNOWN,
        )
    raise _running(last, state, commands)


def _takes_over(record: RunRecord, last: RunRecord, state: OwnerState, accepted: str = "") -> RunRecord:
    note = f"run {last.run_id} ({describe_owner(last)}): {state.why}"
    return replace(record, taken_over=note, accepted=(*record.accepted, accepted) if accepted else record.accepted)


def _running(owner: RunRecord, state: OwnerState, commands: Commands) -> SurestartError:
    return Refused(
        f"{owner.query} is running already: {describe_owner(owner)} ({state.why}); {_last_batch(owner)}",
        meaning="Spark has no lock across drivers: two of them would replay the same batch at the same time. "
        "Nothing was started and nothing was changed.",
        next=commands.history(),
        do_not="stop it by starting it again; stop that process, or cancel that job run, if it must go.",
        code=OWNER_RUNNING,
    )


def _paused(owner: RunRecord, state: OwnerState, commands: Commands) -> SurestartError:
    return CannotTell(
        f"{owner.query} is held by a paused owner: {describe_owner(owner)} ({state.why}); {_last_batch(owner)}",
        meaning=f"It is alive and may go on at any time. {_HARMLESS}",
        next=commands.accept(OWNER_PAUSED),
        do_not="accept it while somebody is debugging that process.",
        code=OWNER_PAUSED,
    )


def _where(run: RunRecord) -> str:
    return f"process {run.pid} on {run.host}" if run.host else "where it was started"


def judge_run(run: RunRecord, *, asking: RunRecord | None = None, silent_for: int | None = None) -> OwnerState:
    """Whether the process of this run is alive."""
    return judge_owner(
        run,
        now=int(time.time() * 1000),
        last_activity=_last_activity(read_checkpoint(run.checkpoint, entries=1)),
        job_state=read_job_state,
        asking=asking,
        silent_for=silent_for,
    )


def _last_activity(checkpoint: Checkpoint) -> int | None:
    """When the newest batch was planned."""
    entry = checkpoint.latest_offsets
    return getattr(entry, "timestamp_ms", None)


def _last_batch(run: RunRecord) -> str:
    checkpoint = read_checkpoint(run.checkpoint, entries=1)
    if checkpoint.latest_committed is None:
        return "no batch committed yet"
    return f"last batch committed: {checkpoint.latest_committed}"
