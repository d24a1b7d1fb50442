"""Streams as strangers write them: courses, guides and answers in forums, beside the common kinds and the odd ones.
Some feed a source of their own, a table, a topic or a folder, from the files of the lab."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from tests.diagnosis.restart_lab import remove, write
from tests.diagnosis.stream_damages import (
    ANEW,
    DELETED,
    EMPTIED,
    HEALTHY,
    NO_ID_IN_FLIGHT,
    RESTORED,
    UNWRITTEN,
    state_deleted,
)
from tests.diagnosis.stream_kinds import (
    AGGREGATE,
    APPEND,
    BUCKETS,
    CONSTANT,
    DEDUP,
    FUNCTION,
    JOIN,
    MERGE,
    MERGE_PAIR,
    PANDAS,
    PARQUET,
    TWO_WRITERS,
    both_expected,
    both_rows,
    by_function,
    counts,
    kind,
    now,
    read,
    to_delta,
)
from tests.diagnosis.stream_lab import END, LAST, ROWS, Damage, Folder, Kind, Rows, delta_rows, numbers


def newest_in(folder: Path) -> int:
    return max(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def arrived(folder: Folder) -> list[Path]:
    """The files of the lab that its source is shown."""
    found = [path for path in folder.input.glob("part-*") if int(path.name[5:]) <= folder.newest]
    return sorted(found)


# ---- functions -------------------------------------------------------------------------------------------------------
class Upserter:
    """As courses teach it: an object that knows its table and its key."""

    def __init__(self, table: Path, key: str) -> None:
        self.table, self.key = str(table), key

    def upsert(self, batch: Any, number: int) -> None:
        spark = batch.sparkSession
        newest = batch.dropDuplicates([self.key])
        if not (Path(self.table) / "_delta_log").exists():
            newest.limit(0).write.format("delta").save(self.table)
        if find_spec("delta") is None:
            # delta-spark's Python part is not there for each line of Spark.
            newest.createOrReplaceTempView("arrived")
            condition = f"t.{self.key} = s.{self.key} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            spark.sql(f"MERGE INTO delta.`{self.table}` t USING arrived s ON {condition}")
            return
        from delta.tables import DeltaTable

        target = DeltaTable.forPath(spark, self.table).alias("t")
        merge = target.merge(newest.alias("s"), f"t.{self.key} = s.{self.key}")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def by_class(spark: Any, folder: Folder, files: int) -> Any:
    writer = read(spark, folder, files).writeStream.foreachBatch(Upserter(folder.out, "id").upsert)
    return now(writer.outputMode("update"), folder).start()


def third(folder: Folder) -> Path:
    return folder.root / "out3"


def to_three(batch: Any, number: int, folder: Folder) -> None:
    """A merge, a log of events, and a table that shows the newest batch only."""
    batch.persist()
    Upserter(folder.out, "id").upsert(batch, number)
    batch.selectExpr("id * 2 AS id").write.format("delta").mode("append").save(str(folder.out2))
    batch.write.format("delta").mode("overwrite").save(str(third(folder)))
    batch.unpersist()


def merge_that_adds(batch: Any, number: int, folder: Folder) -> None:
    """Counters kept by hand: what comes is added to what is there."""
    spark = batch.sparkSession
    if not (folder.out / "_delta_log").exists():
        spark.sql(f"CREATE TABLE delta.`{folder.out}` (id INT, count BIGINT) USING delta")
    counted = batch.selectExpr(f"id % {BUCKETS} AS id").groupBy("id").count()
    counted.createOrReplaceTempView("arrived")
    spark.sql(
        f"MERGE INTO delta.`{folder.out}` t USING arrived s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET t.count = t.count + s.count WHEN NOT MATCHED THEN INSERT *"
    )


def history_of_changes(batch: Any, number: int, folder: Folder) -> None:
    """A slowly changing dimension in two statements: the open row of a key is closed, a new one is appended."""
    spark = batch.sparkSession
    if not (folder.out / "_delta_log").exists():
        spark.sql(f"CREATE TABLE delta.`{folder.out}` (id INT, open BOOLEAN) USING delta")
    batch.createOrReplaceTempView("arrived")
    spark.sql(
        f"MERGE INTO delta.`{folder.out}` t USING arrived s ON t.id = s.id AND t.open "
        "WHEN MATCHED THEN UPDATE SET t.open = false"
    )
    batch.selectExpr("id", "true AS open").write.format("delta").mode("append").save(str(folder.out))


def at_times(odd: int) -> Callable[[Any, int, Folder], None]:
    """Only every second file has what it looks for: the other batches write nothing at all."""

    def write_some(batch: Any, number: int, folder: Folder) -> None:
        found = batch.where(f"id div {ROWS} % 2 = {odd}")
        if found.isEmpty():
            return
        found.write.format("delta").mode("append").save(str(folder.out))

    return write_some


def some(odd: int) -> Callable[[range], Rows]:
    return lambda files: Counter({row: 1 for row in numbers(files) if row[0] // ROWS % 2 == odd})


def with_audit(batch: Any, number: int, folder: Folder) -> None:
    """Its second table has a line for each batch, and the first is tidied up by the same function."""
    batch.write.format("delta").mode("append").save(str(folder.out))
    counted = batch.selectExpr("count(1) AS count", "min(id) AS id")
    counted.selectExpr("id").write.format("delta").mode("append").save(str(folder.out2))
    if number % 2:
        batch.sparkSession.sql(f"OPTIMIZE delta.`{folder.out}`").collect()


def audit_rows(folder: Folder) -> Rows:
    """The rows, and each line of the audit that is there more than once."""
    twice = {(-1, *row): n - 1 for row, n in delta_rows(folder.out2).items() if n > 1}
    return delta_rows(folder.out) + Counter(twice)


def own_partition(batch: Any, number: int, folder: Folder) -> None:
    """Each file is a day, and a day is written whole."""
    days = batch.selectExpr("id", f"id div {ROWS} AS day").write.format("delta").mode("overwrite").partitionBy("day")
    days.option("partitionOverwriteMode", "dynamic").save(str(folder.out))


def replace_where(batch: Any, number: int, folder: Folder) -> None:
    low, high = batch.selectExpr("min(id)", "max(id)").collect()[0]
    writer = batch.write.format("delta").mode("overwrite").option("replaceWhere", f"id BETWEEN {low} AND {high}")
    writer.save(str(folder.out))


def folder_of_batch(batch: Any, number: int, folder: Folder) -> None:
    """No table at all: a folder of each batch, which is overwritten."""
    batch.write.mode("overwrite").parquet(str(folder.out / f"batch={number}"))


def files_of_batches(folder: Folder) -> Rows:
    import pyarrow.parquet as parquet

    files = sorted(folder.out.glob("batch=*/*.parquet"))
    return Counter((value,) for path in files for value in parquet.ParquetFile(path).read()["id"].to_pylist())


def plus_one(batch: Any, number: int, folder: Folder) -> None:
    writer = batch.write.format("delta").mode("append").option("txnAppId", "nightly-from-one")
    writer.option("txnVersion", str(number + 1)).save(str(folder.out))


def by_saved_name(batch: Any, number: int, folder: Folder) -> None:
    name = "t_" + folder.root.name.replace("-", "_")
    batch.sparkSession.sql(f"CREATE TABLE IF NOT EXISTS `{name}` (id INT) USING delta LOCATION '{folder.out}'")
    batch.write.format("delta").mode("append").saveAsTable(f"`{name}`")


def complete_overwritten(spark: Any, folder: Folder, files: int) -> Any:
    """A dashboard: output mode complete, and a function that replaces the table."""

    def replace_table(batch: Any, number: int) -> None:
        batch.write.format("delta").mode("overwrite").save(str(folder.out))

    counted = read(spark, folder, files).selectExpr(f"id % {BUCKETS} AS id").groupBy("id").count()
    return now(counted.writeStream.outputMode("complete").foreachBatch(replace_table), folder).start()


# ---- operators -------------------------------------------------------------------------------------------------------
def left_outer(spark: Any, folder: Folder, files: int) -> Any:
    """Even numbers have a partner; an odd one is written alone once the watermark has passed it."""

    def timed(column: str) -> Any:
        return read(spark, folder, files).selectExpr(
            f"id AS {column}", f"timestamp_seconds(id * 100 + 100) AS {column}_at"
        )

    left = timed("id").withWatermark("id_at", "0 seconds")
    right = timed("other").where("other % 2 = 0").withWatermark("other_at", "0 seconds")
    near = F.expr("id = other AND other_at BETWEEN id_at - INTERVAL 5 SECONDS AND id_at + INTERVAL 5 SECONDS")
    return to_delta(left.join(right, near, "leftOuter").selectExpr("id", "coalesce(other, -1) AS other"), folder)


def partners(files: range) -> Rows:
    """Of the newest odd one it is not known yet that nobody comes."""
    newest = max(numbers(files))[0]
    return Counter((row, row if row % 2 == 0 else -1) for (row,) in numbers(files) if row % 2 == 0 or row < newest)


def dedup_then_windows(spark: Any, folder: Folder, files: int) -> Any:
    """Two stateful operators, one after the other."""
    timed = read(spark, folder, files).selectExpr("id", "timestamp_seconds(id * 100 + 100) AS at")
    unique = timed.withWatermark("at", "0 seconds").dropDuplicatesWithinWatermark(["id"])
    return to_delta(unique.groupBy(F.window("at", "10 seconds"), "id").count().select("id"), folder)


def ended(files: range) -> Rows:
    return Counter({row: 1 for row in numbers(files) if row != max(numbers(files))})


def mapped_in_pandas(spark: Any, folder: Folder, files: int) -> Any:
    def each(frames: Iterator[Any]) -> Iterator[Any]:
        yield from frames

    frame = read(spark, folder, files).mapInPandas(each, "id INT").selectExpr("id", "id % 3 AS part")
    return now(frame.writeStream.format("delta").partitionBy("part"), folder).start(str(folder.out))


class RowWriter:
    """`foreach`: a file of each partition of each epoch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, partition: int, epoch: int) -> bool:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = (self.folder / f"{epoch}-{partition}.txt").open("w")
        return True

    def process(self, row: Any) -> None:
        self.file.write(f"{row.id}\n")

    def close(self, error: Exception | None) -> None:
        self.file.close()


