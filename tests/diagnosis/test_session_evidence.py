"""The same answers through a session's SQL as from the files: what serves tables whose files nobody may open."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.facts.checkpoint.positions import DeltaPosition
from surestart.facts.checkpoint.snapshot import CheckpointSource
from surestart.facts.delta import read_delta_log
from surestart.facts.evidence import session_evidence
from surestart.facts.evidence.session_evidence import read_sinks_by_session, read_source_by_session, table_sql
from surestart.facts.evidence.sink_evidence import HISTORY, sink_missing
from surestart.facts.evidence.source_evidence import NextRead, read_delta_source
from surestart.verdict.acceptance import NextBatch, diagnose_acceptance
from surestart.verdict.delta_source_findings import find_delta_source
from surestart.words.finding import Acceptance
from surestart.words.next_commands import Commands
from tests.deltalog.make_tables import APP_ID, ARCHIVE, BATCHES
from tests.diagnosis.stage_values import NOW, stage


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tables")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("classic/")])
    return str(folder / "classic")


@pytest.mark.parametrize(
    ("batch", "expected"),
    [(BATCHES, Acceptance.ACCEPTS), (BATCHES - 2, Acceptance.SKIPS)],
)
def test_the_session_answers_for_a_sink_as_its_files_do(
    spark: SparkSession, table: str, batch: int, expected: Acceptance
) -> None:
    sink = SinkDeclaration("delta-append", table, table)

    evidence = read_sinks_by_session(spark, [sink])
    (answer,) = diagnose_acceptance(stage(sink), NextBatch(batch, APP_ID), evidence, NOW)

    assert answer.acceptance is expected
    assert answer.table_batch == BATCHES - 1
    assert evidence[table].has_rows


def test_the_session_answers_for_a_source_as_its_files_do(spark: SparkSession, table: str) -> None:
    source = SourceDeclaration("delta", table, table)
    table_id = read_delta_log(table).table_id
    for version in (1, 6, 7, 8, 9, 20):
        position = DeltaPosition(table_id, version, -1, False)
        span = NextRead(CheckpointSource("0", "delta", None, position), replayed=False)
        from_files = find_delta_source(source, span, read_delta_source(table, position), Commands("s"), 0)
        by_session = read_source_by_session(spark, source, version)
        asked = find_delta_source(source, span, by_session, Commands("s"), 0)
        assert [finding.code for finding in asked] == [finding.code for finding in from_files], version


def test_a_table_that_is_not_there_is_missing_and_not_unreadable(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "nowhere")

    sinks = read_sinks_by_session(spark, [SinkDeclaration("delta-append", path, path)])
    source = read_source_by_session(spark, SourceDeclaration("delta", "no_such_table"), None)

    assert not sinks[path].exists
    assert not source.exists


def test_a_table_that_the_session_does_not_know_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have another catalog than the query."""
    sink = SinkDeclaration("delta", "main.bronze.orders", "")
    monkeypatch.setattr(session_evidence, "_sink", lambda spark, sink: sink_missing(HISTORY))

    held = session_evidence.read_named_sinks([sink], object())["main.bronze.orders"]  # type: ignore[arg-type]

    assert held.exists
    assert "knows no table of that name" in held.problem
    assert session_evidence.read_named_sinks([SinkDeclaration("delta", "/t", "/t")], object()) == {}  # type: ignore[arg-type]


def test_names_are_quoted_part_by_part() -> None:
    assert table_sql("main.sensor.raw`x") == "`main`.`sensor`.`raw``x`"
    assert table_sql("ignored", "/a`b") == "delta.`/a``b`"
