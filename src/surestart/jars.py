"""The jars that local Spark needs beside its own: resolved once by Spark's package resolution, then kept.

    <cache>/jars-<digest of the coordinates>/
        ivy/            what `spark-submit --packages` downloaded
        resolved.json   {"coordinates": [...], "jars": ["ivy/jars/….jar", …]}, written last

Naming the files at start instead of the packages saves Ivy's resolution at every start and works without a network.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from surestart.cache import cache_folder
from surestart.errors import CannotTell
from surestart.java import find_java, launcher_home

# Kafka and Avro stay at 4.0.0: the last version whose every dependency is in Maven Central (design.md, Decided).
COORDINATES = (
    "io.delta:delta-spark_4.0_2.13:4.4.0",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "org.apache.spark:spark-avro_2.13:4.0.0",
)


def jars_folder(coordinates: tuple[str, ...] = COORDINATES) -> Path:
    return cache_folder() / f"jars-{hashlib.sha256(' '.join(coordinates).encode()).hexdigest()[:12]}"


def read_resolved(coordinates: tuple[str, ...] = COORDINATES) -> tuple[Path, ...]:
    """The jars of a finished resolution, or nothing when there is none or a file of it is gone."""
    folder = jars_folder(coordinates)
    try:
        names = json.loads((folder / "resolved.json").read_text())["jars"]
    except (OSError, ValueError, KeyError):
        return ()
    jars = tuple(folder / name for name in names)
    return jars if all(jar.exists() for jar in jars) else ()


def resolve_jars(
    coordinates: tuple[str, ...] = COORDINATES, say: Callable[[str], object] = lambda line: None
) -> tuple[Path, ...]:
    """The jars are on this machine; `say` gets a line for each package while they download."""
    found = read_resolved(coordinates)
    if found:
        return found
    folder = jars_folder(coordinates)
    folder.mkdir(parents=True, exist_ok=True)
    spark_home = _spark_home()
    # Any class with a quick main will do: the packages are resolved before it is called.
    command = [
        str(spark_home / "bin" / "spark-submit"),
        *("--master", "local", "--conf", f"spark.jars.ivy={folder / 'ivy'}"),
        *("--packages", ",".join(coordinates)),
        *("--class", "org.apache.hadoop.util.VersionInfo", "spark-internal"),
    ]
    environment = {**os.environ, "JAVA_HOME": str(launcher_home(find_java())), "SPARK_HOME": str(spark_home)}
    seen: list[str] = []
    with subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            seen.append(line.rstrip())
            if line.startswith("downloading"):
                count = sum(text.startswith("downloading") for text in seen)
                say(f"  downloading jar {count}: {line.split()[1].rsplit('/', 1)[-1]}")
    # Spark's own versions of what it ships must win: Delta brings an older Jackson and a newer Hadoop.
    shipped = {_artifact(jar.name) for jar in (spark_home / "jars").glob("*.jar")}
    jars = [jar for jar in sorted((folder / "ivy" / "jars").glob("*.jar")) if not _ships(jar.name, shipped)]
    if process.returncode != 0 or not jars:
        raise CannotTell(
            f"Spark's package resolution ended with {process.returncode}: {_last_problem(seen)}",
            meaning="The Delta, Kafka and Avro connectors are not on this machine, so no stream can start.",
            next="make setup",
            do_not="copy single jars by hand: a missing transitive one fails later, in mid-batch.",
            code="JarsNotResolved",
        )
    stamp = {"coordinates": coordinates, "jars": [str(jar.relative_to(folder)) for jar in jars]}
    draft = folder / f"resolved.{os.getpid()}"
    draft.write_text(json.dumps(stamp, indent=1))
    draft.replace(folder / "resolved.json")
    return tuple(jars)


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise CannotTell(
            "pyspark is not installed in this environment",
            meaning="Reading checkpoints works without it; running a stage does not.",
            next=f"{sys.executable} -m pip install 'surestart[local]'",
            code="SparkNotInstalled",
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _artifact(file_name: str) -> str:
    return re.split(r"-\d", file_name, maxsplit=1)[0]


def _ships(retrieved: str, shipped: set[str]) -> bool:
    """Whether a jar named <organisation>_<artifact>-<version>.jar is one of Spark's own artifacts."""
    parts = _artifact(retrieved).split("_")
    return any("_".join(parts[start:]) in shipped for start in range(1, len(parts)))


def _last_problem(lines: list[str]) -> str:
    problems = [
        line for line in lines if "unresolved" in line.lower() or "error" in line.lower() or "not found" in line
    ]
    return (problems or lines or ["no output"])[-1].strip()


if __name__ == "__main__":
    sys.stderr.write("jars: resolving Delta, Kafka and Avro connectors\n")
    resolved = resolve_jars(say=lambda line: sys.stderr.write(line + "\n"))
    size = sum(jar.stat().st_size for jar in resolved)
    sys.stderr.write(f"jars: {len(resolved)} files, {size / 1e6:.0f} MB\n")