def by_row(spark: Any, folder: Folder, files: int) -> Any:
    return now(read(spark, folder, files).writeStream.foreach(RowWriter(folder.out)), folder).start()


def lines_of(folder: Folder) -> Rows:
    return Counter((int(line),) for path in folder.out.glob("*.txt") for line in path.read_text().split())


# ---- sources ---------------------------------------------------------------------------------------------------------
def feed_table(spark: Any, folder: Folder, properties: str = "") -> str:
    """A table with a commit of each file that has arrived, and the first of which made it."""
    table = folder.root / "source"
    if not (table / "_delta_log").exists():
        spark.sql(f"CREATE TABLE delta.`{table}` (id INT) USING delta {properties}")
    held = {row[0] // ROWS for row in delta_rows(table)}
    for path in arrived(folder):
        if int(path.name[5:]) not in held:
            values = ",".join(f"({line})" for line in path.read_text().split())
            spark.sql(f"INSERT INTO delta.`{table}` SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")
    return str(table)


def from_table(options: dict[str, str], properties: str = "") -> Callable[[Any, Folder, int], Any]:
    def start(spark: Any, folder: Folder, files: int) -> Any:
        table = feed_table(spark, folder, properties)
        reader = spark.readStream.format("delta").option("maxFilesPerTrigger", files).options(**options)
        return to_delta(reader.load(table).select("id"), folder)

    return start


def changes(spark: Any, folder: Folder, files: int) -> Any:
    table = feed_table(spark, folder, "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    reader = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", "0")
    frame = reader.option("maxFilesPerTrigger", files).load(table).where("_change_type = 'insert'").select("id")
    return now(frame.writeStream.foreachBatch(Upserter(folder.out, "id").upsert), folder).start()


def landing(folder: Folder) -> Path:
    """A folder of its own, where each file appears once; whoever takes one away has taken it away."""
    place, noted = folder.root / "landing", folder.root / "landed.txt"
    place.mkdir(parents=True, exist_ok=True)
    landed = noted.read_text().split() if noted.exists() else []
    for path in arrived(folder):
        if path.name not in landed:
            shutil.copy2(path, place / path.name)
            landed.append(path.name)
    noted.write_text("\n".join(landed))
    return place


def with_options(options: Callable[[Folder], dict[str, str]]) -> Callable[[Any, Folder, int], Any]:
    def start(spark: Any, folder: Folder, files: int) -> Any:
        reader = spark.readStream.format("text").option("maxFilesPerTrigger", files).options(**options(folder))
        return to_delta(reader.load(str(landing(folder))).selectExpr("cast(value AS INT) AS id"), folder)

    return start


def rewrite_checkpoint(base: Folder, folder: Folder) -> None:
    """The copy's checkpoint names the copy's own source."""
    for log in ("offsets", "sources/0", "sources/1"):
        for path in sorted((folder.checkpoint / log).glob("*")):
            if path.is_file() and path.name[0] != ".":
                text = path.read_text()
                changed = text.replace(str(base.root), str(folder.root)).replace(topic_name(base), topic_name(folder))
                if changed != text:
                    write(path, changed)


def topic_name(folder: Folder) -> str:
    return f"in-{folder.root.name}"


def by_the_thousand(spark: Any, folder: Folder, files: int) -> Any:
    """Spark's own source of numbers, whose batches are always of one size: each start makes one."""
    rows = ROWS if files == 1 else (END - LAST) * ROWS
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 1)
    frame = rate.load().selectExpr("cast(value AS INT) AS id")
    wanted = len(arrived(folder)) * ROWS
    while True:
        query = to_delta(frame, folder)
        query.awaitTermination()
        if query.exception() is not None or made_by_rate(folder) >= wanted:
            return query


