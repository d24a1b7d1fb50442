"""An undo after which a stage could not start, or would hold rows that its input has no more, is refused beforehand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.journal import BEGUN, DONE, FINISHED, Journal, JournalEntry
from surestart.remedies.apply.undo_starts import refuse_unstartable
from surestart.remedies.basis.move_aside import retired_folder
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext
from tests.deltalog.handmade import add, create, info, remove, write_commit
from tests.remedies.move import running
from tests.remedies.test_taken_back import write_batches

RETIRE = Step("retire:deserialize", "retire", "", "deserialize")
CLEAR = Step("clear:sensor_raw", "clear", "", "raw-ingest", {"table": "sensor_raw", "version": 2})


def applied(environment: Environment, *steps: Step, state: str = FINISHED) -> StepContext:
    """Raw: two appends, a DELETE by somebody, an append."""
    raw = Path(environment.table("sensor_raw").path)
    write_commit(raw, 0, *create())
    write_commit(raw, 1, info("WRITE"), add("a"))
    write_commit(raw, 2, info("WRITE"), add("b"))
    write_commit(raw, 3, info("DELETE"), remove("a"))
    write_commit(raw, 4, info("WRITE"), add("c"))
    run = running(environment, journaled=False)
    states = [(BEGUN, ""), *((DONE, step.id) for step in steps), *([] if state == BEGUN else [(state, "")])]
    entries = [JournalEntry(run.digest, number, name, step) for number, (name, step) in enumerate(states)]
    return replace(run, plan=replace(run.plan, steps=steps), journal=Journal(tuple(entries)))


def former_checkpoint(run: StepContext, version: int) -> None:
    """Its newest batch begins there."""
    folder = retired_folder(run.environment, "sensor-deserialize", run.digest)
    write_batches(folder, (version, -1, False), (3, -1, False), committed=2)


def test_a_checkpoint_is_not_brought_back_in_front_of_a_commit_that_spark_refuses(environment: Environment) -> None:
    run = applied(environment, RETIRE)
    former_checkpoint(run, 2)
    with pytest.raises(Refused, match=r"is before version 3 of sensor_raw \(DELETE\)") as refused:
        refuse_unstartable(run)
    assert refused.value.code == "UndoWouldStop"


def test_behind_such_a_commit_it_is(environment: Environment) -> None:
    run = applied(environment, RETIRE)
    former_checkpoint(run, 4)
    refuse_unstartable(run)


def test_a_commit_that_goes_back_with_the_table_is_none(environment: Environment) -> None:
    run = applied(environment, CLEAR, RETIRE)
    former_checkpoint(run, 2)
    refuse_unstartable(run)


def test_half_way_an_undo_may_be_all_that_is_left(environment: Environment) -> None:
    run = applied(environment, RETIRE, state=BEGUN)
    former_checkpoint(run, 2)
    refuse_unstartable(run)


@pytest.mark.parametrize("reached", [3, 4])
def test_a_reader_that_was_no_part_of_it_must_not_have_read_on(environment: Environment, reached: int) -> None:
    run = applied(environment, CLEAR)
    write_batches(Path(environment.checkpoint("deserialize")), (2, -1, False), (reached, -1, False), committed=2)
    if reached == 3:
        refuse_unstartable(run)
        return
    with pytest.raises(Refused, match="has gone on after version 2 of it") as refused:
        refuse_unstartable(run)
    assert refused.value.code == "ReaderNotInRemedy"
