"""Stage 1, sensor-raw-ingest: keeps every record as it arrived, with its position. Nothing is parsed or dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def to_raw(records: DataFrame) -> DataFrame:
    """Adds the time of ingestion: the batch's own, written in the checkpoint, so that a replay gives the same one."""
    from pyspark.sql import functions as F

    return records.select("*", F.current_timestamp().alias("ingested_at"))
