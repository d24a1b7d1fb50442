"""Jobs and notebooks on the twin, called as the bundle calls them: tables of a catalog, checkpoints below /Volumes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from surestart.environment import Environment, environment_from_settings
from surestart.remedies.apply.stored_plans import plans_folder
from tests.foundation.rows import account, land
from tests.notebooks.notebook_kernel import NotebookKernel, running_kernel, text_of
from tests.serverless import twin
from tests.serverless.conftest import on_the_twin

pytestmark = [
    pytest.mark.serverless,
    pytest.mark.skipif(not on_the_twin(), reason="no twin: run by make test-serverless"),
]
RESOURCES = Path(__file__).parents[2] / "resources"
STAGES = ("raw-ingest", "deserialize", "merge-gold")


@dataclass(frozen=True)
class Workspace:
    """schema: in the catalog that Spark has; files: the same places as paths, for a count without Spark."""

    schema: str
    volumes: Path
    files: Environment

    @property
    def variables(self) -> Mapping[str, str]:
        """What the bundle's references stand for."""
        return {
            "var.environment": "dev",
            "var.catalog": "spark_catalog",
            "resources.schemas.sensor.name": self.schema,
            "resources.volumes.checkpoints.volume_path": f"{self.volumes}/checkpoints",
            "resources.volumes.landing.volume_path": f"{self.volumes}/landing",
            "var.source": "files",
            "var.format": "json",
            "job.run_id": "7001",
            "job.id": "12",
            "workspace.url": "workspace.example.com",
            "task.name": "stage",
            "task.execution_count": "1",
        }

    def filled_in(self, text: str) -> str:
        return re.sub(r"\$?\{\{?([\w.]+)\}?\}", lambda found: self.variables.get(found[1], ""), text)


@pytest.fixture
def workspace(spark: Any, tmp_path: Path, volumes: Path) -> Workspace:
    schema = f"sensor_{tmp_path.name.rpartition('_')[0][-20:]}"
    spark.sql(f"CREATE SCHEMA spark_catalog.{schema}").collect()
    tables = Path(os.environ[twin.FOLDER]) / "warehouse" / f"{schema}.db"
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "tables").symlink_to(tables)
    places = {"root": str(tmp_path / "root"), "checkpoint_root": f"{volumes}/checkpoints"}
    files = environment_from_settings("dev", "sensor", {**places, "landing": f"{volumes}/landing"}, environ={})
    return Workspace(schema, volumes, files)


def job_of(name: str) -> Any:
    name = f"sensor_{name.replace('-', '_')}"
    return yaml.safe_load((RESOURCES / f"{name}.job.yml").read_text())["resources"]["jobs"][name]


def call_job(stage: str, workspace: Workspace) -> tuple[int, list[dict[str, Any]]]:
    """The wheel task of the stage with the arguments of its file; its exit code and what it logged."""
    (task,) = job_of(stage)["tasks"]
    given = [workspace.filled_in(word) for word in task["python_wheel_task"]["parameters"]]
    entry = ["-c", "from surestart.job import main; main()"]
    done = subprocess.run([sys.executable, *entry, *given], capture_output=True, text=True, check=False, timeout=400)
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert lines, done.stderr
    return done.returncode, lines


def test_the_jobs_bring_every_row_to_gold_and_a_second_night_goes_on(workspace: Workspace) -> None:
    for _ in range(2):
        land(workspace.files, 40)
        for stage in STAGES:
            code, lines = call_job(stage, workspace)
            assert code == 0, lines
            batches = [line for line in lines if line["event"] == "batch"]
            assert [line["rows"] for line in batches] == ([40] if stage != "merge-gold" else [batches[0]["rows"]])
            assert batches[0]["rows"] > 0
        assert account(workspace.files).is_exact


def test_a_job_killed_behind_its_merge_goes_on_and_says_so(
    workspace: Workspace, worker_with: Callable[..., None]
) -> None:
    land(workspace.files, 40)
    for stage in STAGES:
        worker_with(SURESTART_FAILPOINT="merge.before_pair:1")
        code, lines = call_job(stage, workspace)
        worker_with()
        assert code == (5 if stage == "merge-gold" else 0), lines
    assert call_job("merge-gold", workspace)[0] == 0
    assert account(workspace.files).is_exact


