"""Jars are used by content: whatever a cache of this machine holds, one that was not locked is refused before use."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from surestart.errors import Refused
from surestart.local import kafka_jars
from surestart.local.kafka_jars import kafka_jars_folder, resolve_kafka_jars
from surestart.spark import jars as connectors
from surestart.spark.jar_lock import FOLDER, check_jars, jar_digest, read_lock
from surestart.spark.jars import jars_folder, read_resolved, resolve_jars
from surestart.spark.java import find_java
from surestart.spark.spark_lines import LINES, installed_line


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what was downloaded, to be tampered with."""
    resolve_jars()
    resolve_kafka_jars(find_java())
    for folder in (jars_folder(), kafka_jars_folder()):
        # Hard links, without Ivy's own cache: the copy's names may be replaced, its bytes never written over.
        keep = shutil.ignore_patterns("cache", "ivy2", "ivy" if folder == kafka_jars_folder() else "none")
        shutil.copytree(folder, tmp_path / folder.name, copy_function=os.link, ignore=keep)
    monkeypatch.setenv("SURESTART_CACHE", str(tmp_path))
    return tmp_path


def change_a_byte(jar: Path) -> None:
    data = bytearray(jar.read_bytes())
    data[len(data) // 2] ^= 1
    jar.unlink()
    jar.write_bytes(data)


def leave_out(jar: Path) -> None:
    jar.unlink()


def put_another_beside(jar: Path) -> None:
    (jar.parent / "a-1.0.jar").write_bytes(jar.read_bytes())


def test_what_was_locked_is_used(cache: Path) -> None:
    assert {jar_digest(jar) for jar in resolve_jars()} == set(lock_of_line().jars.values())
    assert cache in resolve_kafka_jars(find_java()).parents


def lock_of_line() -> connectors.JarLock:
    line = installed_line()
    return read_lock(f"spark-{line.name}", (*line.packages, *line.stand_ins), "surestart.spark.jars")


def test_a_connector_that_is_another_one_starts_no_spark(cache: Path) -> None:
    jar = next(jar for jar in read_resolved() if "kafka-clients" in jar.name)
    change_a_byte(jar)
    with pytest.raises(Refused, match=re.escape(jar.name)) as refused:
        resolve_jars()
    assert refused.value.code == "JarNotAsLocked"
    assert str(refused.value.next) == f"{sys.executable} -m surestart.spark.jars --again"
    done = subprocess.run(
        [sys.executable, "-m", "surestart", "run", "all", "--root", str(cache / "root"), "--set", "readings=10"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.splitlines()[0].startswith("JarNotAsLocked: ")
    assert not (cache / "root").exists()


@pytest.mark.parametrize("harm", [change_a_byte, leave_out, put_another_beside])
def test_no_broker_starts_from_other_jars(cache: Path, harm: Callable[[Path], None]) -> None:
    harm(kafka_jars_folder() / "jars/snappy-java-1.1.10.7.jar")
    with pytest.raises(Refused, match="kafka-broker") as refused:
        resolve_kafka_jars(find_java())
    assert str(refused.value.next) == f"{sys.executable} -m surestart.local.kafka_jars --again"


def test_a_resolution_that_brings_something_else_is_not_noted_as_done(cache: Path) -> None:
    """As from a repository or a local cache that holds another jar under the same name and version."""
    (kafka_jars_folder() / "resolved.json").unlink()
    change_a_byte(kafka_jars_folder() / "jars/snappy-java-1.1.10.7.jar")
    lock = read_lock("kafka-broker", kafka_jars._REQUESTED, "surestart.local.kafka_jars")
    with pytest.raises(Refused):
        check_jars(lock, sorted((kafka_jars_folder() / "jars").glob("*")), "surestart.local.kafka_jars")
    assert not (kafka_jars_folder() / "resolved.json").exists()


def test_other_versions_than_those_locked_are_not_resolved() -> None:
    with pytest.raises(Refused, match=r"is locked for other versions: x:y:1"):
        read_lock("kafka-broker", (*kafka_jars._REQUESTED, "x:y:1"), "surestart.local.kafka_jars")


@pytest.mark.parametrize("name", [*(f"spark-{line.name}" for line in LINES), "kafka-broker"])
def test_every_line_has_a_lock_of_names_versions_and_digests(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text()
    assert "://" not in text
    body = json.loads(text)
    wanted = {
        **{f"spark-{line.name}": [*line.packages, *line.stand_ins] for line in LINES},
        "kafka-broker": list(kafka_jars._REQUESTED),
    }
    assert body["requested"] == wanted[name]
    assert all(re.fullmatch(r"[\w.+-]+-\d[\w.-]*\.jar", jar) for jar in body["jars"])
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in body["jars"].values())
    for coordinate in body["requested"]:
        _, artifact, version = coordinate.split(":")
        assert any(jar.endswith(f"{artifact}-{version}.jar") for jar in body["jars"]), coordinate


@pytest.mark.chaos
def test_a_local_maven_repository_changes_nothing(tmp_path: Path) -> None:
    """Spark's resolution looks into ~/.m2 first. The home of this JVM holds another jar under the locked name."""
    coordinate = next(one for one in installed_line().packages if "kafka-clients" in one)
    group, artifact, version = coordinate.split(":")
    place = tmp_path / ".m2/repository" / group.replace(".", "/") / artifact / version
    place.mkdir(parents=True)
    (place / f"{artifact}-{version}.jar").write_bytes(b"not the jar")
    (place / f"{artifact}-{version}.pom").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></project>"
    )
    environ = {
        **os.environ,
        "SURESTART_CACHE": str(tmp_path / "cache"),
        "JAVA_TOOL_OPTIONS": f"-Duser.home={tmp_path}",
    }
    done = subprocess.run(
        [sys.executable, "-m", "surestart.spark.jars"], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
