"""Appends runs to `surestart_runs`: one commit, through Spark, the same locally, on Databricks and on Spark Connect.

The commit's note repeats the rows without their metrics, so that the gate and the doctor read the last runs from the
log alone: no JVM, no Parquet, and no slower for a table of a hundred thousand runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.registry.run_record import COLUMNS, RunRecord
from surestart.session import applied
from surestart.settings import EVERYWHERE, pairs
from surestart.sinks.delta_table import create_in_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "surestart_runs"
NOTE = "surestart_runs"
# Given when the first append makes the table: its log is the history, so it is kept.
_PROPERTIES = {"delta.logRetentionDuration": "interval 3650 days", "delta.checkpointInterval": "100"}


def append_runs(
    spark: SparkSession,
    environment: Environment,
    records: Sequence[RunRecord],
    transaction: tuple[str, int] | None = None,
) -> None:
    """The rows are in the table. With a transaction (application id, version) Delta lets only one writer through."""
    table = environment.table(TABLE)
    selects, values = [], {}
    for index, record in enumerate(records):
        values.update({f"r{index}_{name}": value for name, value in record.as_columns().items()})
        selects.append(", ".join(f"CAST(:r{index}_{name} AS {kind}) AS {name}" for name, kind in COLUMNS.items()))
    options: Mapping[str, str] = {
        **_PROPERTIES,
        "mergeSchema": "true",
        "userMetadata": json.dumps({NOTE: [record.as_note() for record in records]}),
    }
    if transaction is not None:
        options = {**options, "txnAppId": transaction[0], "txnVersion": str(transaction[1])}
    with applied(spark, pairs(EVERYWHERE)):
        create_in_catalog(spark, table, COLUMNS, _PROPERTIES)
        rows = spark.sql(" UNION ALL ".join(f"SELECT {select}" for select in selects), args=values)
        writer = rows.coalesce(1).write.format("delta").mode("append").options(**options)
        if table.path:
            writer.save(table.path)
        else:
            writer.saveAsTable(table.sql)