def made_by_rate(folder: Folder) -> int:
    import json

    offsets = folder.checkpoint / "offsets"
    text = (offsets / str(newest_in(offsets))).read_text().splitlines()[2]
    return int(json.loads(text)["offset"])


# ---- damages, by what is newest --------------------------------------------------------------------------------------
def in_flight(spark: Any, folder: Folder) -> None:
    remove(folder.checkpoint / "commits" / str(newest_in(folder.checkpoint / "commits")))


def rewound(spark: Any, folder: Folder) -> None:
    for log in ("offsets", "commits"):
        for _ in range(2):
            remove(folder.checkpoint / log / str(newest_in(folder.checkpoint / log)))


def newest_offsets_gone(spark: Any, folder: Folder) -> None:
    remove(folder.checkpoint / "offsets" / str(newest_in(folder.checkpoint / "offsets")))


def source_log_gone(spark: Any, folder: Folder) -> None:
    shutil.rmtree(folder.checkpoint / "sources")


def early_put_back(spark: Any, folder: Folder) -> None:
    shutil.rmtree(folder.checkpoint)
    shutil.copytree(folder.root / "early", folder.checkpoint)


def source_made_anew(spark: Any, folder: Folder) -> None:
    """All of its rows are there again, in a table of another id."""
    shutil.rmtree(folder.root / "source")
    feed_table(spark, folder)


