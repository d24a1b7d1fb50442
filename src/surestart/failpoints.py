"""Places where a test lets the whole run die as if the machine had lost power; without effect unless armed.

    SURESTART_FAILPOINT=<name>        die when fail_point(<name>) is called
    SURESTART_FAILPOINT=<name>:<n>    die at the n-th call of this process
    SURESTART_FAILPOINT=stop@<name>   stop there (SIGSTOP) until somebody sends SIGCONT, as if the machine were slow

    driver python (session leader) ── JVM ── python workers (own process groups, same session)

Everything dies by SIGKILL, so no `finally`, no shutdown hook and no socket goodbye runs. Start the run that shall die
with `subprocess.Popen(..., start_new_session=True)` and the variable in its environment: then its session is killed,
workers included. Reached in a process whose session leader was not armed (a shell, a test runner), only the process
group of that process dies.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

VARIABLE = "SURESTART_FAILPOINT"

_reached: Counter[str] = Counter()


def fail_point(name: str) -> None:
    """Returns, unless this point is armed: then the run is dead, or stands still."""
    armed = os.environ.get(VARIABLE)
    if not armed:
        return
    how, _, place = armed.rpartition("@")
    wanted, _, count = place.partition(":")
    if wanted != name:
        return
    _reached[name] += 1
    if _reached[name] < int(count or 1):
        return
    if how == "stop":
        if _reached[name] == int(count or 1):
            os.kill(os.getpid(), signal.SIGSTOP)
        return
    _kill_run()


def _kill_run() -> None:
    leader = os.getsid(0)
    if _was_armed(leader):
        for pid in session_members(leader):
            if pid != os.getpid():
                _kill(pid)
    else:
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _was_armed(pid: int) -> bool:
    try:
        return f"{VARIABLE}=".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def session_members(leader: int) -> list[int]:
    """The processes alive in the session that `leader` leads (Linux)."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == leader:
                    members.append(int(entry.name))
            except ProcessLookupError:
                continue
    return members


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
