"""Law 9 for streams of surestart.toml: the doctor's row of each, and the gate of `surestart.start`, with every kind of
source and sink that one can declare; and for a topic as a sink, whose brokers tell times and no batches."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from surestart.cli.doctor import row_of_stream
from surestart.cli.stage_answers import read_run_history
from surestart.facts.delta import CommitMark
from surestart.facts.kafka import admin
from surestart.facts.kafka import evidence as kafka_evidence
from surestart.guarding.declared import Declared
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.run_record import ENDED, FINISHED, RunRecord
from surestart.history.run_table import NOTE
from surestart.journal.unfinished import refuse_unfinished
from surestart.runs.judge_start import judge_stage, read_history_or_tell, refuse_or_accept
from surestart.streams.as_pipeline import StreamEnvironment, environment_of_streams, stage_of_stream
from surestart.streams.project_file import ProjectFile, declare_stream
from surestart.streams.stream import Stream
from surestart.verdict import ask_kafka
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Verdict
from tests.checkpoint.checkpoint_maker import QUERY_ID, TABLE_ID, delta, kafka, make_checkpoint
from tests.checkpoint.make_rocksdb import delete_rows
from tests.deltalog.handmade import add, create, info, remove, txn, write_commit
from tests.diagnosis.answers import Answers, Ask, judged, listening
from tests.diagnosis.stage_values import DAY, FORMER_ID, NOW
from tests.diagnosis.test_ignorance import ALL, find_broken, rocksdb
from tests.diagnosis.test_inspect import make_table
from tests.fleet.test_iceberg_sink import batch as iceberg_batch
from tests.fleet.test_iceberg_sink import write_table as write_iceberg

SAFE, CANNOT_TELL, UNSAFE = Verdict.SAFE, Verdict.CANNOT_TELL, Verdict.UNSAFE
NAME, TOPIC = "orders", "out"


def input_table(root: Path, newest: int = 17) -> dict[str, str]:
    """The checkpoint has read up to version 16: one commit waits."""
    now = int(time.time() * 1000)
    write_commit(root / "in", 0, *create(table_id=TABLE_ID))
    for version in range(1, newest + 1):
        note = info("WRITE", timestamp=now, operationParameters={"mode": "Append"})
        write_commit(root / "in", version, note, add(f"{version}.p"))
    return {"delta": str(root / "in")}


def declared(root: Path, sink: Mapping[str, Any], source: Mapping[str, Any] | None = None) -> Stream:
    found = input_table(root) if source is None else source
    return declare_stream(NAME, str(root / "ck"), source=found, sink=sink)


def to_delta(root: Path, batches: int, planned: int = 5, committed: int = 5, **said: Any) -> Stream:
    make_checkpoint(root / "ck", planned=range(planned), committed=range(committed), source=delta)
    make_table(root / "out", *range(batches))
    return declared(root, {"delta": str(root / "out"), "shared": False, **said})


def history(root: Path, query_id: str = QUERY_ID) -> None:
    """Of one run, as the gate of `surestart.start` leaves it."""
    record = RunRecord(
        "run-1",
        ENDED,
        environment="local",
        stage=NAME,
        query=NAME,
        checkpoint=str(root / "ck"),
        place=checkpoint_place(str(root / "ck")),
        query_id=query_id,
        started_at=NOW - DAY,
        ended_at=NOW - DAY + 1,
        outcome=FINISHED,
        first_batch=0,
        last_batch=4,
    )
    note = info("WRITE", userMetadata=json.dumps({NOTE: [record.as_note()]}))
    write_commit(root / "history/tables/surestart_runs", 0, note, *create()[1:])


def deleted(root: Path) -> Stream:
    stream = to_delta(root, 5)
    history(root)
    shutil.rmtree(root / "ck")
    return stream


def deleted_with_its_output(root: Path) -> Stream:
    stream = deleted(root)
    shutil.rmtree(root / "out")
    write_commit(root / "out", 0, *create(table_id="new"))
    return stream


def swapped(root: Path) -> Stream:
    """The last run had another id, and its batches are in the table."""
    stream = to_delta(root, 5)
    write_commit(root / "out", 6, info("WRITE"), txn(FORMER_ID, 3), add("z.parquet"))
    history(root, FORMER_ID)
    return stream


def superseded(root: Path) -> Stream:
    """Another checkpoint of this stream has written since, and says so."""
    stream = to_delta(root, 5)
    note = info("WRITE", userMetadata=CommitMark(NAME, FORMER_ID, 9, NAME).as_json())
    write_commit(root / "out", 6, note, txn(FORMER_ID, 9), add("x.parquet"))
    return stream


def source_rewritten(root: Path) -> Stream:
    stream = to_delta(root, 5)
    write_commit(root / "in", 18, info("DELETE"), remove("17.p"))
    return stream


def source_rewritten_and_not_passed(root: Path) -> Stream:
    stream = source_rewritten(root)
    (source,) = stream.sources
    return replace(stream, sources=(replace(source, options=(("skipChangeCommits", "false"),)),))


def source_replaced(root: Path) -> Stream:
    stream = to_delta(root, 5)
    shutil.rmtree(root / "in")
    write_commit(root / "in", 0, *create(table_id="another"))
    return stream


def to_iceberg(root: Path, last: int) -> Stream:
    make_checkpoint(root / "ck", source=delta)
    snapshots = [iceberg_batch(one, one - 1) for one in range(1, last + 2)]
    write_iceberg(root / "t", snapshots, f"v{last + 1}.metadata.json")
    (root / "t/metadata/version-hint.text").write_text(str(last + 1))
    return declared(root, {"iceberg": str(root / "t"), "shared": False})


def to_rocksdb(root: Path, damage: Callable[[Path], object]) -> Stream:
    folder, table = rocksdb(root, damage).split(" ")
    return declare_stream(NAME, folder, sink={"delta": table, "shared": False})


def to_several(root: Path, second: int) -> Stream:
    """Two tables, of which the second may be behind."""
    to_delta(root, 5)
    make_table(root / "out2", *range(second))
    both = [{"delta": str(root / name), "shared": False} for name in ("out", "out2")]
    return declare_stream(NAME, str(root / "ck"), source={"delta": str(root / "in")}, sink=both)


def to_a_ledger(root: Path, committed: int) -> Stream:
    make_checkpoint(root / "ck", committed=range(committed), source=delta)
    return declared(root, {"jdbc": "db.rows", "ledger": "db.batches"})


WORLDS: dict[str, tuple[Callable[[Path], Stream], Verdict]] = {
    "healthy": (lambda root: to_delta(root, 5), SAFE),
    "in flight": (lambda root: to_delta(root, 5, 5, 4), SAFE),
    "ahead": (lambda root: to_delta(root, 9), UNSAFE),
    "behind": (lambda root: to_delta(root, 2), UNSAFE),
    "begins anew": (lambda root: to_delta(root, 5, 0, 0), UNSAFE),
    "deleted": (deleted, UNSAFE),
    "deleted with its output": (deleted_with_its_output, CANNOT_TELL),
    "swapped": (swapped, UNSAFE),
    "superseded": (superseded, UNSAFE),
    "source rewritten": (source_rewritten, CANNOT_TELL),
    "source rewritten, not passed": (source_rewritten_and_not_passed, UNSAFE),
    "source replaced": (source_replaced, UNSAFE),
    "iceberg": (lambda root: to_iceberg(root, 4), SAFE),
    "iceberg ahead": (lambda root: to_iceberg(root, 9), UNSAFE),
    "RocksDB": (lambda root: to_rocksdb(root, lambda checkpoint: None), Verdict.ATTENTION),
    "RocksDB without rows": (lambda root: to_rocksdb(root, delete_rows), UNSAFE),
    "two tables": (lambda root: to_several(root, 5), SAFE),
    "one of two behind": (lambda root: to_several(root, 2), UNSAFE),
    "a ledger": (lambda root: to_a_ledger(root, 5), CANNOT_TELL),
}


def environment_of(root: Path, stream: Stream) -> StreamEnvironment:
    return environment_of_streams(ProjectFile(root / "surestart.toml", history=f"{root}/history", streams=(stream,)))


def doctor(root: Path, stream: Stream) -> Ask:
    environment = environment_of(root, stream)

    def ask(answers: Answers) -> Verdict:
        with listening(answers, root):
            stage = stage_of_stream(stream)
            past = read_run_history(environment, [stage])
            return row_of_stream(environment, "", (), None, past, stage).verdict

    return ask


def gate(root: Path, stream: Stream) -> Ask:
    """What `surestart.start` asks before the writer opens anything."""
    environment = environment_of(root, stream)
    commands = Declared(stream, environment, in_file=True).commands
    record = RunRecord("run-2", environment="local", query=NAME, stage=NAME, place=checkpoint_place(stream.checkpoint))

    def start() -> Verdict:
        refuse_unfinished(environment, NAME, None)
        former = read_history_or_tell(environment, None, commands)  # type: ignore[arg-type]
        diagnosed = judge_stage(environment, stage_of_stream(stream), former, commands)
        refuse_or_accept(diagnosed, record, (), commands)
        return diagnosed.verdict

    def ask(answers: Answers) -> Verdict:
        with listening(answers, root):
            return judged(start)

    return ask


@pytest.mark.parametrize("few", [pytest.param(12, id="few"), ALL])
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("asker", [doctor, gate])
def test_no_answer_that_fails_makes_a_declared_stream_safer(
    asker: Callable[[Path, Stream], Ask], world: str, few: int | None, tmp_path: Path
) -> None:
    lay_out, expected = WORLDS[world]
    ask = asker(tmp_path, lay_out(tmp_path))

    assert ask(Answers()) is expected
    assert find_broken(ask, few)[1] == []


@pytest.mark.parametrize("asker", [doctor, gate])
def test_no_listing_that_fails_takes_a_source_away_that_nobody_declared(
    asker: Callable[[Path, Stream], Ask], tmp_path: Path
) -> None:
    ask = asker(tmp_path, replace(to_delta(tmp_path, 5), sources=()))

    assert ask(Answers()) is Verdict.ATTENTION
    assert find_broken(ask, None, ("list",))[1] == []


@dataclass(frozen=True)
class Brokers:
    """What brokers say of one topic: of each partition its records, each with the time at which it came."""

    answers: Answers
    records: Mapping[int, tuple[int, ...]]

    def describe_topic(self, topic: str) -> Any:
        found = self.answers.give("topic", "describe", lambda: [SimpleNamespace(id=one) for one in self.records])
        return SimpleNamespace(topic_id="the-id", partitions=found)

    def first_offsets_since(self, topic: str, partitions: tuple[int, ...], at: int) -> dict[int, int]:
        def first(times: tuple[int, ...]) -> int:
            return next((offset for offset, time in enumerate(times) if time >= at), -1)

        return self._tell("first", {one: first(self.records[one]) for one in partitions})

    def newest_times(self, topic: str, partitions: tuple[int, ...]) -> dict[int, int]:
        return self._tell("newest", {one: max(self.records[one], default=-1) for one in partitions})

    def list_offsets(self, topic: str, partitions: tuple[int, ...], which: str, **more: Any) -> dict[int, int]:
        ends = {one: len(self.records[one]) if which == "latest" else 0 for one in partitions}
        return self._tell(f"{which} {more}", ends)

    def describe_configs(self, topic: str) -> dict[str, str]:
        return self.answers.give("numbers", "settings", lambda: {"cleanup.policy": "delete", "retention.ms": "-1"})

    def _tell(self, about: str, found: dict[int, int]) -> dict[int, int]:
        told: dict[int, int] = self.answers.give("numbers", about, lambda: found)
        return told


BROKERS = ("topic", "numbers")
# Of the newest batch: planned, committed, and long after it.
BEFORE, WHILE, LATER = -60_000, 0, 60_000
SINKS: dict[str, tuple[int, int, Mapping[int, tuple[int, ...]], Verdict]] = {
    "at rest": (5, 5, {0: (BEFORE, WHILE), 1: (BEFORE,), 2: ()}, SAFE),
    "later records": (5, 5, {0: (BEFORE, WHILE), 1: (BEFORE,), 2: (LATER,)}, UNSAFE),
    "in flight, not sent": (5, 4, {0: (BEFORE, BEFORE), 1: (), 2: ()}, CANNOT_TELL),
    "in flight, sent": (5, 4, {0: (BEFORE,), 1: (BEFORE,), 2: (LATER,)}, UNSAFE),
    "first start": (0, 0, {0: (), 1: (), 2: ()}, SAFE),
    "first start over records": (0, 0, {0: (), 1: (), 2: (BEFORE,)}, UNSAFE),
}


@pytest.mark.parametrize("by", ["inspect", "doctor"])
@pytest.mark.parametrize("sink", SINKS)
def test_no_answer_of_brokers_that_fails_makes_a_topic_safer(
    sink: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, committed, records, expected = SINKS[sink]
    at = int(time.time() * 1000)
    if planned:
        make_checkpoint(tmp_path / "ck", planned=range(planned), committed=range(committed), source=delta)
        newest = json.loads((tmp_path / f"ck/offsets/{planned - 1}").read_text().splitlines()[1])
        at = newest["batchTimestampMs"]
    cluster = {one: tuple(at + time for time in times) for one, times in records.items()}
    stream = declared(tmp_path, {"kafka": TOPIC, "bootstrap": "k1:9092", "shared": False})

    def ask(answers: Answers) -> Verdict:
        monkeypatch.setattr(admin, "KafkaAdmin", lambda *place: Brokers(answers, cluster))
        if by == "doctor":
            return doctor(tmp_path, stream)(answers)
        with listening(answers, tmp_path):
            name = f"kafka+alone://k1:9092/{TOPIC}"
            return judged(lambda: inspect_checkpoint(str(tmp_path / "ck"), sinks=(name,)).verdict)

    found = ask(Answers())
    # Of a folder that is not there nobody knows whether it ever was one.
    assert found is expected or (by, expected, found) == ("inspect", SAFE, Verdict.ATTENTION)
    # A partition that no answer ever names is known to nobody.
    broken = [one for one in find_broken(ask, None, BROKERS)[1] if not one.startswith("topic describe (None): ")]
    assert broken == []


def test_no_answer_of_brokers_that_fails_makes_a_declared_source_safer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that were not read yet are gone from the second partition."""
    monkeypatch.setattr(ask_kafka, "time", SimpleNamespace(sleep=lambda seconds: None))
    make_checkpoint(tmp_path / "ck", source=kafka)
    make_table(tmp_path / "out", *range(5))
    source = {"kafka": "orders", "bootstrap": "k1:9092"}
    stream = declared(tmp_path, {"delta": str(tmp_path / "out"), "shared": False}, source)

    class Retained(Brokers):
        def list_offsets(self, topic: str, partitions: tuple[int, ...], which: str, **more: Any) -> dict[int, int]:
            ends = {one: 500 if which == "latest" or one else 0 for one in partitions}
            return self._tell(f"{which} {more}", ends)

    def ask(answers: Answers) -> Verdict:
        monkeypatch.setattr(kafka_evidence, "KafkaAdmin", lambda *place: Retained(answers, {0: (), 1: ()}))
        return doctor(tmp_path, stream)(answers)

    assert ask(Answers()) is UNSAFE
    assert find_broken(ask, None, BROKERS)[1] == []
