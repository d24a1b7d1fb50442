"""The Spark lines that surestart runs on: which versions belong together, and what differs between them.

    line   Scala   Delta               Kafka connector   Databricks Runtime     serverless environment
    3.5    2.12    3.3                 3.5               14 to 16               1 to 3
    4.0    2.13    4.4, for Spark 4.0  4.0               17                     4
    4.1    2.13    4.4, for Spark 4.1  4.1               18                     5
    4.2    2.13    4.4, for Spark 4.2  4.2                                                     no Avro connector

Everything that depends on the version of Spark asks here. A version that stands in no line is unknown: it is said to be
so, and never compared as text ("3.10" would come before "3.5").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from surestart.errors import UsageError
from surestart.words.next_commands import install


@dataclass(frozen=True)
class SparkLine:
    """name: major and minor version of Spark.
    pyspark: what `make` installs for this line.
    packages: the connectors that local Spark needs beside its own jars, as Maven coordinates.
    left_out: what those connectors ask for and no repository has.
    stand_ins: other versions of it, taken without what they would pull in: the connectors have brought that.
    java: the major versions of Java that it runs on.
    file_managers: the package of Spark's checkpoint file managers, which moved in 4.1.
    runtimes: the major versions of Databricks Runtime that carry this line.
    clients: the environment versions of serverless compute that do."""

    name: str
    pyspark: str
    packages: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()
    java: tuple[int, ...] = (17, 21)
    file_managers: str = "org.apache.spark.sql.execution.streaming.checkpointing"
    runtimes: tuple[int, ...] = ()
    clients: tuple[int, ...] = ()

    @property
    def has_avro(self) -> bool:
        return any(":spark-avro_" in package for package in self.packages)

    @property
    def number(self) -> tuple[int, int]:
        major, minor = self.name.split(".")
        return int(major), int(minor)


# spark-token-provider-kafka-0-10_2.13 is in Maven Central in version 4.0.0 only. It hands out delegation tokens, which
# these connectors ask for by the same calls: tried with 4.1 and 4.2 against a real broker.
_TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"

# The connectors ask for kafka-clients 3.4.1 to 3.9.1 (CVE-2025-27817, -27818). Up to 4.1 Spark itself ships lz4-java
# 1.8.0 (CVE-2025-12183, -66566); its maintained copy has the same classes under another group, is what Spark 4.2 ships,
# and stands in front of Spark's own.
_KAFKA_CLIENTS = "org.apache.kafka:kafka-clients:3.9.2"
_LZ4 = "at.yawk.lz4:lz4-java:1.11.0"

LINES = (
    SparkLine(
        name="3.5",
        pyspark="pyspark[connect]>=3.5.6,<3.6",
        packages=(
            "io.delta:delta-spark_2.12:3.3.2",
            "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",
            "org.apache.spark:spark-avro_2.12:3.5.5",
            _KAFKA_CLIENTS,
            _LZ4,
        ),
        java=(17,),
        file_managers="org.apache.spark.sql.execution.streaming",
        runtimes=(14, 15, 16),
        clients=(1, 2, 3),
    ),
    SparkLine(
        name="4.0",
        pyspark="pyspark[connect]>=4.0.1,<4.1",
        packages=(
            "io.delta:delta-spark_4.0_2.13:4.4.0",
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
            "org.apache.spark:spark-avro_2.13:4.0.0",
            _KAFKA_CLIENTS,
            _LZ4,
        ),
        file_managers="org.apache.spark.sql.execution.streaming",
        runtimes=(17,),
        clients=(4,),
    ),
    SparkLine(
        name="4.1",
        pyspark="pyspark[connect]>=4.1,<4.2",
        packages=(
            "io.delta:delta-spark_4.1_2.13:4.4.0",
            # 4.1.1 fails once at each start that replays a batch (a null of its own; seen).
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
            "org.apache.spark:spark-avro_2.13:4.1.1",
            _KAFKA_CLIENTS,
            _LZ4,
        ),
        left_out=(_TOKENS,),
        stand_ins=(f"{_TOKENS}:4.0.0",),
        runtimes=(18,),
        clients=(5,),
    ),
    SparkLine(
        name="4.2",
        pyspark="pyspark[connect]>=4.2,<4.3",
        packages=(
            "io.delta:delta-spark_4.2_2.13:4.4.0",
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            _KAFKA_CLIENTS,
        ),
        left_out=(_TOKENS,),
        stand_ins=(f"{_TOKENS}:4.0.0",),
    ),
)
NAMES = tuple(line.name for line in LINES)
# The line that `make run` installs, and that a question about nobody's Spark in particular is answered for.
DEFAULT = "4.1"
# The first version of Databricks Runtime that is known without its name; Spark's own numbers are far below.
_RUNTIMES_FROM = 10
_SPARK, _RUNTIME, _CLIENT = "spark", "runtime", "client"
# What people, clusters and images call each; the first part of a version, after which its number begins.
_SPOKEN = (
    (_CLIENT, r"(?:databricks )?(?:serverless|client|environment)(?: (?:compute|environment|client|base|version))*"),
    (_RUNTIME, r"(?:databricks runtime|databricks connect|databricks|runtime|dbr)"),
    (_SPARK, r"(?:apache )?(?:py)?spark"),
)
_MARKS = re.compile(r"[ _:/-]+")
# Of a runtime and of a client the major number alone says the line.
_NUMBER = re.compile(r"v?([0-9]{1,3})(?:\.([0-9]{1,3}|x)(?:[. +].*)?| ?lts.*| scala.*)?(?: ?lts.*)?")

_ONLY_RUNTIMES = re.compile(r"lts|\.x .*scala")


@dataclass(frozen=True)
class _Said:
    """A version as it is written: of what, and its first two numbers; minor None where it was not said."""

    kind: str
    major: int
    minor: int | None


def _read(version: str) -> _Said | None:
    """None for what names no number of Spark, of Databricks Runtime or of serverless compute."""
    text = _MARKS.sub(" ", version.strip().lower())
    kind, rest = "", text
    for one, name in _SPOKEN:
        if found := re.match(name + r"[ .]?(?=v?[0-9])", text):
            kind, rest = one, text[found.end() :]
            break
    number = _NUMBER.fullmatch(rest)
    if number is None or not version.isascii():
        return None
    major = int(number[1])
    if not kind:
        kind = _RUNTIME if major >= _RUNTIMES_FROM or _ONLY_RUNTIMES.search(rest) else _SPARK
    return _Said(kind, major, int(number[2]) if (number[2] or "x") != "x" else None)


def find_line(version: str) -> SparkLine | None:
    """The line of a version of Spark (`4.0.5`), of Databricks Runtime (`15.4`, `16.4.x-scala2.12`, `17`) or of
    serverless compute (`client.5.1`, `serverless 5`); None for one that is not known."""
    match _read(version):
        case _Said("client", major):
            return next((line for line in LINES if major in line.clients), None)
        case _Said("runtime", major):
            return next((line for line in LINES if major in line.runtimes), None)
        case _Said(_, major, minor):
            return next((line for line in LINES if line.number == (major, minor)), None)
    return None


def find_lines(version: str) -> tuple[SparkLine, ...]:
    """Each line that a start by that name may be on; none for one that is not known. An environment version of
    serverless compute names a client: the server behind it has the same line or a later one, which Databricks changes
    by itself (docs: serverless environment versions)."""
    line = find_line(version)
    if line is None:
        return ()
    said = _read(version)
    return LINES[LINES.index(line) :] if said is not None and said.kind == _CLIENT else (line,)


def is_too_old(version: str) -> bool:
    """Older than every known line: surestart does not run there. False where the number cannot be read."""
    match _read(version):
        case _Said("runtime", major):
            return major < min(LINES[0].runtimes)
        case _Said("spark", major, minor):
            return (major, LINES[0].number[1] if minor is None else minor) < LINES[0].number
    return False


def get_line(name: str) -> SparkLine:
    return next(line for line in LINES if line.name == name)


def installed_version() -> str:
    """The Spark that this Python environment would start, without importing it; "" where there is none."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        pass
    try:
        # It is numbered as the runtimes are.
        return f"dbr {version('databricks-connect')}"
    except PackageNotFoundError:
        return ""


def installed_line() -> SparkLine:
    """The line that local Spark would run on; raises for a version that surestart does not know."""
    found = installed_version()
    line = find_line(found) if found else get_line(DEFAULT)
    if line is not None:
        return line
    refuse_too_old(found)
    raise _not_known(found, "Which Delta and Kafka connectors belong to it is not known. Nothing was started.")


def refuse_too_old(version: str) -> None:
    """Raises for a Spark, or a Databricks Runtime, that is older than every known line."""
    if is_too_old(version):
        raise _not_known(
            version, f"It is older than {LINES[0].name}, the oldest that surestart runs on. Nothing was started."
        )


def _not_known(version: str, meaning: str) -> UsageError:
    return UsageError(
        f"Spark {version} is here, and surestart knows {', '.join(NAMES)}",
        meaning=meaning,
        next=install(get_line(DEFAULT).pyspark),
        do_not="install it into a Databricks cluster: choose one with a newer runtime, 15.4 LTS or later.",
        code="SparkLineUnknown",
    )
