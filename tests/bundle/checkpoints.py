"""Which checkpoint paths a job's tasks own, read from the job as the bundle declares it.

    wheel task      run STAGE --env=E --set=checkpoint_root=R ...   ->  R/<pipeline>-STAGE, built by surestart itself
    notebook task   widgets environment, checkpoint_root, ...       ->  the same, the stage read from the notebook
    any task        a value named checkpoint_location, ..._path, ..._dir  ->  that value

A task that names a checkpoint root and runs no stage (a reset, a doctor) owns nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surestart.environment import environment_from_settings
from surestart.errors import UsageError
from tests.bundle.bundle_files import Bundle, Target

PIPELINE = "sensor"
_OWN = re.compile(r"checkpoint_?(?:location|path|dir)", re.I)
_STAGE_IN_NOTEBOOK = re.compile(r"""run_stage\(.*?stages\[["']([a-z-]+)["']\]""", re.S)


@dataclass(frozen=True)
class Use:
    """One task's claim on a path. settings: what the task hands to surestart."""

    task: str
    path: str
    stage: str
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Claims:
    """uses: (job, claim). refused: (job, what surestart says) where it would not start the stage at all."""

    uses: tuple[tuple[str, Use], ...]
    refused: tuple[tuple[str, str], ...]


def read_claims(bundle: Bundle, target: Target) -> Claims:
    uses: list[tuple[str, Use]] = []
    refused: list[tuple[str, str]] = []
    for key, job in target.jobs.items():
        try:
            uses += [(key, use) for use in checkpoints_of(job, bundle.root, target.folder_of("jobs", key))]
        except UsageError as error:
            refused.append((key, error.what))
    return Claims(tuple(uses), tuple(refused))


def checkpoints_of(job: Mapping[str, Any], root: Path, folder: str) -> Iterator[Use]:
    """Raises UsageError when surestart would refuse a path at run time."""
    for task in job.get("tasks") or []:
        key = str(task.get("task_key"))
        stage, settings = _stage_and_settings(task, job, root, folder)
        if stage:
            environment = environment_from_settings(settings.get("environment", ""), PIPELINE, settings, environ={})
            yield Use(key, environment.checkpoint(stage), stage, settings)
        for name, value in settings.items():
            if _OWN.fullmatch(name.rsplit(".", 1)[-1]):
                yield Use(key, value, "", settings)


def settings_of(task: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    """The named values a task receives, whichever way it receives them; job parameters win, as on Databricks."""
    wheel, notebook = task.get("python_wheel_task") or {}, task.get("notebook_task") or {}
    settings = dict(_options(wheel.get("parameters") or []))
    settings.update(wheel.get("named_parameters") or {})
    settings.update(notebook.get("base_parameters") or {})
    if notebook:
        settings.update({entry["name"]: entry.get("default", "") for entry in job.get("parameters") or []})
    return {name: str(value) for name, value in settings.items()}


def _options(parameters: list[str]) -> Iterator[tuple[str, str]]:
    words = iter(parameters)
    for word in words:
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        value = value if equals else next(words, "")
        if name == "set":
            name, _, value = value.partition("=")
        yield {"env": "environment", "e": "environment"}.get(name, name), value


def _stage_and_settings(task: Any, job: Any, root: Path, folder: str) -> tuple[str, dict[str, str]]:
    settings = settings_of(task, job)
    parameters = (task.get("python_wheel_task") or {}).get("parameters") or []
    if parameters[:1] == ["run"]:
        return parameters[1], settings
    notebook = (task.get("notebook_task") or {}).get("notebook_path")
    if notebook:
        return _stage_of_notebook((root / folder / notebook).resolve()), settings
    return "", settings


def _stage_of_notebook(path: Path) -> str:
    if path.suffix != ".ipynb" or not path.is_file():
        return ""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    found = _STAGE_IN_NOTEBOOK.search(code)
    return found.group(1) if found else ""
