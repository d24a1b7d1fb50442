"""What nobody foresaw has a code of its own, four parts and no traceback; what is not installed says how to get it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import surestart.cli.explain
import surestart.cli.run
from surestart import job
from surestart.cli.main import VERBS, build_parser, main
from surestart.errors import CannotTell, StoppedHalfway
from surestart.history.describe_run import JOB_RUN

SOURCES = Path(__file__).parents[2] / "src"
PIPELINE = "sensor_pipeline.stages:PIPELINE"
DATABASE = "postgresql://reader@127.0.0.1:1/none"


def bare(*arguments: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line in a Python without any package, as `pip install surestart` alone leaves it."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(SOURCES), **variables}
    # -S: no site-packages.
    command = [sys.executable, "-S", "-m", "surestart", *arguments]
    return subprocess.run(command, env=environ, cwd=home, capture_output=True, text=True, check=False, timeout=60)


COMMANDS = {
    "run": ("run", "all"),
    "status": ("status",),
    "doctor": ("doctor",),
    "doctor, Kafka": ("doctor", "--source", "kafka", "--bootstrap", "127.0.0.1:1", "--topic", "readings"),
    "history": ("history",),
    "plan": ("plan", "reset", "raw-ingest"),
    "plan replay": ("plan", "replay", "raw-ingest", "--from-output", "-o", "plan.json"),
    "plan backfill": ("plan", "backfill", "raw-ingest"),
    "verify": ("verify",),
    "verify, tables": ("verify", "--no-source"),
    "undo": ("undo", "0123456789ab"),
    "prune": ("prune",),
    "kafka": ("kafka", "start"),
    "inspect": ("inspect", "."),
    "state": ("state", "."),
    "adopt": ("adopt", "--checkpoints", "."),
    "inspect, S3": ("inspect", "s3://bucket/checkpoint"),
    "inspect, Azure": ("inspect", "abfss://c@account.dfs.core.windows.net/checkpoint"),
    "inspect, Google": ("inspect", "gs://bucket/checkpoint"),
    "inspect, volume": ("inspect", "/Volumes/a/b/c"),
    "inspect, ledger": ("inspect", ".", "--sink", "postgres:public.gold"),
    "explain": ("explain", "java.lang.IllegalStateException: batch 1 doesn't exist"),
}
# What a missing package leaves without an answer.
NEED = {
    "run": "pyspark",
    "plan": "pyspark",
    "plan replay": "pyspark",
    "plan backfill": "pyspark",
    "verify": "pyspark",
    "verify, tables": "pyspark",
    "undo": "pyspark",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_without_any_package(name: str, tmp_path: Path) -> None:
    arguments = COMMANDS[name]
    takes_place = any("--root" in action.option_strings for action in verb_options(arguments[0]))
    place = ("--root", str(tmp_path / "root"), "--pipeline", PIPELINE) if takes_place else ()
    done = bare(*arguments, *place, home=tmp_path, SURESTART_POSTGRES_URL=DATABASE)

    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode != 6, done.stderr
    if name in NEED:
        assert done.returncode == 2, done.stderr
        assert f"{NEED[name]} is not installed in this environment" in done.stderr
        assert f"Next: {sys.executable} -m pip install " in done.stderr
        assert "  # what the extra surestart[local] brings" in done.stderr
    assert not (tmp_path / "root").exists()


def verb_options(verb: str) -> list:
    (commands,) = [action for action in build_parser(verb)._actions if action.dest == "verb"]
    return commands.choices[verb]._actions


def test_all_verbs_are_among_them() -> None:
    # apply needs a plan's file, which only pyspark can make.
    assert {arguments[0] for arguments in COMMANDS.values()} == set(VERBS) - {"apply"}


def boom(args: object) -> int:
    raise KeyError("7; password=hunter22")


def test_an_unexpected_error_has_its_own_code_and_four_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(surestart.cli.explain, "run", boom)

    assert main(["explain", "it's broken"]) == 6
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["UnexpectedError", "Meaning", "Next", "Do not"]
    assert lines[0].startswith("UnexpectedError: KeyError in ")
    assert "hunter22" not in lines[0]
    assert lines[2] == """Next: surestart --traceback explain 'it'"'"'s broken'"""

    assert main(["--traceback", "explain", "it's broken"]) == 6
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert "hunter22" not in shown
    assert shown.splitlines()[-2] == lines[2]


def test_a_job_fails_with_it_and_its_log_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(surestart.cli.explain, "run", boom)
    # A job's program sets it for its process; here that is the process of the tests that follow.
    monkeypatch.setenv(JOB_RUN, "")
    with pytest.raises(SystemExit) as ended:
        job.main(["explain", "x", "--job-run-id=7"])
    assert ended.value.code == 6
    assert capsys.readouterr().err.startswith("Traceback")

    def late(args: object, lines: object) -> int:
        raise KeyError("7")

    monkeypatch.setattr(surestart.cli.run, "_run", late)
    with pytest.raises(SystemExit) as ended:
        job.main(["run", "all", "--log=json"])
    assert ended.value.code == 6
    (line,) = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    assert (said["event"], said["code"], said["exit_code"]) == ("error", "UnexpectedError", 6)
    assert "in late" in said["traceback"]


def test_an_error_in_four_parts_over_another_ones_has_that_ones_traceback_in_a_jobs_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stops(args: object, lines: object = None) -> int:
        try:
            raise KeyError("7")
        except KeyError as cause:
            raise StoppedHalfway("it stopped", meaning="x", next="y") from cause

    monkeypatch.setattr(surestart.cli.explain, "run", stops)
    assert main(["explain", "x"]) == StoppedHalfway.exit_code
    assert "Traceback" not in capsys.readouterr().err
    with pytest.raises(SystemExit):
        job.main(["explain", "x"])
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert "KeyError: '7'" in shown
    assert "StoppedHalfway: it stopped\nMeaning: x\n" in shown

    monkeypatch.setattr(surestart.cli.run, "_run", stops)
    with pytest.raises(SystemExit):
        job.main(["run", "all", "--log=json"])
    (line,) = capsys.readouterr().err.splitlines()
    assert "KeyError: '7'" in json.loads(line)["traceback"]


class Mute(Exception):
    """As Spark's own errors are once their JVM has gone."""

    def __str__(self) -> str:
        raise ConnectionRefusedError

    getCondition = __str__


