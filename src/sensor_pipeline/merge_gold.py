"""Stage 3, sensor-merge-gold: one row per (sensor, reading time), the newest.

Newest is by revision, then by position: (source, partition, offset). The order is total and lies in the record itself,
so no replay and no order of arrival changes the result.

What it means for a key that changes its Kafka partition (partitions were added): between two records of equal revision
on different partitions, the higher partition number wins, whichever was written later. Producers that correct a reading
raise its revision; then the partition does not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sensor_pipeline.records import GOLD_IN_POSTGRES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def to_gold(readings: DataFrame) -> DataFrame:
    """Readings pass as they are: choosing the newest is the sink's work, against the batch and the table. A column that
    somebody adds to their table is not gold's, and stops no batch."""
    return readings.select(*[name for name, _ in GOLD_IN_POSTGRES])
