"""Who runs what where, as the history will say it: the record of a run before anything has been started."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.environment import DEFAULT_ROOTS, Environment, environment_from_settings
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.process_facts import read_process_facts
from surestart.history.run_record import RunRecord
from surestart.spark.session import spark_version
from surestart.stage import Stage
from surestart.typed import at, word

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
        job_attempt=facts.job_attempt,
        started_at=now_ms(),
    )


def options_of(environment: Environment) -> str:
    """What a command needs beside --env to speak of the same place."""
    if environment.root:
        usual = {"root": environment.root}
        # What a command without a root means, when it is typed in the same folder.
        own = environment.name in DEFAULT_ROOTS and environment.root == str(
            Path.cwd() / ".surestart" / environment.name
        )
        parts = [] if own else [f"--root {word(environment.root)}"]
    else:
        usual = {"catalog": environment.catalog, "schema": environment.schema}
        parts = [f"--set {key}={word(value)}" for key, value in usual.items()]
    there = environment_from_settings(environment.name, environment.pipeline, usual, environ={})
    parts += [
        f"--set {key}={word(getattr(environment, key))}"
        for key in ("checkpoint_root", "landing")
        if getattr(environment, key) and getattr(environment, key) != getattr(there, key)
    ]
    return " ".join([*parts, *([environment.typed] if environment.typed else [])])


def named(environment: Environment) -> str:
    """-e and what else a command needs to speak of this environment."""
    return at(environment.name, options_of(environment))


def now_ms() -> int:
    return int(time.time() * 1000)
