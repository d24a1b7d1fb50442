"""Streams of plain Spark with and without state, cut at a batch and started again by their own code.

    lab/input/part-0 … part-7     ten rows a file, one file a batch; the last file brings rows of the second one again
    lab/base/<kind>               checkpoint and table of a run to the end
    lab/<case>                    a copy, rewound: the table by RESTORE, the checkpoint by a cut

What has to come out is reckoned from the input in plain Python, never by Spark.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import surestart
from surestart.environment import Table
from surestart.facts.checkpoint.cut import read_cut
from surestart.facts.delta import read_history, read_table_rows
from surestart.facts.storage.open_storage import LocalStorage
from surestart.remedies.basis.cut_checkpoint import forget_cut, place_cut, scratch_folder, write_cut
from surestart.remedies.basis.move_aside import move_verified
from surestart.sinks.delta.transaction import append_pair
from surestart.spark.session import applied, is_connect
from surestart.verdict.inspection import inspect_checkpoint

ROWS, LAST, BUCKETS = 10, 7, 3
STATE = "spark.sql.streaming.stateStore"
ROCKSDB = {f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
LOGGED = {**ROCKSDB, f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true"}
PROVIDERS: dict[str, dict[str, str]] = {
    "hdfs": {},
    "rocksdb": {**ROCKSDB, f"{STATE}.rocksdb.changelogCheckpointing.enabled": "false"},
    "changelog": LOGGED,
    "v2": {**LOGGED, f"{STATE}.checkpointFormatVersion": "2"},
}
QUICK = {
    f"{STATE}.maintenanceInterval": "200ms",
    f"{STATE}.minDeltasForSnapshot": "2",
    "spark.sql.shuffle.partitions": "2",
    # A compacted list at entries 2 and 5, and nothing of the others but what is needed.
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
    "spark.sql.streaming.fileSource.log.deletion": "true",
}
Rows = Counter[tuple[Any, ...]]


def numbers(file: int, last: int = LAST) -> list[int]:
    """The last file repeats the second one: a deduplication still has to know its rows."""
    return [(1 if file == last else file) * ROWS + row for row in range(ROWS)]


def seconds(number: int, file: int) -> int:
    """One file a minute, from the second day on: a watermark begins at 0. A row's time is that of its file."""
    return 86_400 + file * 60 + number % ROWS


@dataclass(frozen=True)
class Kind:
    """How the query is started. count: which rows its table holds when it has read up to the last file. merged: a batch
    is merged into it by id."""

    name: str
    query: Callable[[Callable[[], Any]], Any]
    count: Callable[[int], Rows]
    columns: tuple[str, ...] = ("id",)
    mode: str = "append"
    merged: bool = False

    @property
    def expected(self) -> Rows:
        return self.count(LAST)


def deduplicated(read: Callable[[], Any]) -> Any:
    return read().dropDuplicates(["id"]).select("id")


def windows(read: Callable[[], Any]) -> Any:
    from pyspark.sql import functions as F

    counted = read().withWatermark("at", "1 second").groupBy(F.window("at", "2 minutes")).count()
    return counted.selectExpr("cast(unix_seconds(window.start) AS INT) AS id", "cast(count AS INT) AS n")


def joined(read: Callable[[], Any]) -> Any:
    return read().select("id").join(read().select("id"), "id")


