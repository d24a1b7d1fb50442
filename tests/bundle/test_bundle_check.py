"""Each check finds the fault it is there for: the bundle is broken in one place, and the check names that place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bundle.bundle_check import FILE_CHECKS, check_bundle
from tests.bundle.bundle_files import MAIN, read_bundle, resolve_target
from tests.bundle.job_checks import JOB_CHECKS
from tests.bundle.storage_checks import STORAGE_CHECKS

BUNDLE = read_bundle(Path(__file__).parents[2])
RAW = "resources/sensor_raw_ingest.job.yml"
GOLD = "resources/sensor_merge_gold.job.yml"
VOLUME = "resources/checkpoints.volume.yml"
SCHEMA = "resources/sensor.schema.yml"
RESET = "resources/sensor_reset.job.yml"

Files = dict[str, Any]


def job(files: Files, path: str = RAW) -> Any:
    return next(iter(files[path]["resources"]["jobs"].values()))


def task(files: Files, path: str = RAW) -> Any:
    return job(files, path)["tasks"][0]


def parameters(files: Files, path: str = RAW) -> list[str]:
    return task(files, path)["python_wheel_task"]["parameters"]


def set_parameter(files: Files, name: str, value: str, path: str = RAW) -> None:
    words = parameters(files, path)
    words[:] = [word for word in words if not word.startswith(f"--set={name}=")] + [f"--set={name}={value}"]


def volume(files: Files) -> Any:
    return files[VOLUME]["resources"]["volumes"]["checkpoints"]


def schema(files: Files) -> Any:
    return files[SCHEMA]["resources"]["schemas"]["sensor"]


def notebook_job(**more: Any) -> dict[str, Any]:
    path = "../notebooks/01_raw_ingest.ipynb"
    return {"task_key": "again", "notebook_task": {"notebook_path": path, **more}}


def rename(files: Files, old: str, new: str) -> None:
    files[new] = files.pop(old)


# check, what is broken, how, a word of the finding
BROKEN = [
    ("one-resource-per-file", "two in a file", lambda f: f[VOLUME]["resources"].update(jobs={"x": {"name": "x"}}), "2"),
    ("one-resource-per-file", "name", lambda f: rename(f, VOLUME, "resources/volume.yml"), "checkpoints.volume.yml"),
    ("one-resource-per-file", "in the main file", lambda f: f[MAIN].update(resources={"jobs": {}} | {"volumes": {"v": {
        "catalog_name": "a", "schema_name": "b", "name": "c"}}}), "file of its own"),
    ("pause-status", "unpaused", lambda f: job(f)["schedule"].update(pause_status="UNPAUSED"), "dev pauses"),
    ("variable", "no description", lambda f: f[MAIN]["variables"]["catalog"].pop("description"), "no description"),
    ("variable", "a password", lambda f: f[MAIN]["variables"].update(
        kafka_password={"description": "x", "default": ""}), "secret"),
    ("target-mode", "prod by default", lambda f: f[MAIN]["targets"]["prod"].update(default=True), "default is"),
    ("target-mode", "prod without mode", lambda f: f[MAIN]["targets"]["prod"].pop("mode"), "mode None"),
    ("shared-checkpoint", "two targets", lambda f: f[MAIN]["targets"]["staging"][
        "variables"].pop("schema"), "checkpoint of"),
    ("shared-checkpoint", "two jobs", lambda f: parameters(f, GOLD).__setitem__(1, "raw-ingest"), "checkpoint of"),
    ("shared-checkpoint", "a notebook and a job", lambda f: job(f, GOLD).update(tasks=[notebook_job(base_parameters={
        "environment": "${bundle.target}", "catalog": "main", "schema": "${resources.schemas.sensor.name}",
        "checkpoint_root": "${resources.volumes.checkpoints.volume_path}"})]), "checkpoint of"),
    ("shared-checkpoint", "nested", lambda f: parameters(f, GOLD).append(
        "--set=checkpoint_location=${resources.volumes.checkpoints.volume_path}/sensor-raw-ingest/x"), "is inside"),
    ("undefined-reference", "variable", lambda f: set_parameter(f, "topic", "${var.topik}"), "${var.topik}"),
    ("undefined-reference", "volume", lambda f: set_parameter(
        f, "landing", "${resources.volumes.landin.volume_path}"), "landin"),
    ("undefined-reference", "no value", lambda f: f[MAIN]["variables"]["schema"].pop("default"), "${var.schema}"),
    ("schedule", "unix cron", lambda f: job(f)["schedule"].update(quartz_cron_expression="*/10 * * * *"), "5 fields"),
    ("schedule", "no time zone", lambda f: job(f)["schedule"].pop("timezone_id"), "timezone_id"),
    ("schedule", "and continuous", lambda f: job(f).update(continuous={"task_retry_mode": "ON_FAILURE"}), "continuous"),
    ("schedule", "continuous with dependencies", lambda f: (
        job(f).pop("schedule"),
        job(f).update(continuous={"task_retry_mode": "ON_FAILURE"}),
        job(f)["tasks"].append({**notebook_job(), "depends_on": [{"task_key": "raw_ingest"}]})), "cannot depend"),
    ("task-reference", "dependency", lambda f: task(f).update(depends_on=[{"task_key": "prepare"}]), "'prepare'"),
    ("task-reference", "environment", lambda f: task(f).update(environment_key="default"), "'default'"),
    ("task-reference", "cluster", lambda f: task(f).update(job_cluster_key="small"), "'small'"),
    ("task-reference", "twice", lambda f: job(f)["tasks"].append(dict(task(f))), "repeat"),
    ("one-run-at-a-time", "left out", lambda f: job(f).pop("max_concurrent_runs"), "is 4 in dev"),
    ("one-run-at-a-time", "two", lambda f: job(f).update(max_concurrent_runs=2), "is 2 in prod"),
    ("missing-file", "notebook", lambda f: job(f)["tasks"].append(
        {"task_key": "n", "notebook_task": {"notebook_path": "../notebooks/99_none.ipynb"}}), "99_none"),
    ("missing-file", "script", lambda f: job(f)["tasks"].append(
        {"task_key": "s", "spark_python_task": {"python_file": "../src/none.py"}}), "none.py"),
    ("wheel", "package", lambda f: task(f)["python_wheel_task"].update(package_name="sensor"), "package_name"),
    ("wheel", "entry point", lambda f: task(f)["python_wheel_task"].update(entry_point="main"), "entry_point"),
    ("wheel", "not shipped", lambda f: job(f)["environments"][0]["spec"].pop("dependencies"), "shipped"),
    ("wheel", "not built", lambda f: f[MAIN].pop("artifacts"), "not built"),
    ("compute", "two kinds", lambda f: task(f).update(environment_key="surestart"), "and job_cluster_key"),
    ("compute", "none", lambda f: f[MAIN]["targets"]["prod"]["resources"].pop("jobs"), "nothing"),
    ("compute", "no node type", lambda f: f[MAIN]["variables"]["cluster_node_type"].update(default=""), "node_type_id"),
    ("compute", "an unknown runtime", lambda f: f[MAIN]["variables"]["cluster_runtime"].update(
        default="99.9.x-scala3"), "99.9"),
    ("compute", "a runtime older than 3.5", lambda f: f[MAIN]["variables"]["cluster_runtime"].update(
        default="12.2.x-scala2.12"), "12.2"),
    ("compute", "a Python older than 3.11", lambda f: f[MAIN]["variables"]["cluster_runtime"].update(
        default="14.3.x-scala2.12"), "Python 3.10"),
    ("run-facts", "no attempt", lambda f: parameters(f).remove(
        "--job-attempt={{task.name}}/{{task.execution_count}}"), "job-attempt"),
    ("run-facts", "no pipeline", lambda f: parameters(f).remove(
        "--pipeline=sensor_pipeline.stages:PIPELINE"), "pipeline"),
    ("run-facts", "another reference", lambda f: parameters(f, GOLD).__setitem__(
        3, "--job-run-id={{task.run_id}}"), "job.run_id"),
    ("kafka-login", "a secret scope", lambda f: f[MAIN]["targets"]["prod"]["variables"].update(
        source="kafka", kafka_bootstrap="b:9092", kafka_topic="t", kafka_secret_scope="s"), "service credential"),
    ("notebook-environment", "no wheel on a cluster", lambda f: f[MAIN]["targets"]["dev_cluster"]["resources"]["jobs"][
        "sensor_reset"]["tasks"][0].pop("libraries"), "not given the wheel"),
    ("trigger", "processing time", lambda f: parameters(f).append("--trigger=processingTime=10s"), "availableNow"),
    ("trigger", "in two words", lambda f: parameters(f).extend(["--trigger", "10s"]), "availableNow"),
    ("alarm", "fixed address", lambda f: job(f)["email_notifications"].update(on_failure=["me@x.org"]), "variable"),
    ("alarm", "no webhook", lambda f: job(f).pop("webhook_notifications"), "webhook_notifications"),
    ("alarm", "no health rules", lambda f: job(f).pop("health"), "health"),
    ("alarm", "no tags", lambda f: job(f).pop("tags"), "tags"),
    ("secret", "in a parameter", lambda f: set_parameter(f, "topic", "{{secrets/kafka/topic}}"), "scope's name"),
    ("notebook-parameter", "of the task", lambda f: task(f, RESET)["notebook_task"]["base_parameters"].update(
        broker="b:9092"), "no widget 'broker'"),
    ("notebook-parameter", "of the job", lambda f: job(f, RESET)["parameters"].append(
        {"name": "force", "default": "no"}), "no widget 'force'"),
    ("remedy", "a schedule", lambda f: job(f, RESET).update(schedule={
        "quartz_cron_expression": "0 0 3 * * ?", "timezone_id": "UTC"}), "started by a person"),
    ("remedy", "a stage", lambda f: job(f, RESET)["tags"].update(stage="raw-ingest"), "stop itself"),
    ("remedy", "queued", lambda f: job(f, RESET).pop("queue"), "queued"),
    ("remedy", "another parameter", lambda f: job(f, RESET)["parameters"].append(
        {"name": "schema", "default": "x"}), "'schema'"),
    ("remedy", "applies by default", lambda f: job(f, RESET)["parameters"][3].update(default="apply"), "unread"),
    ("remedy", "a digest by default", lambda f: job(f, RESET)["parameters"][4].update(default="abc"), "unread"),
    ("remedy", "retried", lambda f: task(f, RESET).update(max_retries=1), "started again"),
    ("remedy", "retried by serverless", lambda f: task(f, RESET).pop("disable_auto_optimization"), "started again"),
    ("remedy", "any schema", lambda f: task(f, RESET)["notebook_task"]["base_parameters"].pop("schema"), "not fixed"),
    ("who-runs", "the first deployer", lambda f: f[MAIN]["targets"]["prod"].pop("run_as"), "first deployer"),
    ("who-runs", "somebody by name", lambda f: f[MAIN]["targets"]["prod"].update(
        run_as={"user_name": "alice@example.com"}), "service principal"),
    ("who-runs", "nobody may manage", lambda f: f[MAIN]["targets"]["prod"].pop("permissions"), "no group"),
    ("who-runs", "may not write", lambda f: f[MAIN]["targets"]["prod"]["resources"].pop("schemas"), "not granted"),
    ("who-runs", "may not write checkpoints", lambda f: f[MAIN]["targets"]["staging"]["resources"].pop("volumes"),
        "volumes.checkpoints"),
    ("who-runs", "one for all in dev", lambda f: f[MAIN]["targets"]["dev"].update(
        run_as={"service_principal_name": "x"}), "own copy"),
    ("notebook-environment", "of the job", lambda f: task(f, RESET).update(environment_key="x"), "refuse"),
    ("notebook-environment", "none", lambda f: task(f, RESET)["notebook_task"].update(
        notebook_path="../tests/bundle/bare.ipynb"), "does not carry"),
    ("environment-version", "an unknown one", lambda f: job(f)["environments"][0]["spec"].update(
        environment_version="99"), "'99'"),
    ("environment-version", "a Python older than 3.11", lambda f: job(f)["environments"][0]["spec"].update(
        environment_version="1"), "Python 3.10"),
    ("environment-version", "another than the notebooks'", lambda f: job(f)["environments"][0]["spec"].update(
        environment_version="3"), "differs"),
    ("missing-file", "the notebook of remedies", lambda f: task(f, RESET)["notebook_task"].update(
        notebook_path="../notebooks/06_reset.ipynb"), "06_reset"),
    ("checkpoint-path", "run id", lambda f: set_parameter(
        f, "checkpoint_root", "${resources.volumes.checkpoints.volume_path}/{{job.run_id}}"), "job.run_id"),
    ("checkpoint-path", "a job parameter", lambda f: set_parameter(
        f, "checkpoint_root", "{{job.parameters.checkpoint_root}}"), "job.parameters"),
    ("checkpoint-path", "a date", lambda f: set_parameter(
        f, "checkpoint_root", "${resources.volumes.checkpoints.volume_path}/2026-11-18"), "a date"),
    ("checkpoint-path", "in /tmp", lambda f: set_parameter(f, "checkpoint_root", "/tmp/checkpoints"), "no volume"),
    ("checkpoint-path", "relative", lambda f: set_parameter(f, "checkpoint_root", "checkpoints"), "relative"),
    ("checkpoint-path", "not shown", lambda f: job(f).update(description="ingest"), "does not show"),
    ("checkpoint-path", "unknown environment", lambda f: f[MAIN]["targets"].update(
        test={"mode": "production", "variables": {"environment": "test"}, "workspace": {"root_path": "/Workspace/x"}}),
        "environment 'test'"),
    ("same-for-everyone", "root path", lambda f: f[MAIN]["targets"]["prod"]["workspace"].update(
        root_path="/Workspace/Users/${workspace.current_user.userName}/x"), "two copies"),
    ("same-for-everyone", "no root path", lambda f: f[MAIN]["targets"]["prod"].pop("workspace"), "two copies"),
    ("same-for-everyone", "checkpoints", lambda f: set_parameter(f, "checkpoint_root",
        "${resources.volumes.checkpoints.volume_path}/${workspace.current_user.short_name}"), "who deploys"),
    ("storage", "volume may be destroyed", lambda f: volume(f).pop("lifecycle"), "volumes.checkpoints"),
    ("storage", "schema may be destroyed", lambda f: schema(f)["lifecycle"].update(prevent_destroy=False), "schemas."),
    ("storage", "schema by name", lambda f: volume(f).update(schema_name="${var.schema}"), "not a reference"),
    ("storage", "tables elsewhere", lambda f: set_parameter(f, "schema", "${var.schema}"), "not the schema"),
    ("source", "unknown", lambda f: f[MAIN]["variables"]["source"].update(default="kinesis"), "'kinesis'"),
    ("source", "no broker", lambda f: f[MAIN]["targets"]["prod"]["variables"].update(source="kafka"), "bootstrap"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "change", "word"), [(c, h, w) for c, _, h, w in BROKEN], ids=[f"{c}: {what}" for c, what, _, _ in BROKEN]
)
def test_a_broken_bundle_is_caught_by_its_check(check, change, word):
    faults = check_bundle(BUNDLE.changed(change))

    assert any(fault.check == check and word in str(fault) for fault in faults), [str(fault) for fault in faults]


def test_every_check_is_broken_at_least_once():
    assert {check for check, *_ in BROKEN} == {*FILE_CHECKS, *JOB_CHECKS, *STORAGE_CHECKS}


def test_breaking_a_copy_leaves_the_bundle_as_it_was():
    BUNDLE.changed(lambda files: files[MAIN]["targets"].clear())

    assert check_bundle(BUNDLE) == ()


def test_kafka_with_broker_and_topic_is_no_fault():
    kafka = {"source": "kafka", "kafka_bootstrap": "broker:9092", "kafka_topic": "readings"}
    # The scope is the registry's then.
    login = {"kafka_secret_scope": "sensor", "kafka_service_credential": "kafka-prod"}

    assert check_bundle(BUNDLE.changed(lambda files: files[MAIN]["targets"]["prod"]["variables"].update(kafka))) == ()
    both = {**kafka, **login}
    assert check_bundle(BUNDLE.changed(lambda files: files[MAIN]["targets"]["prod"]["variables"].update(both))) == ()


def test_a_job_that_runs_no_stage_owns_no_checkpoint_and_needs_no_schedule():
    reset = {
        "name": "sensor-reset",
        "max_concurrent_runs": 1,
        "parameters": [{"name": "checkpoint_root", "default": "${resources.volumes.checkpoints.volume_path}"}],
        "tasks": [{"task_key": "reset", "notebook_task": {"notebook_path": "../databricks.yml"}}],
    }
    content = {"resources": {"jobs": {"sensor_reset": reset}}}

    assert check_bundle(BUNDLE.changed(lambda f: f.update({"resources/sensor_reset.job.yml": content}))) == ()


def test_a_target_overrides_a_task_by_its_key():
    override = {"resources": {"jobs": {"sensor_raw_ingest": {"tasks": [{"task_key": "raw_ingest", "max_retries": 7}]}}}}
    target = resolve_target(BUNDLE.changed(lambda files: files[MAIN]["targets"]["prod"].update(override)), "prod")

    (only,) = target.jobs["sensor_raw_ingest"]["tasks"]
    assert only["max_retries"] == 7
    assert only["python_wheel_task"]["entry_point"] == "surestart-job"


def test_a_key_written_twice_is_refused(tmp_path):
    (tmp_path / MAIN).write_text("bundle:\n  name: one\nbundle:\n  name: two\n", encoding="utf-8")

    with pytest.raises(ValueError, match="key written twice"):
        read_bundle(tmp_path)
