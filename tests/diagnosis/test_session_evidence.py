"""The same answers through a session's SQL as from the files: what serves tables whose files nobody may open."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.facts.checkpoint.positions import DeltaPosition
from surestart.facts.checkpoint.snapshot import Source
from surestart.facts.delta import read_delta_log
from surestart.facts.evidence.session_evidence import read_sinks_by_session, read_source_by_session, table_sql
from surestart.facts.evidence.sink_evidence import HISTORY
from surestart.facts.evidence.source_evidence import Span, read_delta_source
from surestart.verdict.acceptance import NextBatch, diagnose_acceptance
from surestart.verdict.delta_source_findings import find_delta_source
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Acceptance, Verdict
from surestart.words.next_commands import Commands
from tests.checkpoint.checkpoint_maker import make_checkpoint
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
        span = Span(Source("0", "delta", None, position), replayed=False)
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


def test_a_table_known_by_name_is_asked_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "ck")
    for _ in range(2):
        writer = spark.range(5).write.format("delta").mode("append").option("path", str(tmp_path / "t"))
        writer.saveAsTable("named_sink")
    try:
        found = {
            name: inspect_checkpoint(str(tmp_path / "ck"), sinks=(f"delta:default.{name}",), session=spark)
            for name in ("named_sink", "no_such_sink")
        }
    finally:
        spark.sql("DROP TABLE named_sink")

    held = found["named_sink"].sink_evidence["default.named_sink"]
    assert (held.source, held.latest_version, held.problem) == (HISTORY, 1, "")
    # It may have another catalog than the query.
    assert found["no_such_sink"].verdict is Verdict.CANNOT_TELL
    assert "knows no table of that name" in found["no_such_sink"].sink_evidence["default.no_such_sink"].problem


def test_names_are_quoted_part_by_part() -> None:
    assert table_sql("main.sensor.raw`x") == "`main`.`sensor`.`raw``x`"
    assert table_sql("ignored", "/a`b") == "delta.`/a``b`"
