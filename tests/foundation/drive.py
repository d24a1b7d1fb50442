"""A driver of its own, for a test that pauses it: `python -m tests.foundation.drive ROOT STAGE [max_files]`.

A stage may be told to decide differently (SENSOR_TEST_REFUSE_ROOM), as a repaired version of the code would.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from sensor_pipeline.stages import build_stages
from surestart.environment import environment_from_settings
from surestart.runs.runner import run_stage
from surestart.spark.session import local_session


def refusing(room: str, transform: Any) -> Any:
    from pyspark.sql import functions as F

    def changed(raw: Any) -> Any:
        refused = F.when((F.col("room") == room) & F.col("reason").isNull(), F.lit("range: room closed"))
        return transform(raw).withColumn("reason", F.coalesce("reason", refused))

    return changed


def main() -> None:
    root, stages, max_files = sys.argv[1], sys.argv[2].split(","), sys.argv[3]
    environment = environment_from_settings("local", "sensor", {"root": root}, environ={})
    spark = local_session("driver under test")
    for stage in build_stages({"max_files_per_trigger": max_files}):
        if stage.name in stages:
            room = os.environ.get("SENSOR_TEST_REFUSE_ROOM")
            chosen = replace(stage, transform=refusing(room, stage.transform)) if room else stage
            run_stage(spark, environment, chosen)


if __name__ == "__main__":
    main()
