"""The command line on the twin, as a person has it in a terminal of Databricks: one verb after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from surestart.cli.main import main
from surestart.environment import Environment
from tests.remedies.remedy import SETTINGS, assert_exact, contents, land_more
from tests.serverless.conftest import on_the_twin

pytestmark = [
    pytest.mark.serverless,
    pytest.mark.skipif(not on_the_twin(), reason="no twin: run by make test-serverless"),
    pytest.mark.usefixtures("checkpoints_on_volumes"),
]


def test_doctor_plan_apply_verify_undo_and_run(
    spark: Any, stood: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, before = str(tmp_path / "plan.json"), contents(spark, stood)
    place = ["-e", "local", "--root", stood.root]
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]

    def said(*words: str) -> tuple[int, str]:
        code = main([*words, *place])
        return code, "".join(capsys.readouterr())

    assert said("doctor")[0] == 0
    assert said("plan", "resume", "merge-gold", *settings)[0] == 0
    planned = said("plan", "replay", "merge-gold", "--from-batch", "0", "--jobs", "none", "-o", file, *settings)
    assert planned[0] == 0, planned
    assert contents(spark, stood) == before
    refused = said("apply", file)
    assert refused[0] == 2, refused
    applied = said("apply", file, "--confirm", "local/sensor-merge-gold")
    assert applied[0] == 0, applied
    assert "is applied" in applied[1]
    assert said("verify")[0] == 0
    assert "replay" in said("history")[1]

    undone = said("undo", file, "--confirm", "local/sensor-merge-gold")
    assert undone[0] == 0, undone
    assert contents(spark, stood) == before
    land_more(stood)
    ran = said("run", "all", *settings)
    assert ran[0] == 0, ran
    assert_exact(stood)
    assert said("doctor")[0] == 0
