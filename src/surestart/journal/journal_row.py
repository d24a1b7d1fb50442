"""One row of the Delta table of remedies, in a commit of its own whose note repeats it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from surestart.environment import Table
from surestart.spark.delta_table import create_in_catalog
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.spark.sql_values import select_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KINDS = {
    "digest": "STRING",
    "number": "INT",
    "state": "STRING",
    "step": "STRING",
    "at": "BIGINT",
    "entry": "STRING",
    "plan": "STRING",
}
# The journal is what an undo stands on, so its log is kept; the commits alone are read, newest first.
_PROPERTIES = {"delta.logRetentionDuration": "interval 3650 days", "delta.checkpointInterval": "100"}


def write_journal_row(
    spark: SparkSession, table: Table, values: Mapping[str, object], app: str, number: int, note: Mapping[str, object]
) -> None:
    """The row is there, once: Delta drops a second one of the same pair, and says nothing."""
    with applied(spark, pairs(EVERYWHERE)):
        create_in_catalog(spark, table, _KINDS, _PROPERTIES)
        written = (
            spark.sql(select_values([{name: values[name] for name in _KINDS}], _KINDS))
            .coalesce(1)
            .write.format("delta")
            .mode("append")
            .options(**_PROPERTIES)
            .option("txnAppId", app)
            .option("txnVersion", str(number))
            .option("userMetadata", json.dumps(note))
        )
        if table.path:
            written.save(table.path)
        else:
            written.saveAsTable(table.sql)
