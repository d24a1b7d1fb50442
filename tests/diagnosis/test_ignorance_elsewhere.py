"""Law 9 for what is no file: a broker's answers, sample by sample; a session's rows; a ledger's; the clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.environment import Environment
from surestart.facts.checkpoint.positions import DeltaPosition
from surestart.facts.checkpoint.snapshot import CheckpointSource, read_checkpoint
from surestart.facts.delta import CommitMark
from surestart.facts.evidence.session_evidence import read_sinks_by_session, read_source_by_session
from surestart.facts.evidence.sink_evidence import SinkEvidence
from surestart.facts.evidence.source_evidence import NextRead
from surestart.facts.kafka import evidence as kafka_evidence
from surestart.sources.kafka import KafkaSource
from surestart.verdict import ask_kafka
from surestart.verdict.acceptance import NextBatch, diagnose_acceptance
from surestart.verdict.ask_stages import ask_stage
from surestart.verdict.delta_source_findings import find_delta_source
from surestart.words.finding import Acceptance, Verdict, verdict_of
from surestart.words.next_commands import Commands
from tests.diagnosis.answers import Answers, judged
from tests.diagnosis.environment_by_hand import lay_out
from tests.diagnosis.stage_values import DAY, FORMER_ID, NOW, QUERY, QUERY_ID, TABLE_ID, stage, write_checkpoint
from tests.diagnosis.test_ignorance import find_broken, forgets, local

TOPIC, TOPIC_ID = "orders", "the-id-of-orders"
SAFE, CANNOT_TELL, UNSAFE = Verdict.SAFE, Verdict.CANNOT_TELL, Verdict.UNSAFE


class Broker:
    """A cluster's answers, made of what it holds."""

    def __init__(self, answers: Answers, topic_id: str, partitions: Mapping[int, tuple[int, int]], days: int) -> None:
        self.answers, self.topic_id, self.partitions, self.days = answers, topic_id, partitions, days

    def describe_topic(self, topic: str) -> Any:
        found = self.answers.give("topic", "describe", lambda: [SimpleNamespace(id=one) for one in self.partitions])
        return SimpleNamespace(topic_id=self.topic_id, partitions=found)

    def list_offsets(self, topic: str, numbers: tuple[int, ...], which: str, *, committed: bool = False) -> Any:
        ends = {one: self.partitions[one][0 if which == "earliest" else 1] for one in numbers}
        return self.answers.give("numbers", f"{which} {committed}", lambda: ends)

    def describe_configs(self, topic: str) -> Any:
        told = {"cleanup.policy": "delete", "retention.ms": str(self.days * DAY)}
        return self.answers.give("numbers", "settings", lambda: told)


TOPICS: dict[str, tuple[str, dict[int, tuple[int, int]], int, Verdict]] = {
    "whole": (TOPIC_ID, {0: (0, 100), 1: (0, 100)}, 7, SAFE),
    "made anew": ("another-id", {0: (0, 5000), 1: (0, 5000)}, 7, UNSAFE),
    "records lost": (TOPIC_ID, {0: (50, 100), 1: (0, 100)}, 7, UNSAFE),
    "another cluster": (TOPIC_ID, {0: (0, 5), 1: (0, 5)}, 7, UNSAFE),
    "fewer partitions": (TOPIC_ID, {0: (0, 100)}, 7, UNSAFE),
    "lost in a new partition": (TOPIC_ID, {0: (0, 100), 1: (0, 100), 2: (9, 20)}, 7, UNSAFE),
    "expiring": (TOPIC_ID, {0: (0, 100), 1: (0, 100)}, 1, Verdict.ATTENTION),
}