def test_an_error_of_sparks_own_ends_in_four_parts_with_its_traceback(
    workspace: Workspace, spark: Any, worker_with: Callable[..., None]
) -> None:
    spark.sql(f"DROP SCHEMA spark_catalog.{workspace.schema}").collect()
    land(workspace.files, 10)
    code, lines = call_job("raw-ingest", workspace)
    error = lines[-1]
    assert code != 0
    assert error["event"] == "error"
    assert all(error[part] for part in ("code", "what", "meaning", "next", "do_not"))
    assert "SCHEMA_NOT_FOUND" in error["what"]
    assert "Traceback" in error["traceback"]


def test_the_notebooks_do_the_same_by_hand(workspace: Workspace, tmp_path: Path) -> None:
    land(workspace.files, 40)
    widgets = {"environment": "dev", "catalog": "spark_catalog", "schema": workspace.schema}
    with kernel_of(workspace, tmp_path) as kernel:
        shown = [run_notebook(kernel, name, widgets) for name in NOTEBOOKS]
    assert "<td>40</td>" in shown[0]
    assert account(workspace.files).is_exact
    assert all(f"sensor-{stage}" in shown[3] for stage in STAGES)


def test_a_remedy_is_planned_applied_and_undone_by_the_notebook_of_its_job(
    workspace: Workspace, tmp_path: Path
) -> None:
    land(workspace.files, 40)
    for stage in STAGES:
        assert call_job(stage, workspace)[0] == 0
    job = job_of("reset")
    (task,) = job["tasks"]
    given = {name: workspace.filled_in(text) for name, text in task["notebook_task"]["base_parameters"].items()}
    given |= {one["name"]: one["default"] for one in job["parameters"]}
    # No Jobs API answers here, so the plan is told to ask none.
    given |= {"stage": "merge-gold", "remedy": "replay", "options": "--from-batch 0 --jobs none"}
    with kernel_of(workspace, tmp_path) as kernel:
        run_notebook(kernel, "05_reset.ipynb", given)
        (plan,) = plans_folder(workspace.files).glob("*.json")
        applied = run_notebook(kernel, "05_reset.ipynb", {**given, "mode": "apply", "digest": plan.stem})
        assert "exact, lost 0" in applied
        assert account(workspace.files).is_exact
        undone = run_notebook(kernel, "05_reset.ipynb", {**given, "mode": "undo", "digest": plan.stem})
        assert "Applied, and undone" in undone
    land(workspace.files, 20)
    for stage in STAGES:
        assert call_job(stage, workspace)[0] == 0
    assert account(workspace.files).is_exact


NOTEBOOKS = ("01_raw_ingest.ipynb", "02_deserialize.ipynb", "03_merge_gold.ipynb", "04_explore_checkpoints.ipynb")
# What a notebook on Databricks finds: widgets that somebody has filled in, and a way to show a page.
AS_ON_DATABRICKS = """
class Widgets:
    def __init__(self, filled):
        self.values = filled
    def text(self, name, default, label=""):
        self.values.setdefault(name, default)
    def dropdown(self, name, default, choices, label=""):
        self.values.setdefault(name, default)
    def get(self, name):
        return self.values[name]

class dbutils:
    widgets = Widgets({widgets!r})

displayHTML = print
"""


def kernel_of(workspace: Workspace, folder: Path) -> AbstractContextManager[NotebookKernel]:
    root = {"SURESTART_CHECKPOINT_ROOT": f"{workspace.volumes}/checkpoints"}
    return running_kernel(folder, {**root, "SURESTART_LANDING": f"{workspace.volumes}/landing"})


def run_notebook(kernel: NotebookKernel, name: str, widgets: Mapping[str, str]) -> str:
    """What a reader sees below its cells."""
    return text_of(kernel.run(name, AS_ON_DATABRICKS.format(widgets=dict(widgets))))
