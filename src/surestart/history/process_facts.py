"""Who runs this: host, process, code, job run. Read from the operating system and the environment, without a shell."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