def source_log_cut(spark: Any, folder: Folder) -> None:
    """The table's log was cleaned up past what the stream has read."""
    feed_table(spark, folder)
    table = f"delta.`{folder.root / 'source'}`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    newest = max(path.stem for path in (folder.root / "source/_delta_log").glob("0*.json") if path.stem.isdigit())
    for path in (folder.root / "source/_delta_log").glob("0*.json"):
        if path.stem < newest:
            path.unlink()


def source_rows_deleted(spark: Any, folder: Folder) -> None:
    """A commit that takes away what was read before: the stream passes over it, if it was told to."""
    feed_table(spark, folder)
    spark.sql(f"DELETE FROM delta.`{folder.root / 'source'}` WHERE id < 5")


def source_vacuumed(spark: Any, folder: Folder) -> None:
    """The stream stood still for long: what it has not read yet was put into one file, and the old ones deleted."""
    table = f"delta.`{feed_table(spark, folder)}`"
    spark.sql(f"OPTIMIZE {table}").collect()
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    # Its listing makes 10,000 tasks otherwise.
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "4")
    spark.sql(f"VACUUM {table} RETAIN 0 HOURS").collect()


def source_files_gone(spark: Any, folder: Folder) -> None:
    """A batch was planned and its file is gone before it was read."""
    in_flight(spark, folder)
    numbers_of = newest_in(folder.checkpoint / "offsets")
    for path in (folder.root / "landing").glob(f"part-{numbers_of}"):
        path.unlink()


