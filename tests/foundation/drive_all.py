"""A driver of the three stages at once, killed when each of them is in mid-batch:

    SURESTART_FAILPOINT=all python -m tests.foundation.drive_all ROOT append.before_commit:4 split.between:2 …

A stage that has come to its place waits there; when the last one has, the driver and its JVM die.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Collection

from surestart import failpoints

ALL = "all"


def die_when_all_are_reached(places: Collection[str]) -> None:
    """Before anything is imported that asks for `fail_point`."""
    die, lock, never = failpoints.fail_point, threading.Lock(), threading.Event()
    times, waiting = Counter[str](), set[str]()

    def counted(name: str) -> None:
        with lock:
            times[name] += 1
            place = f"{name}:{times[name]}"
            if place not in places:
                return
            waiting.add(place)
            if waiting == set(places):
                die(ALL)
        never.wait()

    failpoints.fail_point = counted


def main() -> None:
    root, *places = sys.argv[1:]
    die_when_all_are_reached(places)
    from sensor_pipeline.stages import build_stages
    from surestart.environment import environment_from_settings
    from surestart.runs.runner import processing_time, run_stages
    from surestart.spark.session import local_session

    environment = environment_from_settings("local", "sensor", {"root": root}, environ={})
    stages = build_stages({"max_files_per_trigger": "1", "max_table_files_per_trigger": "1"})
    run_stages(local_session("driver under test"), environment, stages, trigger=processing_time("1 seconds"))


if __name__ == "__main__":
    main()
