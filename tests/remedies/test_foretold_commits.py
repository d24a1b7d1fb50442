"""A commit of its input table that a stage cannot read past is said by the doctor and by the gate before the start, and
by `explain` when it is named: with version, operation and time, and with a command that does not double rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.cli.main import main
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.runs.runner import run_stage
from surestart.words.finding import Severity
from tests.gate.tree_bytes import bytes_of


def test_deleted_and_restored_rows_are_foretold_by_doctor_gate_and_explain(
    spark: Any, stood: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    from surestart.cli.stage_answers import ask_stages

    raw = f"delta.`{stood.table('sensor_raw').path}`"
    before = spark.sql(f"DESCRIBE HISTORY {raw} LIMIT 1").collect()[0]["version"]
    spark.sql(f"DELETE FROM {raw}").collect()
    spark.sql(f"RESTORE TABLE {raw} TO VERSION AS OF {before}").collect()
    stages = {stage.name: stage for stage in build_stages({})}
    held = bytes_of(stood)

    (diagnosis,) = ask_stages(stood, (stages["deserialize"],))
    unsafe = [finding for finding in diagnosis.findings if finding.severity is Severity.UNSAFE]
    assert [finding.code for finding in unsafe] == ["SOURCE_ROWS_DELETED", "SOURCE_ROWS_RETURN"]
    assert re.search(rf"version {before + 1} \(DELETE, 20.+ UTC\)", unsafe[0].evidence)
    assert re.search(rf"version {before + 2} \(RESTORE, 20.+ UTC\)", unsafe[1].evidence)

    with pytest.raises(Refused) as refused:
        run_stage(spark, stood, stages["deserialize"])
    assert refused.value.code == "SOURCE_ROWS_DELETED"
    assert "plan replay deserialize" in str(refused.value.next)
    assert bytes_of(stood) == held

    assert main(["explain", "DELTA_SOURCE_IGNORE_DELETE", "--stage", "deserialize", "--root", stood.root]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"version {before + 1} (DELETE, " in shown
    assert f"version {before + 2} (RESTORE, " in shown
    assert f"Next: surestart plan replay deserialize -e local --root {stood.root} --from-output -o plan.json" in shown
    assert "Do not set ignoreDeletes" in shown


def test_explain_says_when_nothing_of_the_source_stops_the_stage_any_more(
    stood: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "DELTA_SCHEMA_CHANGED", "--stage", "merge-gold", "--root", stood.root]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "No unread commit of its source stops it now." in shown
    assert f"Next: surestart run merge-gold -e local --root {stood.root}" in shown


def test_explain_does_not_say_that_nothing_stops_a_stage_whose_position_it_cannot_read(
    spark: Any, stood: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    offsets = Path(stood.checkpoint("deserialize")) / "offsets"
    max(offsets.glob("[0-9]*"), key=lambda file: int(file.name)).write_bytes(b"")
    spark.sql(f"DELETE FROM delta.`{stood.table('sensor_raw').path}`").collect()
    assert main(["explain", "DELTA_SOURCE_IGNORE_DELETE", "--stage", "deserialize", "--root", stood.root]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "No unread commit of its source stops it now." not in shown
    assert "Next: surestart run" not in shown


def test_explain_of_a_stage_that_cannot_be_asked_stays_general(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "DELTA_SOURCE_IGNORE_DELETE", "--stage", "nowhere"]) == 0
    said = capsys.readouterr()
    assert "nowhere was not asked: no stage 'nowhere'" in said.err
    assert "In this stage" not in said.out
    assert "surestart plan replay nowhere --from-output" in said.out