class NoException(BaseException):
    """Of a library's own, such as asyncio's CancelledError."""


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (SystemExit(0), "SystemExit(0)"),
        (SystemExit("gone"), "SystemExit('gone')"),
        (NoException("x"), "NoException"),
        (BaseExceptionGroup("many", [NoException("x")]), "BaseExceptionGroup"),
        (Mute(), "Mute"),
        (BrokenPipeError(), "BrokenPipeError"),
    ],
    ids=["exit 0", "exit text", "no Exception", "group", "mute", "another one's pipe"],
)
def test_nothing_that_code_raises_ends_a_job_as_a_verdict_or_a_success(
    raised: BaseException, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def leaves(args: object, lines: object = None) -> int:
        raise raised

    monkeypatch.setattr(surestart.cli.explain, "run", leaves)
    assert main(["explain", "x"]) == 6
    assert says in capsys.readouterr().err.splitlines()[0]
    monkeypatch.setattr(surestart.cli.run, "_run", leaves)
    with pytest.raises(SystemExit) as ended:
        job.main(["run", "all", "--log=json"])
    assert ended.value.code == 6
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["code"], says.partition("(")[0] in told["what"]) == ("UnexpectedError", True)
    assert "in leaves" in told["traceback"]


def test_an_error_of_sparks_own_without_its_jvm_is_said_in_four_parts() -> None:
    from surestart.words.unexpected import as_unexpected

    Mute.__module__ = "pyspark.errors"
    try:
        said = as_unexpected(Mute(), ("run", "all"))
    finally:
        Mute.__module__ = __name__
    assert (said.code, said.exit_code) == ("SparkError", 4)
    assert "its text cannot be had: ConnectionRefusedError" in said.what


def test_output_that_nobody_took_is_no_safe_verdict() -> None:
    wait = "import sys, time; time.sleep(1); from surestart.cli.main import main"
    late = f"{wait}; sys.exit(main(['explain', '--codes']))"
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "{late}" | true; echo ${{PIPESTATUS[0]}}'],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout.strip(), done.stderr) == ("130", "")


def test_memory_that_is_not_there_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(args: object) -> int:
        raise MemoryError

    monkeypatch.setattr(surestart.cli.explain, "run", full)
    assert main(["explain", "x"]) == 4
    assert capsys.readouterr().err.startswith("MemoryUsedUp: ")


def test_names_that_no_terminal_can_show(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe2"))
    (odd / "offsets").mkdir(parents=True)
    for encoding in ("ascii", "utf-8"):
        done = subprocess.run(
            [sys.executable, "-m", "surestart", "inspect", odd, "--sink", "none"],
            env={**os.environ, "PYTHONIOENCODING": encoding},
            capture_output=True,
            check=False,
        )
        assert done.returncode in (1, 3, 4), done.stderr
        assert b"Traceback" not in done.stderr


def test_an_error_of_sparks_own_is_named_and_is_no_fault_of_surestart() -> None:
    from pyspark.errors import AnalysisException

    from surestart.words.unexpected import as_unexpected

    refusal = AnalysisException(errorClass="CANNOT_PARSE_DATATYPE", messageParameters={"msg": "x"})
    said = as_unexpected(refusal, ("run", "all"))
    assert (said.code, said.exit_code) == ("SparkError", 4)
    assert "pyspark.errors.exceptions.base.AnalysisException, CANNOT_PARSE_DATATYPE" in said.what
    assert str(said.next) == "surestart explain CANNOT_PARSE_DATATYPE"


def test_a_job_logs_where_an_error_arose_that_is_said_in_four_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        try:
            raise ZeroDivisionError("the cause")
        except ZeroDivisionError as cause:
            raise CannotTell("what", meaning="meaning", next="surestart status") from cause

    monkeypatch.setattr(surestart.cli.explain, "run", fail)
    with pytest.raises(SystemExit):
        job.main(["explain", "x"])
    logged = capsys.readouterr().err
    assert "ZeroDivisionError: the cause" in logged
    assert logged.rstrip().endswith("Next: surestart status")
    assert main(["explain", "x"]) == 4
    assert "ZeroDivisionError" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("inspect", "relative"), ("doctor",), ("explain", "x")])
def test_a_folder_that_was_removed_under_the_shell_is_named(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    call = f"cd gone && rmdir ../gone && exec {sys.executable} -S -m surestart {' '.join(arguments)}"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(
        ["bash", "-c", call], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr.partition(":")[0]) == (2, "WorkingFolderGone")
