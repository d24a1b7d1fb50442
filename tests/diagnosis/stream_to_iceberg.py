"""A stream into an Iceberg table, whose snapshots keep the query id and the epoch. The session needs Iceberg's runtime
and a catalog `ice` of type hadoop, with its caches off, over the lab's folder."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from tests.diagnosis.restart_lab import crc_of, remove
from tests.diagnosis.stream_damages import (
    DELETED,
    GONE,
    HEALTHY,
    IN_FLIGHT,
    NO_ID_IN_FLIGHT,
    REWOUND,
    TRUNCATED,
    drop,
)
from tests.diagnosis.stream_kinds import by_function, now, read
from tests.diagnosis.stream_lab import LAST, Damage, Folder, Kind, Rows, numbers

PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


def catalog(warehouse: Path) -> dict[str, str]:
    return {
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(warehouse),
        "spark.sql.catalog.ice.cache-enabled": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }


def to_iceberg(spark: Any, warehouse: Path) -> tuple[Kind, Kind]:
    """(Iceberg's own sink, an append in a function)"""

    def table(folder: Folder) -> str:
        parts = [*folder.root.relative_to(warehouse).parts, "out"]
        return "ice." + ".".join(f"`{part}`" for part in parts)

    def made(folder: Folder) -> str:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {table(folder)} (id INT) USING iceberg")
        return table(folder)

    def start(session: Any, folder: Folder, files: int) -> Any:
        writer = now(read(session, folder, files).writeStream.format("iceberg"), folder)
        return writer.toTable(made(folder))

    def in_function(batch: Any, number: int, folder: Folder) -> None:
        batch.writeTo(made(folder)).append()

    def rows(folder: Folder) -> Rows:
        if not (folder.out / "metadata").exists():
            return Counter()
        return Counter((row.id,) for row in spark.table(table(folder)).collect())

    def named(head: str) -> Any:
        return lambda folder: (f"{head}:{folder.out}",)

    def moved(base: Folder, folder: Folder) -> None:
        rename_table(folder.out, base, folder)

    own = Kind("iceberg", start, named("iceberg"), named("iceberg+alone"), rows, numbers, copy=moved)
    function = Kind(
        "iceberg in a function",
        by_function(in_function),
        named("iceberg"),
        named("iceberg+alone"),
        rows,
        numbers,
        copy=moved,
    )
    return own, function


def rename_table(table: Path, base: Folder, folder: Folder) -> None:
    """The copy's metadata name the copy, and the identity that the copied checkpoint was given."""
    old = json.loads((base.checkpoint / "metadata").read_text())["id"]
    new = json.loads((folder.checkpoint / "metadata").read_text())["id"]
    for path in table.glob("metadata/*.metadata.json"):
        text = path.read_text().replace(old, new).replace(str(base.root), str(folder.root))
        path.write_text(text)
        crc_of(path).unlink(missing_ok=True)


def newest(table: Path) -> Path:
    return max(table.glob("metadata/v*.metadata.json"), key=lambda path: int(path.name[1:].partition(".")[0]))


def not_written(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, f"commits/{LAST}")
    path = newest(folder.out)
    number = int(path.name[1:].partition(".")[0])
    remove(path)
    hint = folder.out / "metadata/version-hint.text"
    hint.write_text(str(number - 1))
    crc_of(hint).unlink(missing_ok=True)


def call(spark: Any, folder: Folder, procedure: str, arguments: str) -> None:
    warehouse = Path(spark.conf.get("spark.sql.catalog.ice.warehouse"))
    name = ".".join(f"`{part}`" for part in [*folder.root.relative_to(warehouse).parts, "out"])
    spark.sql(f"CALL ice.system.{procedure}(table => '{name}', {arguments})").collect()


def expired(spark: Any, folder: Folder) -> None:
    call(spark, folder, "expire_snapshots", "older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1")


def expired_by_others(spark: Any, folder: Folder) -> None:
    """Another writer's append is the newest snapshot, and nothing before it is known any more; a batch is in flight."""
    in_flight_beside(spark, folder)
    expired(spark, folder)


def in_flight_beside(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, f"commits/{LAST}")
    warehouse = Path(spark.conf.get("spark.sql.catalog.ice.warehouse"))
    parts = ".".join(f"`{part}`" for part in [*folder.root.relative_to(warehouse).parts, "out"])
    spark.sql(f"INSERT INTO ice.{parts} SELECT id FROM range(0)")


def rolled_back(spark: Any, folder: Folder) -> None:
    snapshots = json.loads(newest(folder.out).read_text())["snapshots"]
    call(spark, folder, "rollback_to_snapshot", f"snapshot_id => {snapshots[-3]['snapshot-id']}")


def rolled_back_in_flight(spark: Any, folder: Folder) -> None:
    drop(folder.checkpoint, f"commits/{LAST}")
    snapshots = json.loads(newest(folder.out).read_text())["snapshots"]
    call(spark, folder, "rollback_to_snapshot", f"snapshot_id => {snapshots[-2]['snapshot-id']}")


def compacted(spark: Any, folder: Folder) -> None:
    call(spark, folder, "rewrite_data_files", "options => map('rewrite-all', 'true')")


def deleted_rows(spark: Any, folder: Folder) -> None:
    warehouse = Path(spark.conf.get("spark.sql.catalog.ice.warehouse"))
    parts = ".".join(f"`{part}`" for part in [*folder.root.relative_to(warehouse).parts, "out"])
    spark.sql(f"DELETE FROM ice.{parts}")


def hint_gone(spark: Any, folder: Folder) -> None:
    drop(folder.out, "metadata/version-hint.text")


def other_id(spark: Any, folder: Folder) -> None:
    (folder.checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    crc_of(folder.checkpoint / "metadata").unlink(missing_ok=True)


UNWRITTEN = Damage("killed before the sink", not_written)
ICEBERG_DAMAGES = (
    HEALTHY, IN_FLIGHT, UNWRITTEN, DELETED, REWOUND, TRUNCATED, NO_ID_IN_FLIGHT, GONE,
    Damage("compacted", compacted, healthy=True),
    Damage("its hint gone", hint_gone, healthy=True),
    Damage("snapshots expired", expired, healthy=True),
    Damage("snapshots expired, in flight, others wrote last", expired_by_others),
    Damage("rolled back", rolled_back),
    Damage("rolled back, in flight", rolled_back_in_flight),
    Damage("rows deleted", deleted_rows),
)  # fmt: skip
FUNCTION_DAMAGES = (HEALTHY, IN_FLIGHT, UNWRITTEN, DELETED, REWOUND)
