"""Streams of plain Spark, healthy and damaged: judged, restarted for real, and held against each other in one table.

    python -m benchmarks.matrix               all of them
    python -m benchmarks.matrix parquet       those whose name contains "parquet"
    python -m benchmarks.matrix strange       a whole group: common, more, odd, strange, nowhere, kafka, iceberg; or
                                              line, what `make calibrate` runs on each line of Spark
    .venv-3.5/bin/python -m benchmarks.matrix line

    .surestart/matrix/4.1/                    the streams of the last run on that line, kept to be looked at

Exit code 1 when one that was called safe lost, doubled or failed, or one that was called unsafe went well.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.diagnosis.stream_lab import Damage, Kind

    Cases = list[tuple[Kind, Damage]]

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".surestart" / "matrix"


def main(names: list[str]) -> int:
    from tests.diagnosis.stream_lab import SAID, StreamLab, count_wrong, matrix, restart_all

    from surestart.spark.spark_lines import installed_line

    line = installed_line().name
    home = HOME / line
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with ExitStack() as servers:
        groups = plain_groups()
        iceberg = not names or any("iceberg" in name for name in names)
        spark = make_session(home, iceberg)
        if iceberg:
            groups["iceberg"] = iceberg_cases(spark, home)
        if not names or any(name in "kafka" for name in names):
            groups["kafka"] = kafka_cases(servers)
        chosen = list(dict.fromkeys(case for name in names or [""] for case in choose(groups, name)))
        results = restart_all(StreamLab(spark, home), chosen, done=_tell)
    print(f"Spark {line}: {matrix(results)}")
    return 1 if any(count_wrong(results, which)[at] for which in SAID for at in (0, 1)) else 0


def choose(groups: dict[str, Cases], name: str) -> Cases:
    if name in groups:
        return groups[name]
    return [case for group in groups.values() for case in group if name in f"{case[0].name}: {case[1].name}"]


def plain_groups() -> dict[str, Cases]:
    """What needs no server and no other runtime."""
    from tests.diagnosis.stream_damages import CASES
    from tests.diagnosis.stream_more_kinds import MORE_CASES
    from tests.diagnosis.stream_odd_kinds import ODD_CASES
    from tests.diagnosis.stream_strange_kinds import LINE_CASES, STRANGE_CASES
    from tests.diagnosis.stream_to_nowhere import NOWHERE_CASES

    groups = {"common": CASES, "more": MORE_CASES, "odd": ODD_CASES, "nowhere": NOWHERE_CASES, "strange": STRANGE_CASES}
    return {**groups, "line": LINE_CASES}


def kafka_cases(servers: ExitStack) -> Cases:
    from tests.diagnosis.stream_damages import KAFKA_DAMAGES
    from tests.diagnosis.stream_to_kafka import to_kafka
    from tests.servers.kafka_broker import kafka_broker

    kafka = to_kafka(servers.enter_context(kafka_broker()).bootstrap)
    return [(kafka, damage) for damage in KAFKA_DAMAGES]


def iceberg_cases(spark: Any, home: Path) -> Cases:
    from tests.diagnosis.stream_to_iceberg import FUNCTION_DAMAGES, ICEBERG_DAMAGES, to_iceberg

    own, function = to_iceberg(spark, home)
    return [
        *((own, damage) for damage in ICEBERG_DAMAGES),
        *((function, damage) for damage in FUNCTION_DAMAGES),
    ]


def _tell(result: Any) -> None:
    from tests.diagnosis.stream_lab import SAID

    said = ", ".join(getattr(result, which).verdict.value for which in SAID)
    print(f"{result.seconds:5.1f} s  {said:<38} {result.name}: {result.outcome}", file=sys.stderr, flush=True)


def make_session(home: Path, iceberg: bool) -> Any:
    """iceberg: with its runtime, which `make setup` does not bring: it is downloaded once."""
    from tests.diagnosis.restart_lab import THRIFTY
    from tests.diagnosis.stream_to_iceberg import PACKAGE, catalog

    from surestart.spark.session import local_session
    from surestart.spark.settings import EVERYWHERE, pairs

    confs = {**pairs(EVERYWHERE), **THRIFTY, "spark.sql.shuffle.partitions": "2"}
    more = catalog(home) if iceberg else {}
    return local_session("matrix", confs={**confs, **more}, more_packages=(PACKAGE,) if iceberg else ())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
