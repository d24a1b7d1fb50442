"""Appends runs to `surestart_runs`: one commit, through Spark, the same locally, on Databricks and on Spark Connect.

The commit's note repeats the rows without their metrics, so that the gate and the doctor read the last runs from the
log alone: no JVM, no Parquet. Where claims are rows, those say what decides of these runs, and are written first: a
start goes by them alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from surestart.environment import Environment
from surestart.history.claim_file import claims_folder
from surestart.history.claim_row import remember_runs
from surestart.history.read_runs import read_former_runs
from surestart.history.run_record import COLUMNS, NOTE, TABLE, RunRecord
from surestart.spark.delta_table import create_in_catalog
from surestart.spark.every_line import select_values
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.spark_types import SparkSession

# Given when the first append makes the table: its log is the history, so it is kept.
_PROPERTIES = {"delta.logRetentionDuration": "interval 3650 days", "delta.checkpointInterval": "100"}


def append_runs(spark: SparkSession, environment: Environment, records: Sequence[RunRecord]) -> None:
    """The rows are in the table."""
    if claims_folder(environment) is None:
        remember_runs(spark, environment, records, lambda query: read_former_runs(environment, spark, query))
    table = environment.table(TABLE)
    options: Mapping[str, str] = {
        **_PROPERTIES,
        "mergeSchema": "true",
        "userMetadata": json.dumps({NOTE: [record.as_note() for record in records]}),
    }
    with applied(spark, pairs(EVERYWHERE)):
        create_in_catalog(spark, table, COLUMNS, _PROPERTIES)
        rows = spark.sql(select_values([dict(record.as_columns()) for record in records], dict(COLUMNS)))
        writer = rows.coalesce(1).write.format("delta").mode("append").options(**options)
        if table.path:
            writer.save(table.path)
        else:
            writer.saveAsTable(table.sql)
