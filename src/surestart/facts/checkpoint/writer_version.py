"""Which Spark wrote a batch, from the settings that it pinned: each release added keys; Spark notes no version."""

from __future__ import annotations

from collections.abc import Mapping

# key -> the first release line that pins it (OffsetSeqMetadata.relevantSQLConfs of each release).
_FIRST = {
    "spark.sql.streaming.multipleWatermarkPolicy": "2.4",
    "spark.sql.streaming.aggregation.stateFormatVersion": "2.4",
    "spark.sql.streaming.join.stateFormatVersion": "3.0",
    "spark.sql.streaming.stateStore.compression.codec": "3.1",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": "3.2",
    "spark.sql.streaming.statefulOperator.useStrictDistribution": "3.3",
    "spark.sql.streaming.stateStore.encodingFormat": "4.0",
    "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion": "4.2",
    "spark.sql.streaming.stateStore.rowChecksum.enabled": "4.2",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "4.2",
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "4.3",
}
_RANGES = {
    "2.4": "2.4",
    "3.0": "3.0",
    "3.1": "3.1",
    "3.2": "3.2",
    "3.3": "3.3-3.5",
    "4.0": "4.0-4.1",
    "4.2": "4.2",
    "4.3": "4.3 or newer",
}


def guess_writer_version(confs: Mapping[str, str], *, visible_checksums: bool = False) -> str | None:
    """Such as "4.0-4.1"; None when the settings do not tell. Vendors' builds may pin other keys."""
    found = [version for key, version in _FIRST.items() if key in confs]
    if not found:
        return "2.1-2.3" if confs else None
    newest = max(found, key=lambda version: tuple(int(part) for part in version.split(".")))
    # Files beside the state with visible names `….crc` first appear in 4.1.
    text = "4.1" if newest == "4.0" and visible_checksums else _RANGES[newest]
    return f"{text} (Databricks)" if any(key.startswith("spark.databricks.") for key in confs) else text
