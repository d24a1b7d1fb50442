"""A driver of its own, for tests that kill it: `python -m tests.remedies.drive ROOT apply|undo PLAN_FILE`."""

from __future__ import annotations

import sys

from surestart.environment import environment_from_settings
from surestart.remedies.basis.plan import read_plan
from surestart.spark.session import obtain_session
from tests.remedies.remedy import apply, undo


def main() -> None:
    root, verb, path = sys.argv[1:4]
    environment = environment_from_settings("local", "sensor", {"root": root}, environ={})
    plan = read_plan(path)
    spark = obtain_session("remedy under test")
    if verb == "undo":
        undo(spark, environment, plan)
    else:
        apply(spark, environment, plan)


if __name__ == "__main__":
    main()
