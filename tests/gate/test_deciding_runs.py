"""What a start finds in the runs that decide, it finds in all of them: also after any remedies and undos."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration
from surestart.errors import SurestartError
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.delta import Transaction
from surestart.facts.evidence.sink_evidence import SinkEvidence
from surestart.history.log_runs import deciding_runs
from surestart.history.run_record import ENDED, FINISHED, REMEDY, RunRecord
from surestart.runs.find_owner import refuse_live_owner
from surestart.runs.history_findings import find_history, read_topic_id
from surestart.words.next_commands import Commands

QUERY, PLACE = "q", "/ck/q"
IDS = ("00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b")
TOPICS = ("6f1b_9cKSk2Yb8jX0a0aaa", "6f1b_9cKSk2Yb8jX0b0bbb")
DECLARED = StageDeclaration(
    "s", QUERY, PLACE, (SourceDeclaration("kafka", "topic"),), (SinkDeclaration("delta-append", "t", "/t"),)
)

ordinary = st.fixed_dictionaries(
    {
        "query": st.sampled_from([QUERY, QUERY, QUERY, "other"]),
        "environment": st.sampled_from(["prod", "prod", "prod", "dev"]),
        "query_id": st.sampled_from(["", *IDS]),
        "place": st.sampled_from([PLACE, PLACE, PLACE, "/ck/elsewhere"]),
        "last_batch": st.sampled_from([None, 0, 7]),
        "outcome": st.sampled_from([FINISHED, FINISHED, ""]),
        "sources": st.sampled_from([{}, {"topic": TOPICS[0]}, {"topic": TOPICS[1]}]),
        "declaration": st.sampled_from([{"a": 1}, {"a": 2}]),
        "epoch": st.sampled_from([None, 1, 2, 3]),
    }
)
remedy = st.sampled_from(["a1", "b2", "c3", "a1-undo", "b2-undo", "c3-undo"])
steps = st.lists(st.one_of(ordinary, ordinary, ordinary, remedy), max_size=40)


def history(drawn: list[Any]) -> list[RunRecord]:
    """Each remedy and each undo once, an undo after its remedy."""
    runs: list[RunRecord] = []
    done: set[str] = set()
    for number, one in enumerate(drawn):
        if isinstance(one, str) and (one in done or ("-undo" in one and one.removesuffix("-undo") not in done)):
            continue
        done |= {one} if isinstance(one, str) else set()
        started = {"started_at": 1_000 + number, "process_started": "b/n/1", "host": "elsewhere"}
        if isinstance(one, str):
            digest, _, undo = one.partition("-")
            ended = RunRecord(
                f"{one}-s", REMEDY, query=QUERY, environment="prod", place=PLACE, outcome=FINISHED, **started
            )
            runs.append(replace(ended, undoes=digest) if undo else replace(ended, remedy=digest))
        else:
            runs.append(RunRecord(f"run-{number}", ENDED, **one, **started))
    return runs


def answers(runs: Any, checkpoint: Any) -> list[Any]:
    """All that a start asks of the history."""
    own = [run for run in runs if (run.query, run.environment) == (QUERY, "prod")]
    commands = Commands("s", "prod")
    sinks = {"t": SinkEvidence("t", has_rows=True, transactions={IDS[0]: Transaction(3)})}
    found = find_history(DECLARED, "prod", PLACE, checkpoint, sinks, runs, commands, in_one_folder=False)
    try:
        mine = RunRecord("mine", query=QUERY, environment="prod")
        owner = refuse_live_owner(mine, runs, (), commands).taken_over
    except SurestartError as error:
        owner = f"{error.code} {error.what}"
    last = next((run.declaration for run in reversed(own) if run.last_batch is not None), None)
    epoch = max((run.epoch or 0 for run in own), default=0)
    # How many runs used how many paths is for the reader; the rest of each finding is the same.
    told = [(one.code, one.severity, one.evidence.partition("; the last ")[0]) for one in found]
    return [told, owner, last, epoch, read_topic_id(own, DECLARED)]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """None, an empty one, and one that has planned a batch under another id."""
    made: list[Any] = []
    for number, planned in enumerate((False, True)):
        folder = tmp_path_factory.mktemp(f"ck{number}")
        (folder / "metadata").write_text(f'{{"id":"{IDS[1]}"}}')
        for log in ("offsets", "commits"):
            (folder / log).mkdir()
        if planned:
            (folder / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":1}\n{"logOffset":0}')
        made.append(read_checkpoint(str(folder)))
    return [read_checkpoint(str(Path("/nowhere/q"))), *made]


@settings(max_examples=250, deadline=None)
@given(drawn=steps, which=st.integers(0, 2))
def test_what_decides_answers_as_all_runs_do(checkpoints: list[Any], drawn: list[Any], which: int) -> None:
    runs = history(drawn)
    kept = deciding_runs(runs)
    assert answers(kept, checkpoints[which]) == answers(runs, checkpoints[which])
    # Kept once more, with what has come since, as each row of a claim does.
    for cut in (len(runs) // 2, len(runs) // 3):
        again = deciding_runs([*deciding_runs(runs[:cut]), *runs[cut:]])
        assert answers(again, checkpoints[which]) == answers(runs, checkpoints[which])


def test_few_decide_however_many_there_were() -> None:
    base = RunRecord("r", ENDED, query=QUERY, environment="prod", place=PLACE, query_id=IDS[0], outcome=FINISHED)
    runs = [replace(base, run_id=f"r{number}", started_at=number, last_batch=number) for number in range(10_000)]
    assert len(deciding_runs(runs)) <= 5
    assert deciding_runs(runs)[-1] == runs[-1]
