"""Who runs what where, as the history will say it: the record of a run before anything has been started."""

from __future__ import annotations

import shlex
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.environment import Environment, environment_from_settings
from surestart.registry.checkpoint_place import checkpoint_place
from surestart.registry.process_facts import read_process_facts
from surestart.registry.run_record import RunRecord
from surestart.session import spark_version
from surestart.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def describe_run(spark: SparkSession, environment: Environment, stage: Stage) -> RunRecord:
    facts = read_process_facts()
    declaration = stage.declare(environment)
    return RunRecord(
        run_id=str(uuid.uuid4()),
        pipeline=environment.pipeline,
        environment=environment.name,
        stage=stage.name,
        query=declaration.query,
        checkpoint=declaration.checkpoint,
        place=checkpoint_place(declaration.checkpoint),
        fingerprint=declaration.fingerprint,
        declaration=declaration.as_dict(),
        version=facts.version,
        git_commit=facts.git_commit,
        spark=spark_version(spark),
        runtime=facts.runtime,
        host=facts.host,
        pid=facts.pid,
        process_started=facts.process_started,
        job_run=facts.job_run,
        job_url=facts.job_url,
        started_at=now_ms(),
    )


def options_of(environment: Environment) -> str:
    """What a command needs beside --env to speak of the same place."""
    if not environment.root:
        place = {"catalog": environment.catalog, "schema": environment.schema}
        parts = [f"--set {key}={shlex.quote(value)}" for key, value in place.items()]
    else:
        place = {"root": environment.root}
        own = str(Path.cwd() / ".surestart" / environment.name)
        parts = [] if environment.root == own else [f"--root {shlex.quote(environment.root)}"]
    usual = environment_from_settings(environment.name, environment.pipeline, place, environ={})
    for key in ("checkpoint_root", "landing"):
        if getattr(environment, key) != getattr(usual, key):
            parts.append(f"--set {key}={shlex.quote(getattr(environment, key))}")
    return " ".join(parts)


def now_ms() -> int:
    return int(time.time() * 1000)
