"""A Kafka topic as a sink: what its brokers say of times against what the checkpoint says. With real brokers and real
restarts: `make matrix`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from surestart.declaration import StageDeclaration
from surestart.errors import UsageError
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.evidence.sink_evidence import TOPIC, SinkEvidence, TopicRecords, sink_unreadable
from surestart.facts.evidence.sink_names import read_sink_name
from surestart.verdict.acceptance import diagnose_acceptance
from surestart.verdict.acceptance_case import NextBatch, next_batch_of
from surestart.words.finding import Acceptance, Verdict, verdict_of
from tests.checkpoint.checkpoint_maker import make_checkpoint

PLANNED, COMMITTED = 1_000_000, 1_002_345
REST = NextBatch(5, "q", planned_at={4: PLANNED}, committed_by=COMMITTED)
FLIGHT = NextBatch(5, "q", replayed=True, planned_at={4: PLANNED, 5: 1_010_000}, committed_by=COMMITTED)
FIRST = NextBatch(0, "q")
# The newest record came while the newest committed batch ran.
QUIET = TopicRecords(since=0, newest=1_001_000)
LATER = TopicRecords(since=COMMITTED, newest=1_020_000, new={0: (40, 50), 2: (7, 8)})


def judged(next_batch: NextBatch, records: TopicRecords | None, said: str = "") -> tuple[Acceptance, Verdict, str]:
    sink = read_sink_name(f"kafka{said}://k1:9092,k2:9092/out")
    held = SinkEvidence(TOPIC, complete=False, topic=records) if records else sink_unreadable("no answer", TOPIC)
    stage = StageDeclaration("one", "one", "/ck", (), (sink,))
    (found,) = diagnose_acceptance(stage, next_batch, {"out": held}, 2_000_000)
    return found.acceptance, verdict_of(found.findings), " ".join(one.evidence for one in found.findings)


def test_at_rest_it_is_safe_where_nothing_came_since() -> None:
    assert judged(REST, QUIET)[:2] == (Acceptance.ACCEPTS, Verdict.SAFE)
    assert judged(REST, replace(QUIET, newest=None, one_clock=True))[:2] == (Acceptance.ACCEPTS, Verdict.SAFE)


def test_in_flight_it_doubles_what_came_since_and_says_where() -> None:
    acceptance, verdict, said = judged(FLIGHT, LATER)
    assert (acceptance, verdict) == (Acceptance.DUPLICATES, Verdict.UNSAFE)
    assert "up to 11 records" in said
    assert "partition 0 offsets 40 to 49, partition 2 offsets 7 to 7" in said


def test_in_flight_and_not_sent_yet_is_safe() -> None:
    assert judged(FLIGHT, QUIET)[:2] == (Acceptance.ACCEPTS, Verdict.SAFE)


@pytest.mark.parametrize(("said", "verdict"), [("+alone", Verdict.UNSAFE), ("", Verdict.CANNOT_TELL)])
def test_later_records_at_rest_are_of_batches_that_were_forgotten_or_of_others(said: str, verdict: Verdict) -> None:
    assert judged(REST, LATER, said)[1] is verdict


def test_a_shared_topic_is_left_open() -> None:
    assert judged(FLIGHT, LATER, "+shared")[:2] == (Acceptance.CANNOT_TELL, Verdict.CANNOT_TELL)


@pytest.mark.parametrize(
    ("next_batch", "records"),
    [
        # A clock that is behind makes no batch look unsent: the newest record is older than the batch that sent it.
        (REST, replace(QUIET, newest=PLANNED - 1)),
        (FLIGHT, replace(QUIET, newest=PLANNED - 1)),
        (FLIGHT, replace(QUIET, newest=None)),
        # A copy's files are younger than its batches.
        (replace(REST, committed_by=None), QUIET),
        (replace(FLIGHT, planned_at={}), QUIET),
        (REST, None),
        (FLIGHT, None),
        (FIRST, None),
    ],
)
def test_ignorance_never_reassures(next_batch: NextBatch, records: TopicRecords | None) -> None:
    assert judged(next_batch, records)[:2] == (Acceptance.CANNOT_TELL, Verdict.CANNOT_TELL)


def test_a_first_start_is_safe_over_an_empty_topic_and_doubles_what_is_there() -> None:
    assert judged(FIRST, replace(QUIET, newest=None))[:2] == (Acceptance.ACCEPTS, Verdict.SAFE)
    assert judged(FIRST, QUIET, "+alone")[:2] == (Acceptance.DUPLICATES, Verdict.UNSAFE)
    assert judged(FIRST, QUIET, "+new")[1] is Verdict.SAFE
    assert judged(FIRST, QUIET)[1] is Verdict.CANNOT_TELL


def test_brokers_that_do_not_answer_leave_it_open() -> None:
    from surestart.verdict.ask_kafka import ask_topic

    held = ask_topic(read_sink_name("kafka://127.0.0.1:1/out"), REST, timeout_seconds=0.5)
    assert held.problem
    assert held.topic is None


@pytest.mark.parametrize("name", ["kafka://user:secret@k1:9092/out", "kafka:///out", "kafka://k1/out"])
def test_brokers_are_host_and_port_and_never_repeated(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_sink_name(name)
    assert "secret" not in str(raised.value)


def test_the_files_of_a_copy_tell_no_time(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    told = next_batch_of(read_checkpoint(str(tmp_path)))
    assert told.committed_by is not None
    assert told.ended is not None
    assert told.ended[0] <= told.committed_by <= told.ended[1]
    for path in tmp_path.rglob("*"):
        # Copied an hour later, with the times of that hour.
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime + 3600))
    told = next_batch_of(read_checkpoint(str(tmp_path)))
    assert (told.committed_by, told.ended) == (None, None)
