"""A wheel task calls the entry point and drops what it returns: only an exception makes the run fail."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def entry_point():
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


def test_the_package_started_as_a_module_exits_with_the_same_code():
    ended = subprocess.run(
        [sys.executable, "-m", "surestart", "run", "no-such-stage", "--env=dev"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.returncode == 2
