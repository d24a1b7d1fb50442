"""`surestart run` from its first line to its closing screen, on the shared session."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.simulate import write_files
from sensor_pipeline.stages import build_stages
from surestart.cli.doctor import given_options
from surestart.cli.main import build_parser, main
from surestart.environment import Environment, environment_from_settings
from surestart.errors import UsageError
from surestart.history.describe_run import named
from surestart.runs.runner import StageFailed, run_stage
from tests.foundation.rows import land

pytestmark = pytest.mark.usefixtures("classic_only")


def run(root: Path, capsys: pytest.CaptureFixture[str], stage: str = "all") -> tuple[int, dict[str, int], str]:
    """(exit code, the closing table, all of the screen)."""
    code = main(["run", stage, "--root", str(root), "--set", "readings=2000"])
    screen = capsys.readouterr().out
    table = {}
    for line in screen.splitlines():
        name, _, number = line.strip().rpartition("  ")
        if number.replace(",", "").isdecimal():
            table[name.strip()] = int(number.replace(",", ""))
    return code, table, screen


def next_of(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("Next: ")).removeprefix("Next: ")


def test_a_first_run_a_second_one_and_what_is_new(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "a root"

    code, table, screen = run(root, capsys)
    assert code == 0
    assert list(table) == [
        "readings produced", "raw", "deserialized", "quarantined", "gold", "lost", "duplicated"
    ]  # fmt: skip
    assert (table["readings produced"], table["raw"], table["lost"], table["duplicated"]) == (2000, 2000, 0, 0)
    assert table["deserialized"] + table["quarantined"] == 2000
    assert "FAULT" not in screen
    words = shlex.split(next_of(screen))
    args = build_parser("status").parse_args(words[words.index("status") :])
    assert (args.env, args.root) == ("local", str(root))

    code, again, screen = run(root, capsys)
    assert (code, again) == (0, table)
    assert "Nothing new since the last run." in screen

    write_files(root / "landing", root / "truth.json", 100)
    code, more, screen = run(root, capsys)
    assert (code, more["readings produced"], more["raw"], more["lost"]) == (0, 2100, 2100, 0)
    assert "Only what is new was processed: 100 records came in." in screen

    write_files(root / "landing", root / "truth.json", 50)
    code, one, screen = run(root, capsys, "raw-ingest")
    assert (code, one) == (0, {"readings produced": 2150, "raw": 2150, "lost": 0, "duplicated": 0})
    assert "Not counted, because the run ended with raw-ingest: deserialized, quarantined, gold." in screen

    code, _, screen = run(root, capsys, "merge-gold")
    assert (code, "in raw, not read yet: 50" in screen) == (0, True)


def test_a_refused_run_makes_no_data(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    spark.range(3).write.format("delta").save(environment.table("sensor_raw").path)

    assert main(["run", "all", "--root", str(tmp_path)]) == 3

    assert "foreign schema" in capsys.readouterr().err
    assert not (tmp_path / "landing").exists()


def test_what_a_failed_stage_says_next_names_its_place(spark: Any, environment: Environment, tmp_path: Path) -> None:
    """Another folder for checkpoints, and another root than the one that a command without options means."""
    from dataclasses import replace

    land(environment, 10)
    place = replace(environment, checkpoint_root=str(tmp_path / "other checkpoints"))
    raw = build_stages({})[0]

    with pytest.raises(StageFailed) as failed:
        run_stage(spark, place, replace(raw, transform=lambda rows: rows.withColumn("payload", broken())))

    words = shlex.split(str(failed.value.next))
    assert words[:2] == ["surestart", "explain"]
    args = build_parser("explain").parse_args(words[1:])
    assert (args.stage, args.env, args.root) == ("raw-ingest", "local", environment.root)
    assert args.set == [f"checkpoint_root={tmp_path / 'other checkpoints'}"]


def broken() -> Any:
    from pyspark.sql import functions as F

    return F.raise_error(F.lit("the sensor is on fire")).cast("binary")


def test_options_of_a_place_bring_a_command_to_the_same_place(tmp_path: Path) -> None:
    for settings in (
        {"root": str(tmp_path / "a b")},
        {"root": str(tmp_path), "landing": "/elsewhere/landing", "checkpoint_root": "/elsewhere/ck"},
        {"catalog": "main", "schema": "sensor"},
        {"catalog": "main", "schema": "sensor", "checkpoint_root": "/Volumes/main/other/ck"},
    ):
        environment = environment_from_settings("dev", "sensor", settings, environ={})

        args = build_parser("status").parse_args(("status", *named(environment).words))

        given = dict(pair.split("=", 1) for pair in args.set) | ({"root": args.root} if args.root else {})
        assert environment_from_settings(args.env, "sensor", given, environ={}) == environment
        assert set(given_options(args)) <= set(named(environment).words)


def test_a_name_that_two_stages_share_is_refused_side_by_side(spark: Any, environment: Environment) -> None:
    from surestart.runs.runner import processing_time, run_stages

    raw = build_stages({})[0]

    with pytest.raises(UsageError, match="used by two queries of the name sensor-raw-ingest"):
        run_stages(spark, environment, [raw, raw], trigger=processing_time("1 seconds"))