@pytest.mark.parametrize("topic", TOPICS)
def test_no_answer_of_a_broker_that_fails_makes_a_start_safer(
    topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_checkpoint(tmp_path / "ck", planned=3, committed=3, offset=json.dumps({TOPIC: {"0": 10, "1": 20}}))
    checkpoint, commands = read_checkpoint(str(folder)), Commands("ingest")
    topic_id, partitions, days, verdict = TOPICS[topic]
    monkeypatch.setattr(ask_kafka, "time", SimpleNamespace(sleep=lambda seconds: None))

    def ask(answers: Answers) -> Verdict:
        cluster = Broker(answers, topic_id, partitions, days)
        monkeypatch.setattr(kafka_evidence, "KafkaAdmin", lambda *place: cluster)
        now = answers.give("clock", "now", lambda: NOW)
        source, declared = KafkaSource("broker:9092", TOPIC), SourceDeclaration("kafka", TOPIC)
        return judged(
            lambda: verdict_of(
                ask_kafka.ask_kafka(source, declared, checkpoint, commands, recorded_topic_id=TOPIC_ID, now=now)
            )
        )

    assert ask(Answers()) is verdict
    # A partition that no answer ever names, and the checkpoint does not know, is known to nobody.
    unknown = "topic describe (None): all but the last: unsafe -> safe"
    assert [one for one in find_broken(ask, None)[1] if (topic, one) != ("lost in a new partition", unknown)] == []


def mark(batch: int, query_id: str = QUERY_ID, query: str = QUERY) -> str:
    return CommitMark(query, query_id, batch, "ingest").as_json()


def history(*notes: str, first: int = 0, **operations: str) -> list[dict[str, Any]]:
    """As DESCRIBE HISTORY gives it: the newest first."""
    at = datetime.fromtimestamp((NOW - DAY) / 1000, UTC)
    rows = [
        {
            "version": first + number,
            "timestamp": at,
            "operation": "WRITE" if note else operations.get(f"v{first + number}", "CREATE TABLE"),
            "operationParameters": {"version": "2"} if operations.get(f"v{first + number}") == "RESTORE" else {},
            "operationMetrics": {},
            "userMetadata": note or None,
        }
        for number, note in enumerate(notes)
    ]
    return rows[::-1]


class Session:
    """Rows for the two questions that a session is asked."""

    def __init__(self, answers: Answers, rows: list[dict[str, Any]], files: int) -> None:
        self.answers, self.rows, self.files = answers, rows, files

    def sql(self, text: str) -> Any:
        def rows() -> list[Any]:
            if text.startswith("DESCRIBE DETAIL"):
                found = {"id": TABLE_ID, "numFiles": self.files, "properties": {}}
                return [SimpleNamespace(asDict=lambda: found)]
            return self.rows[:1] if text.endswith("LIMIT 1") else self.rows

        return SimpleNamespace(collect=lambda: self.answers.give("rows", text, rows))


FIVE = [mark(batch) for batch in range(5)]
TABLES: dict[str, tuple[list[dict[str, Any]], int, NextBatch, Verdict]] = {
    "whole": (history("", *FIVE), 5, NextBatch(5, QUERY_ID), SAFE),
    "in flight": (history("", *FIVE), 5, NextBatch(4, QUERY_ID, replayed=True), SAFE),
    "ahead": (history("", *FIVE), 5, NextBatch(2, QUERY_ID), UNSAFE),
    "behind": (history("", *FIVE), 5, NextBatch(9, QUERY_ID), UNSAFE),
    "restored": (history("", *FIVE, "", v6="RESTORE"), 5, NextBatch(5, QUERY_ID), UNSAFE),
    "another took over": (history("", *FIVE, mark(7, FORMER_ID)), 6, NextBatch(5, QUERY_ID), UNSAFE),
    "over old rows": (history("", *FIVE), 5, NextBatch(0, None), UNSAFE),
    "empty": (history(""), 0, NextBatch(0, None), SAFE),
    "older than its history": (history("", "", first=800), 5, NextBatch(5, QUERY_ID), CANNOT_TELL),
}


def verdict(sink: SinkDeclaration, batch: NextBatch, evidence: SinkEvidence, now: int = NOW) -> Verdict:
    (answer,) = diagnose_acceptance(stage(sink), batch, {sink.target: evidence}, now)
    found = verdict_of(answer.findings)
    if answer.acceptance in (Acceptance.SKIPS, Acceptance.DUPLICATES):
        assert found is UNSAFE
    if answer.acceptance is Acceptance.CANNOT_TELL:
        assert found in (CANNOT_TELL, UNSAFE)
    return found


@pytest.mark.parametrize("table", TABLES)
def test_no_rows_of_a_session_that_are_missing_make_a_sink_safer(table: str) -> None:
    rows, files, batch, expected = TABLES[table]
    sink = SinkDeclaration("delta-append", "main.sensor.raw")

    def ask(answers: Answers) -> Verdict:
        evidence = read_sinks_by_session(Session(answers, rows, files), [sink])  # type: ignore[arg-type]
        return verdict(sink, batch, evidence[sink.target])

    assert ask(Answers()) is expected
    assert find_broken(ask, None)[1] == []


@pytest.mark.parametrize(("version", "expected"), [(6, SAFE), (3, UNSAFE), (9, UNSAFE)])
def test_no_rows_of_a_session_that_are_missing_make_a_source_safer(version: int, expected: Verdict) -> None:
    rows = history("", *FIVE, "", v6="TRUNCATE")
    rows[0]["operationMetrics"] = {"numRemovedFiles": "5"}
    source = SourceDeclaration("delta", "main.sensor.raw")
    position = DeltaPosition(TABLE_ID, version + 1 if expected is SAFE else version, -1, initial_snapshot=False)
    span = NextRead(CheckpointSource("0", "delta", None, position), replayed=False)

    def ask(answers: Answers) -> Verdict:
        now = answers.give("clock", "now", lambda: NOW)
        session: Any = Session(answers, rows, 5)
        evidence = read_source_by_session(session, source, position.version)
        return verdict_of(find_delta_source(source, span, evidence, Commands("s"), now))

    assert ask(Answers()) is expected
    assert find_broken(ask, None)[1] == []


LEDGER = SinkDeclaration("postgres", "public.gold")


class Database:
    """The answers of a database to the questions about one target."""

    def __init__(self, answers: Answers, batches: Mapping[str, int], filled: bool) -> None:
        self.answers, self.batches, self.filled = answers, batches, filled

    def execute(self, text: str, values: object = None) -> Any:
        at = datetime.fromtimestamp((NOW - DAY) / 1000, UTC)

        def one() -> Any:
            return (self.filled,) if "EXISTS" in text else ("there",)

        def rows() -> list[Any]:
            return [
                (query_id, "", batch, QUERY, "ingest", at, at, len(self.batches))
                for query_id, batch in self.batches.items()
            ]

        about = text[:40]
        return SimpleNamespace(
            fetchone=lambda: self.answers.give("row", f"{about} {values}", one),
            fetchall=lambda: self.answers.give("rows", about, rows),
        )


LEDGERS: dict[str, tuple[dict[str, int], bool, NextBatch, Verdict]] = {
    "whole": ({QUERY_ID: 4}, True, NextBatch(5, QUERY_ID), SAFE),
    "in flight": ({QUERY_ID: 4}, True, NextBatch(4, QUERY_ID, replayed=True), SAFE),
    "ahead": ({FORMER_ID: 3, QUERY_ID: 4}, True, NextBatch(2, QUERY_ID), UNSAFE),
    "behind": ({QUERY_ID: 4}, True, NextBatch(9, QUERY_ID), UNSAFE),
    "over old rows": ({FORMER_ID: 4}, True, NextBatch(0, None), UNSAFE),
    "another took over": ({QUERY_ID: 4, FORMER_ID: 9}, True, NextBatch(5, QUERY_ID), UNSAFE),
    "empty": ({}, False, NextBatch(0, None), SAFE),
}


@pytest.mark.parametrize("ledger", LEDGERS)
def test_no_answer_of_a_database_that_fails_makes_a_sink_safer(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batches, filled, batch, expected = LEDGERS[ledger]
    place = SimpleNamespace(sql='"public"."gold"', schema="public", label="public.gold")
    monkeypatch.setattr("surestart.facts.postgres.target.find_target", lambda connection, target: place)
    monkeypatch.setenv("SURESTART_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/nothing")

    def ask(answers: Answers) -> Verdict:
        @contextmanager
        def connected(secret: object, name: str) -> Any:
            yield Database(answers, batches, filled)

        monkeypatch.setattr("surestart.facts.postgres.connection.open_connection", connected)
        from surestart.sinks.postgres.sink import PostgresSink

        evidence = PostgresSink(target="public.gold").read_evidence(
            Environment("local", "sensor", "/nowhere/checkpoints", root="/nowhere")
        )
        return verdict(LEDGER, batch, evidence)

    assert ask(Answers()) is expected
    assert find_broken(ask, None)[1] == []


def test_a_clock_that_is_behind_makes_nothing_younger(tmp_path: Path) -> None:
    root = lay_out(tmp_path)
    forgets(root)
    deserialize = build_stages({})[1]

    def ask(answers: Answers) -> Verdict:
        now = answers.give("clock", "now", lambda: NOW)
        return ask_stage(local(root), deserialize, now=now).verdict

    assert ask(Answers()) is UNSAFE, "a day later the table has forgotten the batch in flight"
    assert find_broken(ask, None)[1] == []
