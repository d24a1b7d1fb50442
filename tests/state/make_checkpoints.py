"""Writes small checkpoints with state, and what Spark's own `statestore` reader says of each.

    python -m tests.state.make_checkpoints OUT [NAME…]      a name such as dedup-hdfs; without one: all

Runs on any line of Spark from 3.5 (its reader of state came with 4.0: on 3.5 only the checkpoints are written). Needs
nothing but pyspark with pandas, so that another line's environment can run it.
"""

from __future__ import annotations

import datetime
import decimal
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BATCHES = 4
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORE = "spark.sql.streaming.stateStore"
CONFIGS: dict[str, dict[str, str]] = {
    "hdfs": {},
    "zstd": {f"{STORE}.compression.codec": "zstd"},
    "snappy": {f"{STORE}.compression.codec": "snappy"},
    "lzf": {f"{STORE}.compression.codec": "lzf"},
    "rocks": {f"{STORE}.providerClass": ROCKSDB},
    "rockssnappy": {
        f"{STORE}.providerClass": ROCKSDB,
        f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{STORE}.compression.codec": "snappy",
    },
    "rockslog": {f"{STORE}.providerClass": ROCKSDB, f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true"},
    "rocksv2": {
        f"{STORE}.providerClass": ROCKSDB,
        f"{STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{STORE}.checkpointFormatVersion": "2",
    },
    "avro": {f"{STORE}.providerClass": ROCKSDB, f"{STORE}.encodingFormat": "avro"},
    "checksum": {f"{STORE}.rowChecksum.enabled": "true"},
    "rockssum": {f"{STORE}.providerClass": ROCKSDB, f"{STORE}.rowChecksum.enabled": "true"},
}
SCHEMA = (
    "k string, g int, ts timestamp, d date, b boolean, y byte, s short, l long, f float, v double, "
    "small decimal(9,2), big decimal(38,6), raw binary, a array<int>, aa array<struct<p:string,q:long>>, "
    "m map<string,int>, st struct<p:string,q:struct<r:double,t:timestamp>>"
)


def write_input(folder: Path) -> None:
    folder.mkdir(parents=True)
    for batch in range(BATCHES):
        rows = [_record(batch, number) for number in range(12)]
        (folder / f"{batch}.json").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
        os.utime(folder / f"{batch}.json", (1_700_000_000 + batch, 1_700_000_000 + batch))


def _record(batch: int, number: int) -> dict[str, Any]:
    """Some rows are those of the batch before again; each third has nulls where a column may have them."""
    index = batch * 8 + number
    empty = index % 3 == 0
    when = datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=37 * index, microseconds=index)
    return {
        "k": f"sensor-{index} ünï",
        "g": index % 5,
        "ts": when.isoformat() + "Z",
        "d": None if empty else str(when.date()),
        "b": index % 2 == 0,
        "y": index - 20,
        "s": -index * 100,
        "l": -(2**40) - index,
        "f": None if empty else index / 4,
        "v": -index / 3,
        "small": None if empty else f"{index}.25",
        "big": f"-{index}000000000000000000000.5",
        "raw": None if empty else "AAEC" + "/w==",
        "a": [index, None, -index],
        "aa": None if empty else [{"p": "x" * index, "q": index}, None, {"p": None, "q": 2}],
        "m": {"one": index, "none": None},
        "st": {"p": None if empty else "inner", "q": {"r": float(index), "t": when.isoformat() + "Z"}},
    }


def dedup(rows: Any) -> Any:
    return rows.dropDuplicates(["k", "d", "b", "y", "s", "l", "f", "v", "small", "big", "raw", "a", "aa", "st"])


def within(rows: Any) -> Any:
    return rows.withWatermark("ts", "2 minutes").dropDuplicatesWithinWatermark(["k", "g"])


def aggregate(rows: Any) -> Any:
    from pyspark.sql import functions as F

    windows = rows.withWatermark("ts", "2 minutes").groupBy(F.window("ts", "1 minute"), "g")
    return windows.agg(
        F.count("*").alias("n"), F.first("m").alias("m"), F.last("aa").alias("aa"), F.max("st").alias("st"),
        F.sum("big").alias("big"), F.avg("v").alias("v"), F.min("raw").alias("raw"),
    )  # fmt: skip


def totals(rows: Any) -> Any:
    return rows.groupBy().count()


def session(rows: Any) -> Any:
    from pyspark.sql import functions as F

    return rows.withWatermark("ts", "2 minutes").groupBy(F.session_window("ts", "50 seconds"), "g").count()


def join(rows: Any) -> Any:
    from pyspark.sql import functions as F

    left = rows.withWatermark("ts", "3 minutes").select("k", "g", "ts", "small")
    right = rows.withWatermark("ts", "3 minutes").select(
        F.col("k").alias("rk"), (F.col("g") + 0).alias("rg"), F.col("ts").alias("rts"), "aa"
    )
    near = F.expr("g = rg AND rts >= ts AND rts <= ts + interval 1 minute")
    return left.join(right, near, "leftOuter")


