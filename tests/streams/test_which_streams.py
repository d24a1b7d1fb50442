"""A file with a pipeline and streams: a name is found in either, and without one both are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from surestart.cli.main import main
from tests.diagnosis.environment_by_hand import lay_out
from tests.diagnosis.stage_values import write_checkpoint
from tests.typed.typeable import faults_of

PIPELINE = "sensor_pipeline.stages:PIPELINE"


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SURESTART_PIPELINE", raising=False)
    monkeypatch.chdir(tmp_path)
    lay_out(tmp_path / ".surestart" / "local")
    checkpoint = write_checkpoint(tmp_path / "chk", planned=2, committed=2, offset='{"in":{"0":3}}')
    text = f"pipeline = '{PIPELINE}'\n[stream.orders]\ncheckpoint = '{checkpoint}'\nsink = {{ kafka = 'out' }}\n"
    (tmp_path / "surestart.toml").write_text(text)
    return tmp_path


@pytest.mark.parametrize("verb", ["doctor", "status", "history"])
def test_without_a_name_both_are_shown(both: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code = main([verb])
    out = capsys.readouterr().out

    assert code == (4 if verb == "doctor" else 0)
    assert "orders" in out or verb == "history"
    assert "sensor" in out
    assert "streams" in out


@pytest.mark.parametrize(("name", "shown"), [("orders", "orders"), ("raw-ingest", "sensor_raw")])
def test_a_name_is_found_in_either(both: Path, capsys: pytest.CaptureFixture[str], name: str, shown: str) -> None:
    main(["doctor", name])
    out = capsys.readouterr().out

    assert shown in out
    assert ("sensor_raw" in out) == (name == "raw-ingest")


def test_every_next_command_of_a_declared_stream_names_its_file(both: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "orders"])
    said = [line.partition("surestart ")[2] for line in capsys.readouterr().out.splitlines() if "surestart " in line]
    commands = [f"surestart {one}" for one in said if " -e " in one]

    assert commands
    assert all(f"--streams {both}/surestart.toml" in one for one in commands)
    assert [fault for one in commands for fault in faults_of(one)] == []
    assert not any(one.split()[1:3] in (["plan", "reset"], ["plan", "replay"]) for one in commands)


def test_a_name_in_both_is_refused_and_one_file_is_about_one(both: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = both / "surestart.toml"
    path.write_text(path.read_text().replace("stream.orders", "stream.raw-ingest"))

    assert main(["doctor", "raw-ingest"]) == 2
    assert "is a stage of" in capsys.readouterr().err
    assert main(["status", "--json"]) == 2
    assert "PipelineOrStreams" in capsys.readouterr().err
    assert main(["status", "--json", "--streams", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)


def test_streams_are_judged_where_the_code_of_the_pipeline_is_not(
    both: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = both / "surestart.toml"
    path.write_text(path.read_text().replace(PIPELINE, "not_here:PIPELINE"))

    assert main(["doctor", "orders"]) == 4
    assert "orders" in capsys.readouterr().out


def test_an_error_is_explained_for_a_declared_stream(both: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain", "DELTA_SOURCE_TABLE_IGNORE_CHANGES", "--stage", "orders"])
    out = capsys.readouterr().out

    assert "surestart plan reset" not in out
    assert "surestart plan replay" not in out
    assert "surestart run" not in out
