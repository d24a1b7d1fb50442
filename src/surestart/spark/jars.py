"""The jars that local Spark needs beside its own: resolved once by Spark's package resolution, then kept.

    <cache>/jars-<digest of the coordinates>/
        ivy/            what `spark-submit --packages` downloaded
        resolved.json   {"coordinates": [...], "jars": ["ivy/jars/….jar", …]}, written last

Naming the files at start instead of the packages saves Ivy's resolution at every start and works without a network.
Each use is held against the lock of the line (jar_lock): 30 ms.

    python -m surestart.spark.jars [--again | --lock]     resolve; from the beginning; and write the lock anew
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from surestart.cache import cache_folder
from surestart.errors import CannotTell, SurestartError, UsageError
from surestart.spark.jar_lock import (
    STAMP,
    check_jars,
    fill_folder,
    follow_download,
    last_problem,
    read_lock,
    write_lock,
)
from surestart.spark.java import find_java, launcher_home
from surestart.spark.spark_lines import installed_line
from surestart.typed import typed
from surestart.words.next_commands import install_extra

# What a stand-in would pull in, and the connectors have brought in their own version.
_BROUGHT_ALREADY = ("org.apache.kafka:*",)
_MODULE = "surestart.spark.jars"


def jars_folder(coordinates: tuple[str, ...] = ()) -> Path:
    if not coordinates:
        line = installed_line()
        coordinates = (*line.packages, *line.stand_ins)
    return cache_folder() / f"jars-{hashlib.sha256(' '.join(coordinates).encode()).hexdigest()[:12]}"


def read_resolved(coordinates: tuple[str, ...] = ()) -> tuple[Path, ...]:
    """The jars of a finished resolution, or nothing when there is none or a file of it is gone."""
    folder = jars_folder(coordinates)
    try:
        names = json.loads((folder / STAMP).read_text())["jars"]
    except (OSError, ValueError, KeyError):
        return ()
    jars = tuple(folder / name for name in names)
    return jars if all(jar.exists() for jar in jars) else ()


def resolve_jars(
    more: tuple[str, ...] = (), say: Callable[[str], object] = lambda line: None, *, again: bool = False
) -> tuple[Path, ...]:
    """The connectors of the installed line of Spark, and `more`, are on this machine and are the ones that were locked;
    `say` gets a line for each package while they download. again: they are downloaded also where they lie already."""
    spark = installed_line()
    lock = read_lock(f"spark-{spark.name}", (*spark.packages, *spark.stand_ins), _MODULE)
    coordinates = (*lock.requested, *more)

    def fill(folder: Path) -> str:
        jars = _resolve(folder, more, set(lock.jars), say)
        check_jars(lock, jars, _MODULE, more=bool(more))
        named = [str(jar.relative_to(folder)) for jar in jars]
        return json.dumps({"coordinates": coordinates, "jars": named}, indent=1)

    if again or not read_resolved(coordinates):
        # One whose stamp is there lacks a jar.
        folder = jars_folder(coordinates)
        fill_folder(folder, fill, again=again or (folder / STAMP).exists())
    jars = read_resolved(coordinates)
    check_jars(lock, jars, _MODULE, more=bool(more))
    return jars


def _resolve(folder: Path, more: tuple[str, ...], locked: set[str], say: Callable[[str], object]) -> tuple[Path, ...]:
    spark = installed_line()
    folder.mkdir(parents=True, exist_ok=True)
    _download(folder, (*spark.packages, *more), spark.left_out, say)
    if spark.stand_ins:
        _download(folder, spark.stand_ins, _BROUGHT_ALREADY, say)
    # Spark's own versions of what it ships must win: Delta brings an older Jackson and a newer Hadoop.
    shipped = {_artifact(jar.name) for jar in (_spark_home() / "jars").glob("*.jar")}
    jars = sorted((folder / "ivy" / "jars").glob("*.jar"))
    return tuple(jar for jar in jars if jar.name in locked or not _ships(jar.name, shipped))


def _download(folder: Path, packages: tuple[str, ...], left_out: tuple[str, ...], say: Callable[[str], object]) -> None:
    """The packages and all that they need are in the folder's ivy/jars."""
    home = _spark_home()
    # Any class with a quick main will do: the packages are resolved before it is called.
    command = [
        str(home / "bin" / "spark-submit"),
        *("--master", "local", "--conf", f"spark.jars.ivy={folder / 'ivy'}"),
        # Spark's resolution would look into ~/.m2 first.
        *("--driver-java-options", f'"-Duser.home={folder}"'),
        *("--packages", ",".join(packages)),
        *(("--exclude-packages", ",".join(left_out)) if left_out else ()),
        *("--class", "org.apache.hadoop.util.VersionInfo", "spark-internal"),
    ]
    java = launcher_home(find_java(supported=installed_line().java))
    environment = {**os.environ, "JAVA_HOME": str(java), "SPARK_HOME": str(home)}
    with subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        seen = follow_download(process.stderr, say)
    if process.returncode != 0:
        raise CannotTell(
            f"Spark's package resolution ended with {process.returncode}: {last_problem(seen)}",
            meaning="The Delta, Kafka and Avro connectors are not on this machine, so no stream can start.",
            next=typed("make", "setup"),
            do_not="copy single jars by hand: a missing transitive one fails later, in mid-batch.",
            code="JarsNotResolved",
        )


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(
            "pyspark is not installed in this environment",
            meaning="Reading checkpoints works without it; running a stage does not.",
            next=install_extra("local"),
            code="SparkNotInstalled",
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _artifact(file_name: str) -> str:
    return re.split(r"-\d", file_name, maxsplit=1)[0]


def _ships(retrieved: str, shipped: set[str]) -> bool:
    """Whether a jar named <organisation>_<artifact>-<version>.jar is one of Spark's own artifacts."""
    parts = _artifact(retrieved).split("_")
    return any("_".join(parts[start:]) in shipped for start in range(1, len(parts)))


def main(arguments: Sequence[str]) -> int:
    sys.stderr.write("jars: resolving Delta, Kafka and Avro connectors\n")

    def say(line: str) -> None:
        sys.stderr.write(line + "\n")

    try:
        if "--lock" in arguments:
            _write_lock(say)
        resolved = resolve_jars(say=say, again="--again" in arguments)
    except SurestartError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    size = sum(jar.stat().st_size for jar in resolved)
    sys.stderr.write(f"jars: {len(resolved)} files, {size / 1e6:.0f} MB\n")
    return 0


def _write_lock(say: Callable[[str], object]) -> None:
    spark = installed_line()
    own = {
        f"{group}_{artifact}-{version}.jar" for group, artifact, version in (one.split(":") for one in spark.packages)
    }
    # Not in the cache: a session that runs opens its jars again and again.
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        jars = _resolve(Path(folder), (), own, say)
        write_lock(f"spark-{spark.name}", (*spark.packages, *spark.stand_ins), jars)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
