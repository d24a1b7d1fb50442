"""Runs one system in a process of its own and measures the whole tree below it: time, CPU, memory.

    driver python (session leader) ── java ── python workers      one session, found by its id in /proc

Memory is the largest sum, over the processes alive at one moment, of each one's highest resident size so far (VmHWM):
an upper bound of what they held at once, in which a launcher that has ended does not count. CPU is
user and system time, children that were sampled until they ended included.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_SAMPLE_SECONDS = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Measured:
    """ended: the exit code, or None when the tree was killed on purpose."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str
    ended: int | None


class SystemFailed(RuntimeError):
    """A measured system ended with an error; its numbers are not reported."""


def run_measured(
    arguments: list[str],
    *,
    variables: Mapping[str, str] | None = None,
    kill_when: Callable[[], bool] | None = None,
    limit_seconds: float = 1800,
    python: str = sys.executable,
) -> Measured:
    """`python arguments` has ended, or its whole tree was killed with SIGKILL once kill_when() was true."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.monotonic()
        child = subprocess.Popen(
            [python, *arguments],
            env={**os.environ, **(variables or {})},
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        cpu: dict[int, float] = {}
        peak = 0
        killed = False
        try:
            while child.poll() is None:
                peak = max(peak, _sample(child.pid, cpu))
                if kill_when is not None and kill_when():
                    killed = True
                    break
                if time.monotonic() - began > limit_seconds:
                    raise SystemFailed(f"{' '.join(arguments)} did not end within {limit_seconds:.0f} s")
                time.sleep(_SAMPLE_SECONDS)
            seconds = time.monotonic() - began
        finally:
            _kill_session(child.pid)
            child.wait()
        out.seek(0)
        err.seek(0)
        if child.returncode != 0 and not killed:
            raise SystemFailed(f"{' '.join(arguments)} ended with {child.returncode}:\n{err.read()[-3000:]}")
        return Measured(seconds, sum(cpu.values()), peak, out.read(), None if killed else 0)


def _sample(session: int, cpu: dict[int, float]) -> int:
    """CPU so far of each process alive is in `cpu`; the sum of their highest resident sizes is returned."""
    sizes: dict[int, int] = {}
    commands: dict[int, str] = {}
    parents: dict[int, int] = {}
    for pid in _members(session):
        with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            cpu[pid] = (int(fields[11]) + int(fields[12])) / _TICKS
            # Before its size: a child that has become another program in between is small by then.
            command = Path(f"/proc/{pid}/cmdline").read_text()
            status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            sizes[pid] = int(status["VmHWM"].split()[0]) * 1024
            commands[pid], parents[pid] = command, int(fields[1])
    # Java starts a program by a child that shares all of its memory until it becomes that program.
    return sum(
        size
        for pid, size in sizes.items()
        if not (commands[pid].split("\0")[0].endswith("java") and commands.get(parents[pid]) == commands[pid])
    )


def _members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.getsid(int(entry.name)) == session:
                    found.append(int(entry.name))
    return found


def _kill_session(session: int) -> None:
    """Nothing of the tree is left: a JVM that outlives its Python would go on writing into the next measurement."""
    for pid in _members(session):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    while _members(session):
        # Zombies that are not ours are reaped by init; ours is reaped here.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(session, os.WNOHANG)
        time.sleep(0.02)
