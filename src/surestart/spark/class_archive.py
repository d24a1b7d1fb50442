"""A class-data archive for Spark's JVM: made once, it saves each start several seconds of loading 20,000 classes.

    python -m surestart.spark.class_archive    runs a small stream to load the classes, and writes
    <cache>/classes-<digest of Java, jars and Spark>.jsa    (about 150 MB; delete it freely)

The JVM ignores an archive that does not fit its version or class path, so a stale one costs nothing but its gain.
Applies to local sessions only. https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from surestart.cache import cache_folder
from surestart.spark.java import Java, find_java

# Set in the environment of the one process that writes the archive.
WRITES = "SURESTART_WRITES_CLASS_ARCHIVE"


def archive_path(java: Java, jars: Sequence[Path]) -> Path:
    import pyspark

    text = "\n".join([str(java.executable.resolve()), str(java.major), pyspark.__version__, *map(str, jars)])
    home = str(Path(pyspark.__file__).parent)
    return cache_folder() / f"classes-{hashlib.sha256((text + home).encode()).hexdigest()[:12]}.jsa"


def archive_options(java: Java, jars: Sequence[Path]) -> tuple[str, ...]:
    """What Spark's JVM is started with: reading the archive, writing it, or nothing."""
    path = archive_path(java, jars)
    if os.environ.get(WRITES):
        return (f"-XX:ArchiveClassesAtExit={path}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
    if path.exists():
        return (f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
    return ()


# Where somebody else's tables are: the run that loads the classes has a folder of its own.
_PLACES = ("CATALOG", "SCHEMA", "ROOT", "CHECKPOINT_ROOT", "LANDING", "ENV", "PIPELINE", "MASTER")


def write_archive() -> Path | None:
    """The archive is there, or this Java cannot make one (a runtime without its own base archive)."""
    from surestart.spark.jars import resolve_jars

    path = archive_path(find_java(), resolve_jars())
    if path.exists():
        return path
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "surestart", "run", "all", "--root", folder, "--set", "readings=400"]
        done = subprocess.run(
            command, env=child_environment(os.environ), capture_output=True, text=True, check=False, timeout=600
        )
    if done.returncode != 0:
        raise RuntimeError(f"the run that loads the classes ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return path if path.exists() else None


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the run that writes the archive, without those that would make it write into somebody's
    tables."""
    places = {"SPARK_REMOTE", *(f"SURESTART_{place}" for place in _PLACES)}
    return {**{name: value for name, value in environ.items() if name not in places}, WRITES: "1"}


def main() -> None:
    """The archive is there, or stderr says why not and every start takes some seconds longer."""
    from surestart.spark.jars import resolve_jars

    if archive_path(find_java(), resolve_jars()).exists():
        sys.stderr.write("java: the class archive is there\n")
        return
    sys.stderr.write("java: writing a class archive, once (about 30 s; later starts are faster)\n")
    try:
        written = write_archive()
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as problem:
        # It only makes starts faster: no reason to end `make run`.
        sys.stderr.write(f"java: no class archive, so each start takes some seconds longer: {problem}\n")
        return
    sys.stderr.write(f"java: {written.stat().st_size / 1e6:.0f} MB\n" if written else "java: this Java makes none\n")


if __name__ == "__main__":
    main()
