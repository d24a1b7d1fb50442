"""The jars of a Kafka broker and its command-line tools, resolved once by the Ivy inside pyspark's own jars.

    <cache>/kafka-4.1.2-<digest of the request>/
        ivy.xml         what is asked for: kafka_2.13 with everything it needs, the tools and a logger without
        jars/           the jars that jar_locks/kafka-broker.json names, 45 MB
        resolved.json   {"jars": [...]}, written last

No Maven, no Docker, no installation: pyspark brings Ivy, Ivy asks Maven Central.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
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
from surestart.spark.java import Java, find_java
from surestart.typed import surestart
from surestart.words.next_commands import install_extra

KAFKA_VERSION = "4.1.2"
# The maintained copy of lz4-java, whose last version 1.8.0 has CVE-2025-12183 and -66566.
LZ4_VERSION = "1.11.0"
LOG4J_VERSION = "2.25.3"
_LOCK, _MODULE = "kafka-broker", "surestart.local.kafka_jars"
_REQUESTED = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    f"at.yawk.lz4:lz4-java:{LZ4_VERSION}",
    f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSION}",
)

# kafka-tools (kafka-consumer-groups and the like) asks for all of Kafka Connect, 40 jars that no tool here uses.
# Without the logger the broker's own messages go nowhere, the reason for a failed start included.
_REQUEST = f"""<ivy-module version="2.0">
  <info organisation="surestart" module="kafka-broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default-&gt;default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{KAFKA_VERSION}" conf="default-&gt;master"/>
    <dependency org="at.yawk.lz4" name="lz4-java" rev="{LZ4_VERSION}" conf="default-&gt;master"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="{LOG4J_VERSION}" conf="default-&gt;master"/>
    <dependency org="org.apache.logging.log4j" name="log4j-core" rev="{LOG4J_VERSION}" conf="default-&gt;master"/>
    <dependency org="org.apache.logging.log4j" name="log4j-api" rev="{LOG4J_VERSION}" conf="default-&gt;master"/>
    <exclude org="org.lz4" module="lz4-java"/>
  </dependencies>
</ivy-module>
"""


def kafka_jars_folder() -> Path:
    return cache_folder() / f"kafka-{KAFKA_VERSION}-{hashlib.sha256(_REQUEST.encode()).hexdigest()[:12]}"


def resolve_kafka_jars(java: Java, say: Callable[[str], object] = lambda line: None, *, again: bool = False) -> Path:
    """The folder with the broker's jars as they were locked, and nothing else; `say` gets a line for each jar while
    they download. again: they are downloaded also where they lie already."""
    folder = kafka_jars_folder()
    lock = read_lock(_LOCK, _REQUESTED, _MODULE)

    def fill(draft: Path) -> str:
        _resolve(draft, java, say)
        check_jars(lock, sorted((draft / "jars").glob("*")), _MODULE)
        return json.dumps({"jars": sorted(lock.jars)}, indent=1)

    if again or not (folder / STAMP).exists():
        fill_folder(folder, fill, again=again)
    # The broker's class path is the folder: a jar that was put beside the others would be loaded as well.
    check_jars(lock, sorted((folder / "jars").glob("*")), _MODULE)
    return folder / "jars"


def _resolve(folder: Path, java: Java, say: Callable[[str], object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    request = folder / "ivy.xml"
    request.write_text(_REQUEST)
    command = [
        # Ivy would look into ~/.ivy2/local first.
        *(
            str(java.executable),
            *java.options,
            f"-Duser.home={folder}",
            f"-Divy.default.ivy.user.dir={folder / 'ivy2'}",
        ),
        *("-jar", str(_ivy_jar())),
        *("-cache", str(folder / "ivy"), "-ivy", str(request), "-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", str(folder / "jars" / "[artifact]-[revision].[ext]")),
    ]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        seen = follow_download(process.stdout, say)
    jars = sorted((folder / "jars").glob("*.jar"))
    names = {jar.name for jar in jars}
    if process.returncode != 0 or not {f"kafka_2.13-{KAFKA_VERSION}.jar", f"kafka-tools-{KAFKA_VERSION}.jar"} <= names:
        raise CannotTell(
            f"Ivy ended with {process.returncode} and {len(jars)} jars: {last_problem(seen)}",
            meaning="Kafka's jars are not on this machine, so no local broker can start. Everything else works.",
            next=surestart("kafka", "start"),
            do_not="copy single jars by hand: a missing one fails later, while the broker runs.",
            code="KafkaJarsNotResolved",
        )


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or []) if spec else []
    jars = sorted(jar for place in places for jar in (Path(place) / "jars").glob("ivy-*.jar"))
    if not jars:
        raise UsageError(
            "pyspark, whose jars include Ivy, is not installed in this environment",
            meaning="Ivy fetches the broker's jars; without it a local broker cannot be set up.",
            next=install_extra("local", "kafka"),
            code="SparkNotInstalled",
        )
    return jars[-1]


def main(arguments: Sequence[str]) -> int:
    def say(line: str) -> None:
        sys.stderr.write(line + "\n")

    try:
        if "--lock" in arguments:
            # Not in the cache: a broker that runs opens its jars again and again.
            with tempfile.TemporaryDirectory(dir=cache_folder()) as fresh:
                _resolve(Path(fresh), find_java(), say)
                write_lock(_LOCK, _REQUESTED, (Path(fresh) / "jars").glob("*.jar"))
        jars = sorted(resolve_kafka_jars(find_java(), say, again="--again" in arguments).glob("*.jar"))
    except SurestartError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stderr.write(f"kafka: {len(jars)} files, {sum(jar.stat().st_size for jar in jars) / 1e6:.0f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
