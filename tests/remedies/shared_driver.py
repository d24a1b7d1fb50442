"""A driver process of its own on the JVM of the tests, so that killing it costs a second and not a minute.

    python -m tests.remedies.shared_driver ROOT apply|undo PLAN_FILE TRACE_FILE

Every failpoint that it passes is written to TRACE_FILE. It has its own session: what a killed driver has left set in
it is nobody's. That the JVM dies too is shown by tests/remedies/test_killed.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from surestart import failpoints

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def trace_into(path: Path) -> None:
    """Before anything is imported that asks for `fail_point`."""
    reach = failpoints.fail_point

    def traced(name: str) -> None:
        with path.open("a") as file:
            file.write(f"{name}\n")
        reach(name)

    failpoints.fail_point = traced


def session_of_the_tests() -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    jvm = gateway.jvm
    context = jvm.org.apache.spark.api.java.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    python_context = SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf()))
    # Spark 4 moved the class.
    sql = jvm.org.apache.spark.sql if python_context.version.startswith("3.") else jvm.org.apache.spark.sql.classic
    return SparkSession(python_context, sql.SparkSession.builder().getOrCreate().newSession())


def main() -> None:
    root, verb, path, trace = sys.argv[1:5]
    assert os.environ[PORT]
    assert os.environ[SECRET]
    trace_into(Path(trace))
    from surestart.environment import environment_from_settings
    from surestart.remedies.basis.plan import read_plan
    from tests.remedies.remedy import apply, undo

    environment = environment_from_settings("local", "sensor", {"root": root}, environ={})
    spark = session_of_the_tests()
    act = undo if verb == "undo" else apply
    act(spark, environment, read_plan(path))


if __name__ == "__main__":
    main()
    # Its context is the tests' own: stopping it, as the end of a driver does, would stop theirs.
    os._exit(0)
