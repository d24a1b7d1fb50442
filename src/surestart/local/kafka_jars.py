"""The jars of a Kafka broker and its command-line tools, resolved once by the Ivy inside pyspark's own jars.

    <cache>/kafka-4.1.1-<digest of the request>/
        ivy.xml         what is asked for: kafka_2.13 with everything it needs, the tools and a logger without
        jars/           47 jars, 45 MB
        resolved.json   {"jars": [...]}, written last

No Maven, no Docker, no installation: pyspark brings Ivy, Ivy asks Maven Central.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from surestart.cache import cache_folder
from surestart.errors import CannotTell
from surestart.java import Java

KAFKA_VERSION = "4.1.1"

# kafka-tools (kafka-consumer-groups and the like) asks for all of Kafka Connect, 40 jars that no tool here uses.
# Without the logger the broker's own messages go nowhere, the reason for a failed start included.
_REQUEST = f"""<ivy-module version="2.0">
  <info organisation="surestart" module="kafka-broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default-&gt;default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{KAFKA_VERSION}" conf="default-&gt;master"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.24.3" conf="default-&gt;master"/>
  </dependencies>
</ivy-module>
"""


def kafka_jars_folder() -> Path:
    return cache_folder() / f"kafka-{KAFKA_VERSION}-{hashlib.sha256(_REQUEST.encode()).hexdigest()[:12]}"


def are_resolved() -> bool:
    """Whether a resolution has finished and every file of it is still there."""
    folder = kafka_jars_folder()
    try:
        names = json.loads((folder / "resolved.json").read_text())["jars"]
    except (OSError, ValueError, KeyError):
        return False
    return bool(names) and all((folder / "jars" / name).exists() for name in names)


def resolve_kafka_jars(java: Java, say: Callable[[str], object] = lambda line: None) -> Path:
    """The folder with the broker's jars and nothing else; `say` gets a line for each jar while they download."""
    folder = kafka_jars_folder()
    if are_resolved():
        return folder / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    request = folder / "ivy.xml"
    request.write_text(_REQUEST)
    command = [
        *(str(java.executable), *java.options, "-jar", str(_ivy_jar())),
        *("-cache", str(folder / "ivy"), "-ivy", str(request), "-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", str(folder / "jars" / "[artifact]-[revision].[ext]")),
    ]
    seen: list[str] = []
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(line.rstrip())
            if line.startswith("downloading"):
                count = sum(text.startswith("downloading") for text in seen)
                say(f"  downloading jar {count}: {line.split()[1].rsplit('/', 1)[-1]}")
    jars = sorted((folder / "jars").glob("*.jar"))
    names = {jar.name for jar in jars}
    if process.returncode != 0 or not {f"kafka_2.13-{KAFKA_VERSION}.jar", f"kafka-tools-{KAFKA_VERSION}.jar"} <= names:
        raise CannotTell(
            f"Ivy ended with {process.returncode} and {len(jars)} jars: {_last_problem(seen)}",
            meaning="Kafka's jars are not on this machine, so no local broker can start. Everything else works.",
            next="surestart kafka start",
            do_not="copy single jars by hand: a missing one fails later, while the broker runs.",
            code="KafkaJarsNotResolved",
        )
    draft = folder / f"resolved.{os.getpid()}"
    draft.write_text(json.dumps({"jars": sorted(names)}, indent=1))
    draft.replace(folder / "resolved.json")
    return folder / "jars"


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or []) if spec else []
    jars = sorted(jar for place in places for jar in (Path(place) / "jars").glob("ivy-*.jar"))
    if not jars:
        raise CannotTell(
            "pyspark, whose jars include Ivy, is not installed in this environment",
            meaning="Ivy fetches the broker's jars; without it a local broker cannot be set up.",
            next=f"{sys.executable} -m pip install 'surestart[local,kafka]'",
            code="SparkNotInstalled",
        )
    return jars[-1]


def _last_problem(lines: list[str]) -> str:
    problems = [text for text in lines if any(word in text.lower() for word in ("unresolved", "error", "not found"))]
    return (problems or lines or ["no output"])[-1].strip()
