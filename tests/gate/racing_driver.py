"""A real driver that waits for its starts: `python -m tests.gate.racing_driver`, one JSON object per line in and out.

    in   {"root": "/…", "at": <ns since 1970>}      start raw-ingest in that environment at that time
    out  {"rows": 30} or {"refused": "OWNER_RUNNING"}

It keeps its JVM between two starts, as a notebook does; so a race costs seconds, and two of them start within a
millisecond of each other.
"""

from __future__ import annotations

import json
import sys
import time

from sensor_pipeline.stages import build_stages
from surestart.environment import environment_from_settings
from surestart.errors import SurestartError
from surestart.runs.runner import run_stage
from surestart.spark.session import local_session


def main() -> None:
    spark = local_session("racing driver")
    stage = build_stages({})[0]
    print("{}", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        environment = environment_from_settings("local", "sensor", {"root": order["root"]}, environ={})
        while time.time_ns() < order["at"]:
            pass
        try:
            answer: dict[str, object] = {"rows": run_stage(spark, environment, stage).rows}
        except SurestartError as error:
            answer = {"refused": error.code}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
