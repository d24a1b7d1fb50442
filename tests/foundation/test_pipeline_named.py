"""Which pipeline the command line serves: the one that is named, and never one that merely happens to be installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from surestart.cli.main import main
from surestart.cli.pipelines import load_pipeline
from surestart.errors import UsageError
from tests.checkpoint.checkpoint_maker import make_checkpoint

ROOT = Path(__file__).resolve().parents[2]
OWN = """
from surestart import Pipeline
{} = Pipeline({!r}, lambda settings: ())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody's project; what it adds to the path is gone afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("SURESTART_PIPELINE", raising=False)
    place = tmp_path / "a project" / "below"
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    return place.parent


def name_in(folder: Path, line: str) -> None:
    (folder / "surestart.toml").write_text(line + "\n")


def test_the_file_above_names_a_module_beside_it(folder: Path) -> None:
    (folder / "named_above.py").write_text(OWN.format("MINE", "above"))
    name_in(folder, 'pipeline = "named_above:MINE"')

    assert load_pipeline().name == "above"


def test_an_option_comes_before_the_variable_and_that_before_the_file(folder: Path) -> None:
    for module in ("by_option", "by_variable"):
        (folder / "below" / f"{module}.py").write_text(OWN.format("P", module))
    name_in(folder, 'pipeline = "never_imported:P"')

    environ = {"SURESTART_PIPELINE": "by_variable:P"}
    assert load_pipeline(None, environ).name == "by_variable"
    assert load_pipeline("by_option:P", environ).name == "by_option"


@pytest.mark.parametrize("line", [None, "", 'history = "/h"'])
@pytest.mark.parametrize("command", [["status"], ["doctor"], ["run", "all"], ["plan", "reset", "raw-ingest"]])
def test_without_a_name_every_command_that_needs_one_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str], command: list[str], line: str | None
) -> None:
    if line is not None:
        name_in(folder, line)
    before = sorted(folder.rglob("*"))

    assert main(command) == 2

    shown = capsys.readouterr()
    assert shown.err.startswith("NoPipelineKnown: no pipeline is known here: ")
    assert (f"{folder / 'surestart.toml'} names none" if line is not None else "no surestart.toml in ") in shown.err
    assert "Next: surestart status --pipeline your_package.stages:PIPELINE" in shown.err
    assert "Do not: " in shown.err
    assert (shown.out, sorted(folder.rglob("*"))) == ("", before)


@pytest.mark.parametrize("spec", ["sensor", ":PIPELINE", "sensor_pipeline.stages:", "sensor_pipeline.stages:SETTINGS"])
def test_what_names_no_pipeline_is_refused(folder: Path, spec: str) -> None:
    name_in(folder, f'pipeline = "{spec}"')
    with pytest.raises(UsageError, match=r"is not module:attribute|not a surestart\.Pipeline"):
        load_pipeline()


def test_the_wheel_alone_knows_no_pipeline_and_inspects_any_checkpoint(tmp_path: Path) -> None:
    """Built and installed by uv from what it has at hand, without any other package."""
    uv, environ = str(ROOT / ".venv/.uv/bin/uv"), {**os.environ, "UV_OFFLINE": "1"}
    environ.pop("PYTHONPATH", None)
    environ.pop("SURESTART_PIPELINE", None)
    fresh = tmp_path / "fresh"
    for command in (
        [uv, "build", "-q", "--wheel", "-o", str(tmp_path / "dist"), str(ROOT)],
        [uv, "venv", "-q", "--python", sys.executable, str(fresh)],
    ):
        subprocess.run(command, env=environ, check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    install = [uv, "pip", "install", "-q", "--python", str(fresh / "bin/python"), "--no-deps", str(wheel)]
    subprocess.run(install, env=environ, check=True)
    make_checkpoint(tmp_path / "ck")

    def typed(*words: str) -> tuple[int, str]:
        command = [str(fresh / "bin/surestart"), *words]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    code, shown = typed("status")
    assert (code, "NoPipelineKnown" in shown) == (2, True), shown
    assert typed("inspect", "ck", "--sink", "none")[0] == 0
    # It is there, for whoever names it.
    assert typed("status", "--pipeline", "sensor_pipeline.stages:PIPELINE")[0] == 0


@pytest.mark.parametrize("code", ["import sys; sys.exit(0)", "raise RuntimeError('not today')", "def (:", "1 / 0"])
def test_a_pipeline_that_fails_while_it_is_imported_is_no_safe_one(folder: Path, code: str) -> None:
    """Seen: a module that called sys.exit() ended the doctor with exit code 0."""
    module = f"broken_{abs(hash(code))}"
    (folder / f"{module}.py").write_text(code + "\n")
    name_in(folder, f'pipeline = "{module}:PIPELINE"')
    with pytest.raises(UsageError, match="cannot be imported: "):
        load_pipeline()
