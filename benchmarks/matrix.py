"""Streams of plain Spark, healthy and damaged: judged, restarted for real, and held against each other in one table.

    python -m benchmarks.matrix               all of them
    python -m benchmarks.matrix parquet       those whose name contains "parquet"

    .surestart/matrix/                        the streams of the last run, kept to be looked at

Exit code 1 when one that was called safe lost, doubled or failed, or one that was called unsafe went well.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".surestart" / "matrix"


def main(names: list[str]) -> int:
    from tests.diagnosis.stream_damages import CASES, KAFKA_DAMAGES
    from tests.diagnosis.stream_lab import SAID, StreamLab, count_wrong, matrix, restart_all
    from tests.diagnosis.stream_more_kinds import MORE_CASES
    from tests.diagnosis.stream_odd_kinds import ODD_CASES
    from tests.diagnosis.stream_to_iceberg import FUNCTION_DAMAGES, ICEBERG_DAMAGES, PACKAGE, catalog, to_iceberg
    from tests.diagnosis.stream_to_kafka import to_kafka
    from tests.diagnosis.stream_to_nowhere import NOWHERE_CASES
    from tests.servers.kafka_broker import kafka_broker

    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    with kafka_broker() as broker:
        kafka = to_kafka(broker.bootstrap)
        spark = make_session(catalog(HOME), (PACKAGE,))
        iceberg, function = to_iceberg(spark, HOME)
        every = [
            *CASES,
            *MORE_CASES,
            *ODD_CASES,
            *NOWHERE_CASES,
            *((kafka, damage) for damage in KAFKA_DAMAGES),
            *((iceberg, damage) for damage in ICEBERG_DAMAGES),
            *((function, damage) for damage in FUNCTION_DAMAGES),
        ]
        chosen = [
            case for case in every if not names or any(name in f"{case[0].name}: {case[1].name}" for name in names)
        ]
        results = restart_all(StreamLab(spark, HOME), chosen, done=_tell)
    print(matrix(results))
    return 1 if any(count_wrong(results, which)[at] for which in SAID for at in (0, 1)) else 0


def _tell(result: Any) -> None:
    from tests.diagnosis.stream_lab import SAID

    said = ", ".join(getattr(result, which).verdict.value for which in SAID)
    print(f"{result.seconds:5.1f} s  {said:<38} {result.name}: {result.outcome}", file=sys.stderr, flush=True)


def make_session(more: dict[str, str], packages: tuple[str, ...]) -> Any:
    """With Iceberg's runtime, which `make setup` does not bring: it is downloaded once."""
    from tests.diagnosis.restart_lab import THRIFTY

    from surestart.spark.session import local_session
    from surestart.spark.settings import EVERYWHERE, pairs

    confs = {**pairs(EVERYWHERE), **THRIFTY, "spark.sql.shuffle.partitions": "2", **more}
    return local_session("matrix", confs=confs, more_packages=packages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