IN_FLIGHT = Damage("killed after the sink", in_flight)
REWOUND = Damage("rewound by two", rewound)
NO_OFFSETS = Damage("newest offsets gone", newest_offsets_gone)
NO_SOURCES = Damage("list of its source gone", source_log_gone)
EARLY = Damage("its early copy put back", early_put_back)
EVERYWHERE = (HEALTHY, IN_FLIGHT, REWOUND, DELETED, NO_OFFSETS, EARLY)

MERGING, ALONE = "foreach-batch+alone+keys=id", "foreach-batch+alone"


def three(head: str) -> Callable[[Folder], tuple[str, ...]]:
    return lambda folder: tuple(f"{head}:{one}" for one in (folder.out, folder.out2, third(folder)))


def of_a_table(name: str, start: Any, **more: Any) -> Kind:
    return kind(name, start, "", "delta-builtin+alone", **more)


BY_CLASS = kind("merge by a class", by_class, "foreach-batch", MERGING)
THREE = Kind("three tables", by_function(to_three), three("foreach-batch"), three(ALONE), both_rows, both_expected)
ADDS = kind(
    "merge that adds",
    by_function(merge_that_adds),
    "foreach-batch",
    ALONE,
    rows=lambda folder: delta_rows(folder.out, "id", "count"),
    expected=counts,
)
HISTORY = kind("history of changes", by_function(history_of_changes), "foreach-batch", ALONE)
EVEN = kind("writes at times, now", by_function(at_times(0)), "foreach-batch", ALONE, expected=some(0))
ODD = kind("writes at times, not now", by_function(at_times(1)), "foreach-batch", ALONE, expected=some(1))
AUDIT = Kind(
    "with an audit",
    by_function(with_audit),
    lambda folder: (f"foreach-batch:{folder.out}", f"foreach-batch:{folder.out2}"),
    lambda folder: (f"{ALONE}:{folder.out}", f"{ALONE}:{folder.out2}"),
    audit_rows,
    numbers,
)
OWN_DAY = kind("overwrites its day", by_function(own_partition), "foreach-batch", ALONE)
REPLACES = kind("replaceWhere", by_function(replace_where), "foreach-batch", ALONE)
BATCH_FOLDER = kind("a folder of each batch", by_function(folder_of_batch), "parquet", "parquet", rows=files_of_batches)
PLUS_ONE = kind("constant id from one", by_function(plus_one), "foreach-batch", "foreach-batch+app-id=nightly-from-one")
SAVED = kind("saveAsTable in a function", by_function(by_saved_name), "foreach-batch", ALONE)
OVERWRITTEN = kind(
    "complete overwritten by a function",
    complete_overwritten,
    "foreach-batch",
    ALONE,
    rows=lambda folder: delta_rows(folder.out, "id", "count"),
    expected=counts,
)
LEFT_OUTER = of_a_table(
    "left outer join", left_outer, rows=lambda folder: delta_rows(folder.out, "id", "other"), expected=partners
)
WINDOWS = of_a_table("deduplication and windows", dedup_then_windows, expected=ended)
MAPPED = of_a_table("mapInPandas into partitions", mapped_in_pandas)
BY_ROW = Kind("foreach", by_row, lambda f: ("foreach:rows",), lambda f: ("foreach:rows",), lines_of, numbers)
TABLE = of_a_table("from a table", from_table({}))
SKIPS = of_a_table("skipping change commits", from_table({"skipChangeCommits": "true"}))
FEED = kind("from a change feed", changes, "foreach-batch", MERGING)
ARCHIVED = of_a_table(
    "source that archives",
    with_options(lambda folder: {"cleanSource": "archive", "sourceArchiveDir": str(folder.root / "done")}),
    copy=rewrite_checkpoint,
)
LANDED = of_a_table(
    "from a folder of its own", with_options(lambda folder: {"maxFileAge": "1d"}), copy=rewrite_checkpoint
)
RATE = of_a_table("from rate-micro-batch", by_the_thousand)
STRANGE_KINDS = (
    BY_CLASS, THREE, ADDS, HISTORY, EVEN, ODD, AUDIT, OWN_DAY, REPLACES, BATCH_FOLDER, PLUS_ONE, SAVED, OVERWRITTEN,
    LEFT_OUTER, WINDOWS, MAPPED, BY_ROW, TABLE, SKIPS, FEED, ARCHIVED, LANDED, RATE,
)  # fmt: skip
FROM_TABLES = (TABLE, SKIPS, FEED)
STRANGE_CASES: list[tuple[Kind, Damage]] = [
    *((one, damage) for one in STRANGE_KINDS for damage in EVERYWHERE),
    *((one, damage) for one in (ADDS, HISTORY, EVEN, PLUS_ONE, SAVED, BY_CLASS) for damage in (RESTORED, UNWRITTEN)),
    *((one, ANEW) for one in (EVEN, ADDS, SAVED, OVERWRITTEN, LEFT_OUTER, PLUS_ONE)),
    *((one, EMPTIED) for one in (OWN_DAY, ADDS, OVERWRITTEN)),
    *((one, NO_SOURCES) for one in (BY_CLASS, ARCHIVED, LANDED, WINDOWS)),
    *((one, NO_ID_IN_FLIGHT) for one in (ODD, REPLACES, FEED)),
    *((one, Damage("state deleted", state_deleted)) for one in (LEFT_OUTER, WINDOWS, OVERWRITTEN)),
    *((one, Damage("source made anew", source_made_anew, of_source=True)) for one in FROM_TABLES),
    *((one, Damage("source's log cut off", source_log_cut, of_source=True)) for one in FROM_TABLES),
    *((one, Damage("source's rows deleted", source_rows_deleted, of_source=True)) for one in FROM_TABLES),
    *((one, Damage("source tidied up and vacuumed", source_vacuumed, of_source=True)) for one in FROM_TABLES),
    (LANDED, Damage("its file gone, in flight", source_files_gone, of_source=True)),
]  # fmt: skip
# What `make calibrate` runs on each line: the commonest kinds, those that other modules have and those from here.
LINE_KINDS = (APPEND, TWO_WRITERS, MERGE, MERGE_PAIR, FUNCTION, CONSTANT, PARQUET, DEDUP, AGGREGATE, JOIN, PANDAS)
LINE_CASES = [
    *((one, damage) for one in LINE_KINDS for damage in EVERYWHERE),
    *((one, damage) for one, damage in STRANGE_CASES if one in (BY_CLASS, LEFT_OUTER, SKIPS, FEED, LANDED)),
]
