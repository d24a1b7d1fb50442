"""An undo by a driver of its own, whose catalog has the tables by name: `python -m tests.remedies.drive_in_catalog
SCHEMA CHECKPOINT_ROOT LANDING DIGEST NAME=LOCATION …`."""

from __future__ import annotations

import sys

from surestart.environment import environment_from_settings
from surestart.remedies.apply.undo import find_applied, undo_remedy
from surestart.spark.session import local_session
from tests.remedies.remedy import chain_of


def main() -> None:
    schema, root, landing, digest, *tables = sys.argv[1:]
    given = {"catalog": "spark_catalog", "schema": schema, "checkpoint_root": root, "landing": landing}
    environment = environment_from_settings("local", "sensor", given, environ={})
    spark = local_session("the slower of two")
    spark.sql(f"CREATE SCHEMA {schema}")
    for table in tables:
        name, _, location = table.partition("=")
        spark.sql(f"CREATE TABLE {environment.table(name).sql} USING delta LOCATION '{location}'")
    plan = find_applied(spark, environment, digest)
    undo_remedy(spark, environment, chain_of(environment), plan, lambda plan: plan.target, print)


if __name__ == "__main__":
    main()