def counted(read: Callable[[], Any]) -> Any:
    """Each batch says how many rows of each bucket there were so far: wrong state is seen in every number."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    def each(key: tuple[Any, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        seen = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
        state.update((seen,))
        yield pd.DataFrame({"id": [key[0]], "n": [seen]})

    grouped = read().selectExpr("id", f"id % {BUCKETS} AS bucket").groupBy("bucket")
    return grouped.applyInPandasWithState(each, "id INT, n INT", "seen INT", "append", GroupStateTimeout.NoTimeout)


def within(read: Callable[[], Any]) -> Any:
    return read().withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["id"]).select("id")


def totals(read: Callable[[], Any]) -> Any:
    counts = read().selectExpr(f"id % {BUCKETS} AS id").groupBy("id").count()
    return counts.selectExpr("id", "cast(count AS INT) AS n")


def transformed(read: Callable[[], Any]) -> Any:
    """The same numbers as `counted`, by transformWithState: on RocksDB, from 4.0 on."""
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Seen(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.seen = handle.getValueState("seen", "n INT")

        def handleInputRows(self, key: Any, frames: Iterator[Any], timers: Any) -> Iterator[Any]:
            seen = (self.seen.get()[0] if self.seen.exists() else 0) + sum(len(frame) for frame in frames)
            self.seen.update((seen,))
            yield pd.DataFrame({"id": [key[0]], "n": [seen]})

        def close(self) -> None:
            return None

    grouped = read().selectExpr("id", f"id % {BUCKETS} AS bucket").groupBy("bucket")
    return grouped.transformWithStateInPandas(
        statefulProcessor=Seen(), outputStructType="id INT, n INT", outputMode="Append", timeMode="None"
    )


def every(read: Callable[[], Any]) -> Any:
    return read().select("id")


def each_once(last: int) -> Rows:
    return Counter((number,) for file in range(last) for number in numbers(file, last))


def all_rows(last: int) -> Rows:
    return Counter((number,) for file in range(last + 1) for number in numbers(file, last))


def two_minute_counts(last: int) -> Rows:
    """Windows that end before the newest row, less a second, have been given out."""
    times = [seconds(number, file) for file in range(last + 1) for number in numbers(file, last)]
    found = Counter(time // 120 * 120 for time in times)
    return Counter({(start, n): 1 for start, n in found.items() if start + 120 <= max(times) - 1})


def pairs_of_equals(last: int) -> Rows:
    every = Counter(number for file in range(last + 1) for number in numbers(file, last))
    return Counter({(number,): n * n for number, n in every.items()})


def running_counts(last: int) -> Rows:
    seen: defaultdict[int, int] = defaultdict(int)
    found: Rows = Counter()
    for file in range(last + 1):
        of_file = Counter(number % BUCKETS for number in numbers(file, last))
        for bucket, n in of_file.items():
            seen[bucket] += n
            found[bucket, seen[bucket]] += 1
    return found


def newest_counts(last: int) -> Rows:
    found = Counter(number % BUCKETS for file in range(last + 1) for number in numbers(file, last))
    return Counter(found.items())


PLAIN = Kind("plain", every, all_rows)
DEDUP = Kind("dedup", deduplicated, each_once)
WINDOWS = Kind("windows", windows, two_minute_counts, ("id", "n"))
JOIN = Kind("join", joined, pairs_of_equals)
COUNTS = Kind("counts", counted, running_counts, ("id", "n"))
WITHIN = Kind("within", within, each_once)
TOTALS = Kind("totals", totals, newest_counts, ("id", "n"), "update", merged=True)
TRANSFORM = Kind("transform", transformed, running_counts, ("id", "n"))
KINDS = (PLAIN, DEDUP, WINDOWS, JOIN, COUNTS)


@dataclass(frozen=True)
class Place:
    root: Path

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def table(self) -> Path:
        return self.root / "table"


@dataclass
class Lab:
    spark: Any
    folder: Path
    source: Callable[[Any], Any] | None = None
    last: int = LAST
    made: dict[str, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.input = self.folder / "input"
        self.input.mkdir(parents=True)
        for file in range(self.last + 1):
            path = self.input / f"part-{file:02d}.json"
            lines = [f'{{"id":{number},"s":{seconds(number, file)}}}\n' for number in numbers(file, self.last)]
            path.write_text("".join(lines))
            os.utime(path, (1_790_000_000 + file * 10,) * 2)

    def read(self) -> Any:
        if self.source is not None:
            rows = self.source(self.spark)
        else:
            rows = (
                self.spark.readStream.schema("id INT, s BIGINT").option("maxFilesPerTrigger", 1).json(str(self.input))
            )
        return rows.selectExpr("id", "timestamp_seconds(s) AS at")

    def run(self, kind: Kind, place: Place) -> None:
        """To the end of the input; raises whatever Spark does. Nobody writes into the checkpoint afterwards."""
        writer = kind.query(self.read).writeStream.outputMode(kind.mode).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(place.checkpoint))
        if kind.merged:
            self.spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{place.table}` (id INT, n INT) USING delta")
            query = writer.foreachBatch(merging(str(place.table))).start()
        else:
            query = writer.format("delta").start(str(place.table))
        try:
            assert query.awaitTermination(300)
        finally:
            end_maintenance(self.spark)

    def base(self, kind: Kind, provider: str) -> Place:
        name = f"{kind.name}-{provider}"
        if name not in self.made:
            place = Place(self.folder / "base" / name)
            self.run(kind, place)
            assert rows_of(kind, place) == kind.count(self.last)
            self.made[name] = place
        return self.made[name]

    def copy(self, kind: Kind, provider: str, name: str) -> Place:
        place = Place(self.folder / f"{kind.name}-{provider}-{name}-{uuid.uuid4().hex[:4]}")
        shutil.copytree(self.base(kind, provider).root, place.root)
        return place

    def with_settings(self, provider: str) -> Any:
        return applied(self.spark, {**QUICK, **PROVIDERS[provider]})


def end_maintenance(spark: Any) -> None:
    """As at the end of the owner's session: a snapshot that was begun is whole, and a start loads its state again.
    Not by Spark's own `stop`: it waits five minutes for threads that wait for its lock. Nothing on Spark Connect, whose
    server's maintenance no client reaches."""
    if is_connect(spark):
        return
    state = spark._jvm.org.apache.spark.sql.execution.streaming.state
    stores = getattr(getattr(state, "StateStore$"), "MODULE$")
    stores.unloadAll()
    fields = {field.getName(): field for field in stores.getClass().getDeclaredFields()}
    working = fields.get("maintenancePartitions")
    if working is None:
        # 3.5: one thread does it all, and ends with what it is doing.
        stores.stopMaintenanceTask()
    else:
        working.setAccessible(True)
    at_rest = 0
    while at_rest < 3:
        time.sleep(0.05)
        busy = _maintains(spark) if working is None else not working.get(stores).isEmpty()
        at_rest = 0 if busy else at_rest + 1


