"""Moves a checkpoint aside, or back, without Spark; and in a process of its own that is killed on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.failpoints import VARIABLE
from surestart.journal.journal import BEGUN, DONE, NOTE, Journal, JournalEntry
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.plan import Plan, Step, environment_facts
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.steps.retire import apply_step, undo_step
from tests.deltalog.handmade import create, info, write_commit

STAGE = "raw-ingest"


def away(environment: Environment, wanted: str) -> dict[str, Any]:
    return apply_step(running(environment, journaled=False), retire_step(wanted))


def back(environment: Environment, wanted: str) -> dict[str, Any]:
    return undo_step(running(environment, journaled=True), retire_step(wanted))


def back_half_way(environment: Environment, wanted: str) -> dict[str, Any]:
    return undo_step(running(environment, journaled=False), retire_step(wanted))


def retire_step(wanted: str) -> Step:
    return Step(f"retire:{STAGE}", "retire", "move aside", STAGE, {"manifest": wanted})


def running(environment: Environment, *, journaled: bool) -> StepContext:
    """No session: a checkpoint is moved without one. journaled: the journal says that it was moved aside."""
    plan = Plan("reset", STAGE, "in-place", environment_facts(environment), 1, (STAGE,), {}, ())
    entries = [JournalEntry(plan.digest, 0, BEGUN)] + [
        JournalEntry(plan.digest, 1, DONE, step=f"retire:{STAGE}")
    ] * journaled
    write_entries(environment, entries)
    chain = read_chain(environment, build_stages({}))
    return StepContext(None, environment, chain, plan, Journal(tuple(entries)), print)  # type: ignore[arg-type]


def write_entries(environment: Environment, entries: Sequence[JournalEntry]) -> None:
    """They are the journal, and there are no others."""
    table = Path(environment.table("surestart_remedies").path)
    shutil.rmtree(table, ignore_errors=True)
    for number, entry in enumerate(entries):
        note = json.dumps({NOTE: asdict(entry)})
        write_commit(table, number, info("WRITE", userMetadata=note), *(create()[1:] if number == 0 else []))


def dies_at(point: str, doing: Callable[[], object]) -> None:
    """A forked process does it and is killed there; raises when it was not."""
    child = os.fork()
    if child == 0:
        # Its own session, so that nothing but itself dies.
        os.setsid()
        os.environ[VARIABLE] = point
        try:
            doing()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"{point} was never reached"
    assert os.WTERMSIG(status) == signal.SIGKILL
