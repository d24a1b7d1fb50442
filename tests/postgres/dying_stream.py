"""Runs the stage of stream.py to the end of its files in a process and a Spark of its own, to be killed on the way.

python -m postgres.dying_stream <root> <events|gold> <event log folder>        in the folder `tests`
"""

from __future__ import annotations

import sys
from pathlib import Path

from surestart.runs.runner import run_stage
from surestart.spark.session import local_session
from tests.postgres.stream import APPEND, UPSERT, local, stage

if __name__ == "__main__":
    root, table, events = sys.argv[1:]
    Path(events).mkdir()
    spark = local_session("dying", confs={"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"})
    run_stage(spark, local(Path(root)), stage(APPEND if table == "events" else UPSERT))
    spark.stop()
