"""A driver of streams into PostgreSQL, whose first batches wait: `python -m tests.postgres.held_stream ROOT`.

<ROOT>/<kind> is the environment of each; tests/gate/held_driver.py says what is waited for and what is printed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from surestart.sinks.both import Both
from surestart.sinks.delta.merge import DeltaMerge
from surestart.stage import Stage
from tests.gate.held_driver import drive
from tests.postgres.stream import APPEND, SCHEMA, UPSERT, local, stage

GOLD = DeltaMerge("gold", SCHEMA, keys=("sensor",), order=("part", "pos"))


STAGES: dict[str, Stage] = {
    "postgres": stage(APPEND),
    # Two queries of one name do not run in one Spark application.
    "both": replace(stage(Both(GOLD, UPSERT)), name="both"),
}


def main() -> None:
    root = Path(sys.argv[1])
    stages = {kind: (local(root / kind), one, 0) for kind, one in STAGES.items()}
    # The gate asks the database of a PostgresSink, not of one that is wrapped to wait.
    drive(local(root), stages, accept=("SINK_UNREADABLE",))


if __name__ == "__main__":
    main()
