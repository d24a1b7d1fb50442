"""The bundle of this repository, target by target, and once with the Databricks CLI where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import nbformat
import pytest

from sensor_pipeline.stages import PIPELINE
from surestart.cli.arguments import choose_stages, read_given_environment
from surestart.cli.main import build_parser
from surestart.environment import environment_from_settings
from surestart.history.describe_run import JOB_ATTEMPT, JOB_RUN, JOB_URL
from surestart.job import split_job_options
from surestart.journal.protocol import REMEDIES
from surestart.notebooks.remedy_notebook import MODES
from tests.bundle.bundle_check import check_bundle
from tests.bundle.bundle_files import MAIN, read_bundle, resolve_target
from tests.bundle.checkpoints import read_claims, settings_of

ROOT = Path(__file__).parents[2]
BUNDLE = read_bundle(ROOT)
TARGETS = ("dev", "dev_cluster", "staging", "prod")


def stage_jobs(target: Any) -> Any:
    """The jobs that run a stage: all but the one for remedies."""
    found = {key: job for key, job in resolve_target(BUNDLE, target).jobs.items() if "stage" in job["tags"]}
    assert sorted(found) == ["sensor_deserialize", "sensor_merge_gold", "sensor_raw_ingest"]
    return found


def test_the_bundle_has_no_fault_in_any_target():
    assert [str(fault) for fault in check_bundle(BUNDLE)] == []
    assert BUNDLE.targets == TARGETS
    # Without it a copy of the project and this one are the same bundle to a workspace.
    assert UUID(BUNDLE.main["bundle"]["uuid"])


@pytest.mark.parametrize(
    ("target", "root"),
    [
        ("dev", "/Volumes/main/dev_alice_sensor/checkpoints"),
        ("dev_cluster", "/Volumes/main/dev_alice_sensor_cluster/checkpoints"),
        ("staging", "/Volumes/main/sensor_staging/checkpoints"),
        ("prod", "/Volumes/main/sensor/checkpoints"),
    ],
)
def test_every_stage_has_one_job_and_one_checkpoint(target, root):
    uses = read_claims(BUNDLE, resolve_target(BUNDLE, target)).uses

    assert sorted((job, use.path) for job, use in uses) == [
        ("sensor_deserialize", f"{root}/sensor-deserialize"),
        ("sensor_merge_gold", f"{root}/sensor-merge-gold"),
        ("sensor_raw_ingest", f"{root}/sensor-raw-ingest"),
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_the_command_line_accepts_what_each_job_passes_to_it(target):
    for key, job in stage_jobs(target).items():
        for task in job["tasks"]:
            parameters = task["python_wheel_task"]["parameters"]
            arguments, _ = split_job_options(parameters)
            args = build_parser(arguments[0]).parse_args(arguments)
            environment, pipeline, settings = read_given_environment(args)
            (stage,) = choose_stages(pipeline, settings, args.stage)

            assert environment.checkpoint(stage.name) in job["description"], key
            assert stage.declare(environment).sinks[0].target.startswith(f"main.{settings['schema']}."), key


@pytest.mark.parametrize("target", TARGETS)
def test_every_job_tells_which_run_it_is_and_logs_for_machines(target):
    for key, job in stage_jobs(target).items():
        for task in job["tasks"]:
            passed = [
                # As Databricks fills the references in.
                word.replace("{{job.run_id}}", "4711")
                .replace("{{job.id}}", "12")
                .replace("{{workspace.url}}", "https://adb-1.example.net")
                .replace("{{task.name}}", task["task_key"])
                .replace("{{task.execution_count}}", "2")
                for word in task["python_wheel_task"]["parameters"]
            ]
            arguments, facts = split_job_options(passed)

            url, attempt = "https://adb-1.example.net/jobs/12/runs/4711", f"{task['task_key']}/2"
            assert facts == {JOB_RUN: "4711", JOB_URL: url, JOB_ATTEMPT: attempt}, key
            assert build_parser("run").parse_args(arguments).log == "json", key
            assert not [word for word in passed if "{{" in word], key


def test_one_target_computes_on_job_clusters_and_each_other_one_may():
    """What `dev_cluster` says, in place of what prod says: one word of databricks.yml."""

    def move(files: Any) -> None:
        prod, cluster = (files[MAIN]["targets"][name] for name in ("prod", "dev_cluster"))
        prod["resources"]["jobs"] = cluster["resources"]["jobs"]

    moved = BUNDLE.changed(move)
    assert [str(fault) for fault in check_bundle(moved)] == []
    for bundle, target in ((BUNDLE, "dev_cluster"), (moved, "prod")):
        for key, job in resolve_target(bundle, target).jobs.items():
            (task,), (cluster,) = job["tasks"], job["job_clusters"]
            assert (task["job_cluster_key"], "environment_key" in task) == (cluster["job_cluster_key"], False), key
            assert cluster["new_cluster"]["node_type_id"], key


def test_schedules_are_paused_in_dev_and_active_elsewhere():
    paused = {
        target: {job["schedule"].get("pause_status") for job in stage_jobs(target).values()} for target in TARGETS
    }

    assert paused == {"dev": {"PAUSED"}, "dev_cluster": {"PAUSED"}, "staging": {None}, "prod": {None}}


@pytest.mark.parametrize("target", TARGETS)
def test_the_job_for_remedies_starts_by_hand_and_is_given_what_the_stages_are_given(target):
    reset = resolve_target(BUNDLE, target).jobs["sensor_reset"]
    given = settings_of(reset["tasks"][0], reset)

    assert not {"schedule", "continuous", "trigger"} & set(reset)
    assert reset["max_concurrent_runs"] == 1
    assert (given["mode"], given["digest"]) == ("plan", "")
    assert given["mode"] in MODES
    assert given["remedy"] in REMEDIES
    assert given["stage"] in {stage.name for stage in PIPELINE.build_stages({})}
    assert settings_of(reset["tasks"][0], {"parameters": [{"name": "mode", "default": "apply"}]})["mode"] == "apply"
    here = environment_from_settings(given["environment"], "sensor", given, environ={})
    for key, job in stage_jobs(target).items():
        own = settings_of(job["tasks"][0], job)
        # What only a wheel task takes; a notebook has it from the schema, or imports it.
        for name in ("job-run-id", "job-run-url", "job-attempt", "log", "pipeline"):
            own.pop(name)
        assert own.pop("checkpoint_root") == here.checkpoint_root, key
        assert own.pop("landing", here.landing) == here.landing, key
        assert own.items() <= given.items(), key


# Nothing is simulated on Databricks.
LOCAL_ONLY = {"readings"}
# What a wheel task is given and a notebook has from its catalog and schema.
PLACE = {
    "environment",
    "catalog",
    "schema",
    "checkpoint_root",
    "landing",
    "job-run-id",
    "job-run-url",
    "job-attempt",
    "log",
    "pipeline",
}
NOTEBOOKS = {
    "sensor_raw_ingest": "01_raw_ingest.ipynb",
    "sensor_deserialize": "02_deserialize.ipynb",
    "sensor_merge_gold": "03_merge_gold.ipynb",
    "sensor_reset": "05_reset.ipynb",
}


def given_by(job: Any) -> Any:
    return set(settings_of(job["tasks"][0], job)) - PLACE


def test_every_setting_of_the_pipeline_can_be_set_on_databricks():
    jobs = resolve_target(BUNDLE, "prod").jobs
    by_stage = set().union(*(given_by(job) for job in stage_jobs("prod").values()))

    assert by_stage | LOCAL_ONLY == set(PIPELINE.settings)
    assert given_by(jobs["sensor_reset"]) - {"stage", "remedy", "options", "mode", "digest"} == by_stage


@pytest.mark.parametrize(("key", "name"), NOTEBOOKS.items())
def test_the_notebook_of_a_stage_has_every_setting_that_its_job_passes(key, name):
    (settings,) = [
        cell.source for cell in nbformat.read(ROOT / "notebooks" / name, as_version=4).cells if cell.id == "settings"
    ]
    found: dict = {}
    # The notebook's own cell: what it asks for is what it has.
    exec(settings, found)

    assert given_by(resolve_target(BUNDLE, "prod").jobs[key]) <= set(found["settings"]), name


def test_notebook_4_judges_with_every_setting_that_the_jobs_have():
    code = (ROOT / "notebooks" / "04_explore_checkpoints.ipynb").read_text(encoding="utf-8")

    assert 'widgets_of(PIPELINE, but=(\\"source\\", \\"readings\\"))' in code
    assert 'Widget(\\"source\\"' in code


@pytest.mark.parametrize("postgres", ["", "secret:sensor/postgres-url"])
def test_an_empty_value_is_the_default(postgres):
    given = {"postgres_url": postgres, "postgres_load": "driver"} if postgres else {}
    empty = {**dict.fromkeys(PIPELINE.settings, ""), **given}

    assert PIPELINE.build_stages(empty) == PIPELINE.build_stages(given)
    assert PIPELINE.count is not None


def test_what_passes_through_the_driver_comes_in_small_batches():
    def options(**settings: Any) -> Any:
        return PIPELINE.build_stages(settings)[2].source.options

    url = {"postgres_url": "secret:sensor/postgres-url"}
    job = resolve_target(BUNDLE, "prod").jobs["sensor_merge_gold"]
    settings = settings_of(job["tasks"][0], job)

    assert options(**url, postgres_load="driver") == (("maxFilesPerTrigger", "10"),)
    assert options(**url, postgres_load="driver", max_table_files_per_trigger="3") == (("maxFilesPerTrigger", "3"),)
    assert options(**url) == options(postgres_load="driver") == ()
    assert settings["postgres_load"] == "driver"
    assert settings["max_table_files_per_trigger"] == ""


def test_two_people_in_dev_share_nothing():
    alice, bob = (
        {use.path for _, use in read_claims(BUNDLE, resolve_target(BUNDLE, "dev", user)).uses}
        for user in ("alice", "bob")
    )

    assert len(alice) == len(bob) == 3
    assert not alice & bob


@pytest.mark.skipif(
    shutil.which("databricks") is None,
    reason="no `databricks` CLI on PATH: `bundle validate --strict` not run, only our own checks",
)
@pytest.mark.parametrize("target", TARGETS)
def test_the_databricks_cli_validates_the_bundle_strictly(target):
    ended = subprocess.run(
        ["databricks", "bundle", "validate", "--strict", "-t", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