def _maintains(spark: Any) -> bool:
    threads = spark._jvm.java.lang.Thread.getAllStackTraces().keySet()
    return any(thread.getName().startswith("state-store-maintenance") for thread in threads)


def merging(table: str) -> Callable[[Any, int], object]:
    @surestart.once
    def merge(batch: Any, batch_id: int) -> None:
        batch.createOrReplaceTempView("arrived")
        batch.sparkSession.sql(
            f"MERGE INTO delta.`{table}` t USING arrived s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    return merge


def rewind(spark: Any, place: Place, batch: int) -> None:
    """As the remedy does, without a journal: table, pair, cut, the old one aside, the new one in its place."""
    former, query_id = query_id_of(place), str(uuid.uuid4())
    table = Table("table", path=str(place.table))
    spark.sql(f"RESTORE TABLE {table.sql} TO VERSION AS OF {version_of(place, former, batch)}").collect()
    append_pair(spark, table, query_id, batch, "")
    scratch = scratch_folder(place.checkpoint, "query", query_id)
    write_cut(place.checkpoint, read_cut(LocalStorage(str(place.checkpoint)), batch, query_id), scratch)
    found = inspect_checkpoint(str(scratch), sinks=(f"delta-builtin+alone:{place.table}",))
    assert found.verdict.value == "safe", [(one.code, one.evidence) for one in found.findings]
    move_verified(place.checkpoint, place.root / "aside" / query_id, None)
    place_cut(scratch, place.checkpoint)
    forget_cut(scratch)


def version_of(place: Place, query_id: str, batch: int) -> int:
    """Of the table when it held the batch; a batch behind a former rewind is one of this id."""
    written = [
        one.version
        for one in read_history(str(place.table))
        for app, number in one.transactions
        if app == query_id and number == batch
    ]
    return max(written)


def query_id_of(place: Place) -> str:
    return str(json.loads((place.checkpoint / "metadata").read_text())["id"])


def rows_of(kind: Kind, place: Place) -> Rows:
    return Counter(tuple(int(row[column]) for column in kind.columns) for row in read_table_rows(str(place.table)))
