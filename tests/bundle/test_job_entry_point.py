"""A wheel task calls the entry point and drops what it returns: only an exception makes the run fail."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def entry_point() -> Any:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, name = scripts["surestart-job"].partition(":")
    return getattr(importlib.import_module(module), name)


def test_a_command_that_succeeds_returns_without_raising(capsys):
    assert entry_point()(["--version"]) is None
    assert capsys.readouterr().out.strip()


def test_a_refused_stage_makes_the_run_fail_with_the_exit_code_and_the_reason(capsys):
    arguments = ["run", "no-such-stage", "--env=dev", "--set=catalog=main", "--set=schema=dev_alice_sensor"]

    with pytest.raises(SystemExit) as raised:
        entry_point()(arguments)

    assert raised.value.code == 2
    assert "no-such-stage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--job-run-id=7", "--job-run-url=https://w/jobs/1/runs/7"], ("7", "https://w/jobs/1/runs/7")),
        (["--job-run-id=7", "--job-run-url=w.example.net/jobs/1/runs/7"], ("7", "https://w.example.net/jobs/1/runs/7")),
        # References that nobody filled in are no facts.
        (["--job-run-id={{job.run_id}}", "--job-run-url={{workspace.url}}/x"], (None, None)),
        (["--job-run-id="], (None, None)),
    ],
)
def test_the_job_run_is_told_to_the_history_and_not_to_the_command_line(words, facts):
    from surestart.history.describe_run import JOB_RUN, JOB_URL, read_process_facts
    from surestart.job import split_job_options

    arguments, found = split_job_options(["run", *words, "deserialize"])

    assert arguments == ["run", "deserialize"]
    assert (found.get(JOB_RUN), found.get(JOB_URL)) == facts
    told = read_process_facts(found)
    assert (told.job_run or None, told.job_url or None) == facts


def test_a_refusal_in_a_job_is_one_json_object_and_no_text(capsys):
    with pytest.raises(SystemExit) as raised:
        entry_point()(["run", "no-such-stage", "--env=dev", "--set=catalog=m", "--set=schema=s", "--log=json"])

    assert raised.value.code == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    told = json.loads(line)
    assert (told["event"], told["exit_code"]) == ("error", 2)
    assert "no-such-stage" in told["what"]
    assert said.out == ""


def test_the_package_started_as_a_module_exits_with_the_same_code():
    ended = subprocess.run(
        [sys.executable, "-m", "surestart", "run", "no-such-stage", "--env=dev"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.returncode == 2
