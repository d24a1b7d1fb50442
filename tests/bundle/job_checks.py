"""Checks of jobs as one target deploys them: schedules, references between tasks, files, the wheel, alarms.

Each yields (where, text); nothing here looks at checkpoints.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sensor_pipeline.stages import PIPELINE
from surestart.spark.spark_lines import find_line
from tests.bundle.bundle_files import Bundle, Target
from tests.bundle.checkpoints import settings_of
from tests.bundle.quartz import faults_of

Found = Iterator[tuple[str, str]]


def _undefined(bundle: Bundle, target: Target) -> Found:
    yield from ((where, f"{reference} leads nowhere") for where, reference in target.undefined)


def _schedule(bundle: Bundle, target: Target) -> Found:
    for key, job in target.jobs.items():
        triggers = [name for name in ("schedule", "continuous", "trigger") if job.get(name)]
        if len(triggers) > 1:
            yield key, f"has {' and '.join(triggers)}"
        schedule = job.get("schedule") or {}
        if schedule:
            for text in faults_of(str(schedule.get("quartz_cron_expression", ""))):
                yield f"{key}.schedule", text
            if not schedule.get("timezone_id"):
                yield f"{key}.schedule", "has no timezone_id"
        if job.get("continuous") and any(task.get("depends_on") for task in job.get("tasks") or []):
            yield key, "is continuous: its tasks cannot depend on each other"


def _task_references(bundle: Bundle, target: Target) -> Found:
    for key, job in target.jobs.items():
        tasks = job.get("tasks") or []
        names = [task.get("task_key") for task in tasks]
        known = {
            "environment_key": {entry.get("environment_key") for entry in job.get("environments") or []},
            "job_cluster_key": {entry.get("job_cluster_key") for entry in job.get("job_clusters") or []},
        }
        # As the file has them: a target's override merges tasks of one key into one.
        written = bundle.files[target.origins[("jobs", key)]]["resources"]["jobs"][key].get("tasks") or []
        if len({task.get("task_key") for task in written}) != len(written):
            yield key, f"task keys repeat: {[task.get('task_key') for task in written]}"
        for task in tasks:
            for dependency in task.get("depends_on") or []:
                if dependency.get("task_key") not in names:
                    yield f"{key}.{task['task_key']}", f"depends on unknown task {dependency.get('task_key')!r}"
            for reference, values in known.items():
                if task.get(reference) is not None and task[reference] not in values:
                    yield f"{key}.{task['task_key']}", f"{reference} {task[reference]!r} is not declared"


def _one_run_at_a_time(bundle: Bundle, target: Target) -> Found:
    for key, job in target.jobs.items():
        if job.get("max_concurrent_runs") != 1:
            yield (
                key,
                f"max_concurrent_runs is {job.get('max_concurrent_runs')} in {target.name}: two runs, one checkpoint",
            )


def _paths(bundle: Bundle, target: Target) -> Found:
    for key, job in target.jobs.items():
        folder = bundle.root / target.folder_of("jobs", key)
        for task in job.get("tasks") or []:
            for kind, field in (("notebook_task", "notebook_path"), ("spark_python_task", "python_file")):
                path = (task.get(kind) or {}).get(field)
                if path and not path.startswith("/") and not (folder / path).is_file():
                    yield f"{key}.{task['task_key']}", f"{path} does not exist"


def _wheel(bundle: Bundle, target: Target) -> Found:
    project = tomllib.loads((bundle.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    builds = [a for a in (target.config.get("artifacts") or {}).values() if "uv build --wheel" in str(a.get("build"))]
    for key, job in target.jobs.items():
        specs = {entry["environment_key"]: entry.get("spec") or {} for entry in job.get("environments") or []}
        for task in job.get("tasks") or []:
            wheel, where = task.get("python_wheel_task"), f"{key}.{task['task_key']}"
            if wheel is None:
                continue
            if wheel.get("package_name") != project["name"]:
                yield where, f"package_name {wheel.get('package_name')!r} is not {project['name']!r}"
            if wheel.get("entry_point") not in project["scripts"]:
                yield where, f"entry_point {wheel.get('entry_point')!r} is not in pyproject's scripts"
            shipped = (specs.get(task.get("environment_key")) or {}).get("dependencies") or []
            shipped += [library["whl"] for library in task.get("libraries") or [] if "whl" in library]
            if not builds or not WHEEL & set(shipped):
                yield where, "the wheel is not built by `uv build --wheel` and shipped from dist/*.whl"


# As a file below resources/ says it, and as the main file does: paths are relative to the file.
WHEEL = {"../dist/*.whl", "./dist/*.whl"}
RUN_FACTS = (
    "--job-run-id={{job.run_id}}",
    "--job-run-url={{workspace.url}}/jobs/{{job.id}}/runs/{{job.run_id}}",
    "--job-attempt={{task.name}}/{{task.execution_count}}",
)


def _compute(bundle: Bundle, target: Target) -> Found:
    """Each task has one kind of compute, and a job cluster a node type, a known line of Spark, and a Python
    that takes the wheel."""
    for key, job in target.jobs.items():
        for task in job.get("tasks") or []:
            kinds = [name for name in ("environment_key", "job_cluster_key") if task.get(name)]
            if len(kinds) > 1 or (not kinds and task.get("python_wheel_task")):
                yield f"{key}.{task['task_key']}", f"is computed by {' and '.join(kinds) or 'nothing'}"
        for entry in job.get("job_clusters") or []:
            cluster, where = entry.get("new_cluster") or {}, f"{key}.{entry.get('job_cluster_key')}"
            if not cluster.get("node_type_id"):
                yield where, "has no node_type_id"
            runtime = str(cluster.get("spark_version"))
            if find_line(runtime) is None:
                yield where, f"spark_version {runtime!r} is of no known line of Spark"
            if runtime.startswith("14."):
                yield where, f"spark_version {runtime!r} {_OLD_PYTHON}"


_OLD_PYTHON = "has Python 3.10, and the wheel needs 3.11"


def _run_facts(bundle: Bundle, target: Target) -> Found:
    """A retry that is not told which attempt it is takes the claim of the one that died for that of a live run."""
    for key, job in target.jobs.items():
        for task in job.get("tasks") or []:
            parameters = (task.get("python_wheel_task") or {}).get("parameters") or []
            if parameters[:1] == ["run"] and not any(one.startswith("--pipeline=") for one in parameters):
                yield f"{key}.{task['task_key']}", "names no pipeline, and the wheel knows none by itself"
            missing = [fact for fact in RUN_FACTS if fact not in parameters]
            if parameters[:1] == ["run"] and missing:
                yield f"{key}.{task['task_key']}", f"is not given {', '.join(missing)}"


def _kafka_login(bundle: Bundle, target: Target) -> Found:
    """surestart reads no Kafka with passwords where plans cannot be hidden, and on serverless they cannot."""
    for key, job in target.jobs.items():
        for task in job.get("tasks") or []:
            given = settings_of(task, job)
            scope = given.get("secret_scope") and not given.get("service_credential")
            if given.get("source") == "kafka" and scope and not task.get("job_cluster_key"):
                yield (
                    f"{key}.{task['task_key']}",
                    "logs in to Kafka by a secret scope on serverless: name a service credential, or use a job cluster",
                )


def _trigger(bundle: Bundle, target: Target) -> Found:
    for key, job in target.jobs.items():
        for task in job.get("tasks") or []:
            on_cluster = any(task.get(name) for name in ("job_cluster_key", "existing_cluster_id", "new_cluster"))
            trigger = settings_of(task, job).get("trigger", "availableNow")
            if not on_cluster and trigger.lower().replace("-", "") != "availablenow":
                yield f"{key}.{task['task_key']}", f"trigger {trigger!r} on serverless, which knows only availableNow"


def _alarms(bundle: Bundle, target: Target) -> Found:
    for key, job in target.jobs.items():
        if not job.get("schedule") and not job.get("continuous"):
            continue
        raw = target.raw["resources"]["jobs"][key]
        for kind in ("email_notifications", "webhook_notifications"):
            if not str((raw.get(kind) or {}).get("on_failure", "")).startswith("${var."):
                yield key, f"{kind}.on_failure is not a variable"
        if not (job.get("health") or {}).get("rules"):
            yield key, "has no health rules"
        if not job.get("tags"):
            yield key, "has no tags"


def _secrets(bundle: Bundle, target: Target) -> Found:
    for where, _, value in walk(target.config.get("resources") or {}):
        if isinstance(value, str) and "{{secrets/" in value:
            yield where, "hands out a secret; pass the scope's name and read it at use"


def _notebook_parameters(bundle: Bundle, target: Target) -> Found:
    """Databricks drops a parameter without a widget, and the notebook goes on with its own default."""
    for key, job in target.jobs.items():
        for task in job.get("tasks") or []:
            path = (task.get("notebook_task") or {}).get("notebook_path") or ""
            file = bundle.root / target.folder_of("jobs", key) / path
            if file.suffix != ".ipynb" or not file.is_file():
                continue
            cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
            code = "".join(line for cell in cells if cell["cell_type"] == "code" for line in cell["source"])
            widgets = {"environment", "catalog", "schema", *re.findall(r"""Widget\(\s*["'](\w+)["']""", code)}
            for chosen in re.findall(r"""widgets_of\(PIPELINE, ([^)]*)\)""", code):
                names = re.findall(r"""["'](\w+)["']""", chosen)
                widgets |= set(PIPELINE.settings) - set(names) if "but=" in chosen else set(names)
            for name in sorted(set(settings_of(task, job)) - widgets):
                yield f"{key}.{task['task_key']}", f"{file.name} has no widget {name!r}: the value would be dropped"


def _remedy(bundle: Bundle, target: Target) -> Found:
    """A job that applies remedies does nothing unless a person says what, and says it twice."""
    for key, job in target.jobs.items():
        tags = job.get("tags") or {}
        if tags.get("role") != "remedy":
            continue
        starts = [name for name in ("schedule", "continuous", "trigger", "triggers") if job.get(name)]
        if starts:
            yield key, f"has a {starts[0]}: a remedy is started by a person"
        if "stage" in tags:
            yield key, "is tagged with a stage: a remedy would find it and stop itself"
        if (job.get("queue") or {}).get("enabled") is not False:
            yield key, "may be queued: it would act on a world that nobody has looked at"
        defaults = {entry["name"]: entry.get("default") for entry in job.get("parameters") or []}
        if set(defaults) != {"stage", "remedy", "options", "mode", "digest"}:
            yield key, f"has the parameters {sorted(defaults)}"
        if (defaults.get("mode"), defaults.get("digest")) != ("plan", ""):
            yield (
                key,
                f"starts with mode {defaults.get('mode')!r}, digest {defaults.get('digest')!r}: it would act unread",
            )
        for task in job.get("tasks") or []:
            if task.get("max_retries") != 0 or task.get("disable_auto_optimization") is not True:
                yield f"{key}.{task['task_key']}", "is started again by itself after a failure that nobody has read"
            fixed = set((task.get("notebook_task") or {}).get("base_parameters") or {})
            missing = {"environment", "catalog", "schema"} - fixed
            if missing:
                yield f"{key}.{task['task_key']}", f"{', '.join(sorted(missing))} not fixed by the bundle"


def _who_runs(bundle: Bundle, target: Target) -> Found:
    """Jobs that nobody in particular runs end with the account of whoever deployed first, and nobody else may stop
    them. A service principal owns nothing that it writes to: what it may do is granted."""
    if target.config.get("mode") == "development":
        if target.config.get("run_as"):
            yield "run_as", "is set in dev, where everyone runs their own copy"
        return
    principal = (target.config.get("run_as") or {}).get("service_principal_name")
    if not str((target.raw.get("run_as") or {}).get("service_principal_name", "")).startswith("${var."):
        yield "run_as", "is not a service principal from a variable: the jobs would run as the first deployer"
    groups = [one for one in target.config.get("permissions") or [] if one.get("level") == "CAN_MANAGE"]
    if not any(one.get("group_name") for one in groups):
        yield "permissions", "no group may manage the jobs"
    for kind, needed in NEEDED.items():
        for key, resource in target.resources(kind).items():
            held = [set(one["privileges"]) for one in resource.get("grants") or [] if one["principal"] == principal]
            missing = needed.get(key, needed[""]) - set().union(*held)
            if missing:
                yield f"{kind}.{key}", f"{principal} is not granted {', '.join(sorted(missing))}"


# What the jobs do there. Of a volume: checkpoints are written, landed files are only read.
NEEDED: dict[str, dict[str, set[str]]] = {
    "schemas": {"": {"USE_SCHEMA", "CREATE_TABLE", "SELECT", "MODIFY"}},
    "volumes": {"": {"READ_VOLUME"}, "checkpoints": {"READ_VOLUME", "WRITE_VOLUME"}},
}


def _notebook_environment(bundle: Bundle, target: Target) -> Found:
    """A notebook finds surestart by its own environment: a deploy removes the wheels of the one before it, and some
    workspaces refuse an environment_key on a notebook task."""
    for key, job in target.jobs.items():
        for task in job.get("tasks") or []:
            path = (task.get("notebook_task") or {}).get("notebook_path") or ""
            file = bundle.root / target.folder_of("jobs", key) / path
            if file.suffix != ".ipynb" or not file.is_file():
                continue
            where = f"{key}.{task['task_key']}"
            if task.get("environment_key") is not None:
                yield where, "has an environment_key, which some workspaces refuse on a notebook task"
            if task.get("job_cluster_key"):
                libraries = {library.get("whl") for library in task.get("libraries") or []}
                if not WHEEL & libraries:
                    yield where, f"{file.name} is not given the wheel: on a cluster its own environment does not count"
            elif "--editable .." not in read_dependencies(file):
                yield where, f"{file.name} does not carry the deployed project in its environment"


def read_dependencies(notebook: Path) -> list[str]:
    """What Databricks installs before the notebook's first cell."""
    metadata = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]
    found = metadata.get("application/vnd.databricks.v1+notebook") or {}
    return list((found.get("environmentMetadata") or {}).get("dependencies") or [])


def _environment_versions(bundle: Bundle, target: Target) -> Found:
    """Each names a line of Spark that surestart knows, and the notebooks' is the jobs' own."""
    versions = {
        key: str(entry["spec"].get("environment_version"))
        for key, job in target.jobs.items()
        for entry in job.get("environments") or []
    }
    for path in sorted((bundle.root / "notebooks").glob("*.ipynb")):
        metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]["application/vnd.databricks.v1+notebook"]
        versions[path.name] = str(metadata["environmentMetadata"].get("environment_version"))
    for where, version in versions.items():
        if find_line(f"client.{version}") is None:
            yield where, f"environment_version {version!r} is of no known line of Spark"
        if version == "1":
            yield where, f"environment_version {version!r} {_OLD_PYTHON}"
    if len(set(versions.values())) > 1:
        yield "environment_version", f"differs: {versions}"


def walk(value: Any, where: str = "") -> Iterator[tuple[str, str, Any]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        path = f"{where}.{key}".lstrip(".")
        yield path, str(key), inner
        yield from walk(inner, path)


JOB_CHECKS: dict[str, Callable[[Bundle, Target], Found]] = {
    "undefined-reference": _undefined,
    "schedule": _schedule,
    "task-reference": _task_references,
    "one-run-at-a-time": _one_run_at_a_time,
    "missing-file": _paths,
    "wheel": _wheel,
    "compute": _compute,
    "run-facts": _run_facts,
    "kafka-login": _kafka_login,
    "trigger": _trigger,
    "alarm": _alarms,
    "secret": _secrets,
    "notebook-parameter": _notebook_parameters,
    "remedy": _remedy,
    "who-runs": _who_runs,
    "notebook-environment": _notebook_environment,
    "environment-version": _environment_versions,
}