def groups(rows: Any) -> Any:
    from pyspark.sql.streaming.state import GroupStateTimeout

    def grow(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        count, names = state.get if state.exists else (0, [])
        for frame in frames:
            count, names = count + len(frame), [*names, *frame["k"]][-3:]
        state.update((count, names))
        yield pd.DataFrame({"g": [key[0]], "n": [count]})

    return rows.groupBy("g").applyInPandasWithState(
        grow, "g int, n long", "n long, names array<string>", "update", GroupStateTimeout.NoTimeout
    )


def transform(rows: Any) -> Any:
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.count = handle.getValueState("count", "n long, last string")
            self.brief = handle.getValueState("brief", "n long", 3_600_000_000)
            self.seen = handle.getListState("seen", "k string, l long")
            self.by_y = handle.getMapState("by_y", "y int", "v double, small decimal(9,2)")

        def handleInputRows(self, key: Any, frames: Iterator[Any], timers: Any) -> Iterator[Any]:
            total = self.count.get()[0] if self.count.exists() else 0
            for frame in frames:
                total += len(frame)
                for row in frame.itertuples():
                    self.seen.appendValue((row.k, int(row.l)))
                    self.by_y.updateValue((int(row.y),), (float(row.v), row.small))
            self.count.update((total, f"group {key[0]}"))
            self.brief.update((total,))
            self.handle.registerTimer(4_000_000_000_000 + int(key[0]))
            yield pd.DataFrame({"g": [key[0]], "n": [total]})

        def close(self) -> None:
            return None

    picked = rows.select("g", "k", "l", "y", "v", "small")
    return picked.groupBy("g").transformWithStateInPandas(
        statefulProcessor=Counter(), outputStructType="g int, n long", outputMode="Update", timeMode="ProcessingTime"
    )


STREAMS: dict[str, Callable[[Any], Any]] = {
    "dedup": dedup,
    "within": within,
    "aggregate": aggregate,
    "totals": totals,
    "session": session,
    "join": join,
    "groups": groups,
    "transform": transform,
}
MODES = {"aggregate": "update", "totals": "update", "groups": "update", "transform": "update"}
JOIN_STORES = [f"{side}-{store}" for side in ("left", "right") for store in ("keyToNumValues", "keyWithIndexToValue")]
VARIABLES = ["count", "brief", "seen", "by_y"]
PLAIN = ("hdfs", "rocks", "rockslog")
NAMES = [
    *[f"{stream}-{config}" for stream in STREAMS if stream != "transform" for config in PLAIN],
    *[f"transform-{config}" for config in ("rocks", "rockslog", "rocksv2", "avro")],
    *[f"{stream}-rocksv2" for stream in ("within", "aggregate")],
    *["dedup-zstd", "join-zstd", "aggregate-checksum", "join-rockssum"],
    *["dedup-snappy", "groups-lzf", "aggregate-rockssnappy"],
]


def make(spark: Any, out: Path, name: str) -> None:
    """OUT/name/checkpoint, and OUT/name/expected.json: what the reader says of each store, at two batches."""
    stream, config = name.rsplit("-", 1)
    place = out / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    line = ".".join(spark.version.split(".")[:2])
    for key, value in CONFIGS[config].items():
        spark.conf.set(key, value)
    try:
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(out / "input"))
        writer = STREAMS[stream](rows).writeStream.format("noop").outputMode(MODES.get(stream, "append"))
        writer = writer.option("checkpointLocation", str(place / "checkpoint"))
        if stream == "transform":
            # With processing time there is always another batch, so that AvailableNow does not end.
            query = writer.start()
            while not (place / "checkpoint/commits" / str(BATCHES)).exists() and not query.awaitTermination(0.2):
                continue
            query.stop()
        else:
            writer.trigger(availableNow=True).start().awaitTermination()
        if line != "3.5":
            said = [*_reads(spark, place / "checkpoint", stream)]
            (place / "expected.json").write_text(json.dumps({"spark": spark.version, "reads": said}) + "\n")
    finally:
        for key in CONFIGS[config]:
            spark.conf.unset(key)


def _reads(spark: Any, checkpoint: Path, stream: str) -> Iterator[dict[str, Any]]:
    commits = sorted(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    for batch in (commits[-1], commits[1]):
        for store in JOIN_STORES if stream == "join" else ["default"]:
            for variable in VARIABLES if stream == "transform" else [""]:
                reader = spark.read.format("statestore").option("path", str(checkpoint)).option("batchId", batch)
                reader = reader.option("storeName", store) if store != "default" else reader
                reader = reader.option("stateVarName", variable) if variable else reader
                reader = reader.option("flattenCollectionTypes", "false") if variable else reader
                frame = reader.load()
                found = [canonical(row) for row in frame.collect()]
                yield {
                    "batch": batch, "store": store, "variable": variable, "columns": frame.columns,
                    "rows": sorted(found, key=json.dumps),
                }  # fmt: skip


def canonical(value: Any) -> Any:
    """As JSON, whoever read it: a struct as a list, a map as a sorted list of pairs."""
    if isinstance(value, (bool, int, str, type(None))):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"0x{bytes(value).hex()}"
    if isinstance(value, datetime.datetime):
        naive = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
        return f"{naive.isoformat(timespec='microseconds')}"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, dict):
        return sorted(([canonical(key), canonical(item)] for key, item in value.items()), key=json.dumps)
    found = [canonical(item) for item in value]
    # A map that surestart has read is a list of pairs of a type of its own.
    return sorted(found, key=json.dumps) if type(value).__name__ == "Entries" else found


def start_spark() -> Any:
    from pyspark.sql import SparkSession

    # Python is given timestamps in the time of the process.
    os.environ["TZ"] = "UTC"
    time.tzset()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1500m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        f"{STORE}.minDeltasForSnapshot": "2",
        f"{STORE}.maintenanceInterval": "200ms",
    }
    builder = SparkSession.builder.appName("state")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(arguments: list[str]) -> int:
    out, names = Path(arguments[0]).absolute(), arguments[1:] or NAMES
    spark = start_spark()
    if not (out / "input").exists():
        write_input(out / "input")
    failed = []
    for name in names:
        try:
            make(spark, out, name)
            print(f"{name}: made")
        except Exception as error:  # noqa: BLE001 - the other checkpoints are made all the same, and this one is named
            failed.append(name)
            print(f"{name}: {str(error)[:600]}")
    spark.stop()
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
