"""Who runs what where, as the history will say it: the record of a run before anything has been started.

Who runs this: host, process, code, job run. Read from the operating system and the environment, without a shell."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from surestart.environment import DEFAULT_ROOTS, Environment, environment_from_settings
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.run_record import RunRecord
from surestart.library_types import SparkSession
from surestart.spark.session import spark_version
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


JOB_RUN, JOB_URL, JOB_ATTEMPT = "SURESTART_JOB_RUN_ID", "SURESTART_JOB_RUN_URL", "SURESTART_JOB_ATTEMPT"
GIT_COMMIT = "SURESTART_GIT_COMMIT"


@dataclass(frozen=True)
class ProcessFacts:
    version: str
    git_commit: str
    runtime: str
    host: str
    pid: int
    process_started: str
    job_run: str
    job_url: str
    job_attempt: str


def read_process_facts(environ: Mapping[str, str] | None = None) -> ProcessFacts:
    variables = os.environ if environ is None else environ
    try:
        wheel = version("surestart")
    except PackageNotFoundError:
        wheel = ""
    return ProcessFacts(
        version=wheel,
        git_commit=variables.get(GIT_COMMIT, "") or read_git_commit(Path(__file__).parent),
        runtime=variables.get("DATABRICKS_RUNTIME_VERSION", "") or "local",
        host=socket.gethostname(),
        pid=os.getpid(),
        process_started=read_process_start(os.getpid()),
        job_run=variables.get(JOB_RUN, ""),
        job_url=variables.get(JOB_URL, ""),
        job_attempt=variables.get(JOB_ATTEMPT, ""),
    )


def read_process_start(pid: int) -> str:
    """Boot, process namespace and ticks since boot: what no other process ever has, unlike a process id. "" when there
    is no such process or the system does not say."""
    try:
        ticks = _stat(pid)[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
        space = str(Path("/proc/self/ns/pid").readlink())[5:-1]
    except (OSError, IndexError):
        return ""
    return f"{boot}/{space}/{ticks}"


def is_paused(pid: int) -> bool:
    """Stopped by SIGSTOP or a debugger: alive, and doing nothing until somebody lets it go on."""
    try:
        return _stat(pid)[0] in ("T", "t")
    except (OSError, IndexError):
        return False


def read_git_commit(folder: Path) -> str:
    """The commit that the code's working copy is at, or ""."""
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        try:
            head = (git / "HEAD").read_text(encoding="utf-8").strip()
        except OSError:
            continue
        if not head.startswith("ref: "):
            return head[:40]
        name = head.removeprefix("ref: ")
        try:
            return (git / name).read_text(encoding="utf-8").strip()[:40]
        except OSError:
            return _packed(git, name)
    return ""


def _packed(git: Path, name: str) -> str:
    try:
        lines = (git / "packed-refs").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line[:40] for line in lines if line.endswith(f" {name}")), "")


def _stat(pid: int) -> list[str]:
    """The fields after the command name, which may itself hold blanks and brackets (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
