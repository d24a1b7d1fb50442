"""Writes tables.zip: small tables of Spark 4.0 and Delta 4.4, each with another kind of log checkpoint.

    python -m tests.deltalog.make_tables          half a minute; run it when a newer Delta writes something else

classic      one parquet file               multipart    the checkpoint in parts of three actions
v2-parquet   named by UUID, with sidecars   v2-json      the same, its top level in JSON
mapped       columns under physical names, one of them renamed
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE = Path(__file__).parent / "tables.zip"
BATCHES = 5
APP_ID = "11111111-2222-4333-8444-555555555555"
TABLES = {
    "classic": {},
    "multipart": {"spark.databricks.delta.checkpoint.partSize": "3"},
    "v2-parquet": {"spark.databricks.delta.checkpointV2.topLevelFileFormat": "parquet"},
    "v2-json": {"spark.databricks.delta.checkpointV2.topLevelFileFormat": "json"},
    "mapped": {},
}


def write(spark: SparkSession, path: Path, name: str) -> None:
    """Five appends of ten rows as batches 0..4, an update, a delete, and an OPTIMIZE."""
    properties = ["'delta.checkpointInterval' = '3'"]
    if name.startswith("v2"):
        properties.append("'delta.checkpointPolicy' = 'v2'")
    if name == "mapped":
        properties.append("'delta.columnMapping.mode' = 'name'")
    note = "`odd name`" if name == "mapped" else "note"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id LONG, day DATE, {note} STRING) USING DELTA PARTITIONED BY (day) "
        f"TBLPROPERTIES ({', '.join(properties)})"
    )
    for batch in range(BATCHES):
        rows = spark.range(batch * 10, batch * 10 + 10).selectExpr(
            "id", f"date_add(DATE '2024-02-28', {batch % 3}) AS day", f"concat('n ', id) AS {note}"
        )
        mark = {"query": "q", "query_id": APP_ID, "batch_id": batch, "stage": "s", "step": ""}
        (
            rows.coalesce(1)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", APP_ID)
            .option("txnVersion", str(batch))
            .option("userMetadata", json.dumps({"surestart": mark}))
            .save(str(path))
        )
    if name == "mapped":
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN id TO number")
    key = "number" if name == "mapped" else "id"
    spark.sql(f"UPDATE delta.`{path}` SET {note} = 'changed' WHERE {key} = 5")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE {key} < 30 AND day = DATE '2024-03-01'")
    spark.sql(f"OPTIMIZE delta.`{path}`")


def facts(spark: SparkSession, path: Path) -> dict[str, object]:
    """What Spark says of the table."""
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0]
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    rows = spark.read.format("delta").load(str(path)).collect()
    return {
        "id": detail["id"],
        "files": detail["numFiles"],
        "bytes": detail["sizeInBytes"],
        "version": max(row["version"] for row in history),
        "rows": sorted([str(value) for value in row] for row in rows),
        "history": [{key: value for key, value in row.asDict().items() if key in _KEPT} for row in history],
    }


_KEPT = ("version", "timestamp", "operation", "operationParameters", "operationMetrics", "userMetadata")


def main() -> None:
    from surestart.spark.session import applied, local_session
    from surestart.spark.settings import EVERYWHERE, pairs

    with tempfile.TemporaryDirectory() as folder:
        spark = local_session("make-tables", confs={"spark.sql.warehouse.dir": f"{folder}/warehouse"})
        root, said = Path(folder) / "tables", {}
        with applied(spark, pairs(EVERYWHERE)):
            for name, settings in TABLES.items():
                sys.stderr.write(f"{name}\n")
                with applied(spark, settings):
                    write(spark, root / name, name)
                said[name] = facts(spark, root / name)
        spark.stop()
        with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("spark-says.json", json.dumps(said, default=str, indent=1))
            for file in sorted(root.rglob("*")):
                # Hadoop's checksums and Delta's own statistics files are not read by anybody here.
                if file.is_file() and not file.name.endswith(".crc"):
                    archive.write(file, str(file.relative_to(root)))


if __name__ == "__main__":
    main()
