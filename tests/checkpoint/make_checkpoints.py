"""Writes checkpoints.zip: checkpoints of Spark 3.5, 4.0, 4.1 and 4.2, without state and with each kind of it.

python -m tests.checkpoint.make_checkpoints          some minutes; makes the environments of `make calibrate` first

<line>/files            a file source, no state            <line>/join           two sides, four stores
<line>/deduplication    HDFS-backed state                  <line>/rocksdb        RocksDB with changelog
<line>/aggregation      windows under a watermark          <line>/format-v2      state under unique names (4.0 on)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = Path(__file__).parent / "checkpoints.zip"
LINES = ("3.5", "4.0", "4.1", "4.2")
# The file source writes its files' absolute paths down: a place that says nothing of the machine.
LANDING = Path("/tmp/surestart-landing")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def queries(line: str) -> dict[str, tuple[Callable[[DataFrame], DataFrame], dict[str, str]]]:
    from pyspark.sql import functions as F

    def join(stream: DataFrame) -> DataFrame:
        left, right = stream.alias("left"), stream.alias("right")
        near = F.expr("left.id = right.id AND left.at >= right.at - interval 1 minute AND left.at <= right.at")
        return left.join(right, near).select("left.id")

    state = "spark.sql.streaming.stateStore"
    rocksdb = {f"{state}.providerClass": ROCKSDB, f"{state}.rocksdb.changelogCheckpointing.enabled": "true"}
    found: dict[str, tuple[Callable[[DataFrame], DataFrame], dict[str, str]]] = {
        "files": (lambda stream: stream, {}),
        "deduplication": (lambda stream: stream.dropDuplicates(["id"]), {}),
        "aggregation": (lambda stream: stream.groupBy(F.window("at", "1 second")).count(), {}),
        "join": (join, {}),
        "rocksdb": (lambda stream: stream.groupBy(F.window("at", "1 second")).count(), rocksdb),
    }
    if line != "3.5":
        v2 = {**rocksdb, f"{state}.checkpointFormatVersion": "2"}
        found["format-v2"] = (lambda stream: stream.dropDuplicatesWithinWatermark(["id"]), v2)
    return found


def write(line: str, target: Path) -> None:
    """Inside the line's environment: one folder per query, each two or three batches long and stopped in order."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from calibrate import make_session

    spark: Any = make_session(line)
    for name, (transform, confs) in queries(line).items():
        for key, value in confs.items():
            spark.conf.set(key, value)
        stream = spark.readStream.schema("id LONG, at TIMESTAMP").option("maxFilesPerTrigger", 1).json(str(LANDING))
        rows = transform(stream.withWatermark("at", "1 minute"))
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(target / line / name))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
        for key in confs:
            spark.conf.unset(key)
    spark.stop()


def main() -> None:
    if len(sys.argv) == 3:
        write(sys.argv[1], Path(sys.argv[2]))
        return
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from calibrate import make_environment

    shutil.rmtree(LANDING, ignore_errors=True)
    LANDING.mkdir()
    for number in range(2):
        rows = "".join(f'{{"id":{number * 5 + row},"at":"2026-01-01T00:00:0{row}Z"}}\n' for row in range(5))
        (LANDING / f"part-{number}.json").write_text(rows)
    with tempfile.TemporaryDirectory() as folder:
        for line in LINES:
            paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
            environment = {**os.environ, "PYTHONPATH": paths}
            environment.pop("SPARK_HOME", None)
            command = [str(make_environment(line)), str(Path(__file__).resolve()), line, folder]
            subprocess.run(command, env=environment, check=True)
        with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder))
    shutil.rmtree(LANDING)
    print(f"{ARCHIVE.name}: {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
