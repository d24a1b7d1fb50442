"""Who runs what where, as the history will say it: the record of a run before anything has been started.

The command that an error or a plan names: complete, so that it speaks of the same place when it is typed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from surestart.environment import DEFAULT_ROOTS, Environment, environment_from_settings
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.process_facts import read_process_facts
from surestart.history.run_record import RunRecord
from surestart.spark.session import spark_version
from surestart.spark_types import SparkSession
from surestart.stage import Stage
from surestart.typed import PLAN_FILE, NextCommand, Place, Words, surestart


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


def options_of(environment: Environment) -> Words:
    """What a command needs beside --env to speak of the same place."""
    if environment.root:
        usual = {"root": environment.root}
        # What a command without a root means, when it is typed in the same folder.
        own = environment.name in DEFAULT_ROOTS and environment.root == str(
            Path.cwd() / ".surestart" / environment.name
        )
        words = [] if own else ["--root", environment.root]
    else:
        usual = {"catalog": environment.catalog, "schema": environment.schema}
        words = settings_of(usual)
    there = environment_from_settings(environment.name, environment.pipeline, usual, environ={})
    moved = {key: getattr(environment, key) for key in ("checkpoint_root", "landing")}
    words += settings_of({key: place for key, place in moved.items() if place and place != getattr(there, key)})
    return (*words, *environment.typed)


def settings_of(settings: Mapping[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def named(environment: Environment) -> Place:
    """-e and what else a command needs to speak of this environment."""
    return Place(environment.name, options_of(environment))


def now_ms() -> int:
    return int(time.time() * 1000)


def plan_command(environment: Environment, remedy: str, stage: str, *options: object, note: str = "") -> NextCommand:
    return surestart("plan", remedy, stage, *options, place=named(environment), more=PLAN_FILE, note=note)
