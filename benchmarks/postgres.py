"""How fast 500,000 readings reach PostgreSQL: exactly once, and by the ways that are not.

    python -m benchmarks.postgres [--rows 500000] [--repeats 3]

Every writer starts with an empty table and Spark's readings in two Parquet files; psycopg and psql get theirs in memory
and as a CSV file, which is their best case. The writers run in turn, repeat after repeat; what is printed is the median
rate and the median of the ratios within one repeat, because a shared machine changes its speed between repeats. Before
anything is timed, each writer's table is compared row by row with what plain Python put there.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers.postgres_server import PostgresServer, postgres_server

from surestart.environment import environment_from_settings
from surestart.facts.postgres.url import DatabaseUrl
from surestart.sinks.postgres.sink import PostgresSink
from surestart.spark.session import local_session
from surestart.stage import BatchContext

JDBC = "org.postgresql:postgresql:42.7.7"
VARIABLE = "SURESTART_BENCH_POSTGRES_URL"
COLUMNS = (
    "sensor_id text{key}, part int, pos bigint, reading_time timestamptz,"
    " temperature double precision, humidity double precision, status text"
)
NAMES = ("sensor_id", "part", "pos", "reading_time", "temperature", "humidity", "status")
UPSERT = (
    f"INSERT INTO keyed AS t VALUES ({', '.join(['%s'] * len(NAMES))}) ON CONFLICT (sensor_id) DO UPDATE SET "
    + ", ".join(f"{name} = EXCLUDED.{name}" for name in NAMES[1:])
    + " WHERE (EXCLUDED.part, EXCLUDED.pos) > (t.part, t.pos)"
)


@dataclass(frozen=True)
class Writer:
    """table: keyed has a primary key on sensor_id, plain has none. once: whether a batch tried again is there once."""

    name: str
    table: str
    once: bool
    run: Callable[[], object]


@dataclass(frozen=True)
class Line:
    """rate: rows a second. ratios: how many times longer each writer of the same table took. processor: seconds of
    processor time of everything that took part, Spark, Python and the server, which another program's load hardly
    changes."""

    writer: Writer
    rate: float
    ratios: dict[str, float]
    processor: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    lines = measure(args.rows, args.repeats)
    print(table(lines, args.rows, args.repeats))
    failed = [text for text, held in goals(lines) if not held]
    for text, held in goals(lines):
        print(f"{'held' if held else 'MISSED'}: {text}")
    return 1 if failed else 0


def measure(rows: int, repeats: int) -> list[Line]:
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_server() as server,
        _bench(Path(folder), server, rows) as bench,
    ):
        for writer in bench.writers:
            bench.reset()
            writer.run()
            wrong = bench.differing(writer.table)
            if wrong:
                raise SystemExit(f"{writer.name}: {wrong} rows differ from the reference; nothing is reported")
            _say(f"{writer.name}: its table is right")
        seconds: dict[str, list[float]] = {writer.name: [] for writer in bench.writers}
        processor: dict[str, list[float]] = {writer.name: [] for writer in bench.writers}
        for number in range(repeats):
            for writer in bench.writers:
                bench.reset()
                used, began = _processor_seconds(), time.perf_counter()
                writer.run()
                seconds[writer.name].append(time.perf_counter() - began)
                processor[writer.name].append(_processor_seconds() - used)
                _say(
                    f"{number + 1}: {writer.name} {seconds[writer.name][-1]:.2f} s, "
                    f"{processor[writer.name][-1]:.2f} s of processor time"
                )
        return [_line(writer, bench.writers, seconds, processor, rows) for writer in bench.writers]


def _processor_seconds() -> float:
    """Of this process, of all below it (Spark, Python workers, the server) and of their children that have ended."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                # After the name, which may hold anything, in brackets.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            ticks[int(folder.name)] = sum(int(field) for field in fields[11:15])
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _line(
    writer: Writer,
    writers: list[Writer],
    seconds: dict[str, list[float]],
    processor: dict[str, list[float]],
    rows: int,
) -> Line:
    mine = seconds[writer.name]
    ratios = {
        other.name: statistics.median(theirs / ours for theirs, ours in zip(seconds[other.name], mine, strict=True))
        for other in writers
        if other.table == writer.table
    }
    return Line(writer, rows / statistics.median(mine), ratios, statistics.median(processor[writer.name]))


def goals(lines: list[Line]) -> list[tuple[str, bool]]:
    by_name = {line.writer.name: line.ratios for line in lines}
    # A primary key's index is filled row by row for every writer alike, and both take longer by it.
    upsert, append = by_name["surestart upsert"], by_name["surestart append"]
    wanted = (
        ("exactly-once upsert / psycopg executemany upsert", upsert["executemany upsert"], 1.6),
        ("exactly-once upsert / df.write.jdbc append", upsert["df.write.jdbc"], 1.0),
        ("exactly-once append / df.write.jdbc append, table without a key", append["df.write.jdbc, no key"], 1.5),
    )
    return [(f"{text}: {ratio:.2f}x, wanted {goal}x", ratio >= goal) for text, ratio, goal in wanted]


def table(lines: list[Line], rows: int, repeats: int) -> str:
    out = [
        f"{rows:,} readings into PostgreSQL, medians of {repeats}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} at the end",
        "",
        f"{'writer':<46}{'table':<14}{'exactly once':<14}{'krow/s':>8}{'x jdbc':>8}{'cpu s':>8}",
    ]
    for line in lines:
        jdbc = line.ratios["df.write.jdbc" if line.writer.table == "keyed" else "df.write.jdbc, no key"]
        kind = "primary key" if line.writer.table == "keyed" else "no key"
        once = "yes" if line.writer.once else "no"
        out.append(
            f"{line.writer.name:<46}{kind:<14}{once:<14}{line.rate / 1000:>8.1f}{jdbc:>8.2f}{line.processor:>8.1f}"
        )
    return "\n".join(out)


@dataclass(frozen=True)
class Bench:
    """reset empties the tables; differing counts the rows in which a table and the reference differ."""

    writers: list[Writer]
    reset: Callable[[], None]
    differing: Callable[[str], int]


@contextmanager
def _bench(folder: Path, server: PostgresServer, rows: int) -> Iterator[Bench]:
    import psycopg

    readings = _readings(rows)
    _land(folder, readings)
    os.environ[VARIABLE] = server.url
    spark = local_session("bench-postgres", more_packages=(JDBC,))
    frame = spark.read.parquet(str(folder / "readings"))
    jdbc = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
    login = {"user": "postgres", "password": server.password, "driver": "org.postgresql.Driver"}
    connection = psycopg.connect(server.url, autocommit=True)
    for name, key in (("keyed", " PRIMARY KEY"), ("plain", ""), ("reference", "")):
        connection.execute(f"CREATE TABLE {name} ({COLUMNS.format(key=key)})")
    with connection.cursor().copy("COPY reference FROM STDIN") as copy:
        for row in readings:
            copy.write_row(row)

    def reset() -> None:
        connection.execute("TRUNCATE keyed, plain")
        connection.execute("CHECKPOINT")

    def differing(name: str) -> int:
        (count,) = connection.execute(
            f"SELECT count(*) FROM ((TABLE {name} EXCEPT ALL TABLE reference)"
            f" UNION ALL (TABLE reference EXCEPT ALL TABLE {name})) d"
        ).fetchone()
        return int(count)

    def exactly_once(sink: PostgresSink) -> Callable[[], object]:
        checkpoint = folder / f"checkpoint-{sink.mode}-{sink.target}"
        checkpoint.mkdir()
        (checkpoint / "metadata").write_text(json.dumps({"id": checkpoint.name}))
        environment = environment_from_settings("local", "bench", {"root": str(folder)}, environ={})
        batch = sink.batch_writer(BatchContext(environment, "bench", "bench", str(checkpoint)))
        numbers = iter(range(1_000_000))
        return lambda: batch.write(frame, next(numbers))

    def executemany(sql: str) -> None:
        with psycopg.connect(server.url) as own:
            own.cursor().executemany(sql, readings)

    def psql(name: str) -> None:
        command = rf"\copy {name} FROM '{folder}/readings.csv' (FORMAT csv)"
        subprocess.run([server.programs / "psql", "-q", "-X", server.url, "-c", command], check=True)

    def through_jdbc(name: str, options: str = "") -> None:
        frame.write.mode("append").jdbc(jdbc + options, name, properties=login)

    url = DatabaseUrl(variable=VARIABLE)
    values = ", ".join(["%s"] * len(NAMES))
    upsert = PostgresSink(url, "keyed", mode="upsert", keys=("sensor_id",), order=("part", "pos"))
    rewrite = "?reWriteBatchedInserts=true"
    try:
        yield Bench(
            [
                Writer("surestart upsert", "keyed", True, exactly_once(upsert)),
                Writer("surestart append, primary key", "keyed", True, exactly_once(PostgresSink(url, "keyed"))),
                Writer("executemany upsert", "keyed", False, lambda: executemany(UPSERT)),
                Writer("df.write.jdbc", "keyed", False, lambda: through_jdbc("keyed")),
                Writer("df.write.jdbc reWriteBatchedInserts", "keyed", False, lambda: through_jdbc("keyed", rewrite)),
                Writer("psql \\copy (the limit)", "keyed", False, lambda: psql("keyed")),
                Writer("surestart append", "plain", True, exactly_once(PostgresSink(url, "plain"))),
                Writer(
                    "executemany, no key", "plain", False, lambda: executemany(f"INSERT INTO plain VALUES ({values})")
                ),
                Writer("df.write.jdbc, no key", "plain", False, lambda: through_jdbc("plain")),
                Writer(
                    "df.write.jdbc reWriteBatchedInserts, no key",
                    "plain",
                    False,
                    lambda: through_jdbc("plain", rewrite),
                ),
                Writer("psql \\copy (the limit), no key", "plain", False, lambda: psql("plain")),
            ],
            reset,
            differing,
        )
    finally:
        connection.close()
        spark.stop()


def _readings(rows: int) -> list[tuple[Any, ...]]:
    """Distinct sensors in random order: a primary key's worst case, for every writer the same."""
    import datetime as dt

    chance = random.Random(7)
    sensors = [f"sensor-{number:07d}" for number in range(rows)]
    chance.shuffle(sensors)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    status = ("ok", "low", "high")
    return [
        (
            *(sensor, pos % 8, pos, start + dt.timedelta(milliseconds=pos)),
            *(chance.gauss(20, 5), chance.random(), status[pos % 3]),
        )
        for pos, sensor in enumerate(sensors)
    ]


def _land(folder: Path, readings: list[tuple[Any, ...]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    columns = [list(column) for column in zip(*readings, strict=True)]
    kinds = (
        *(pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC")),
        *(pa.float64(), pa.float64(), pa.string()),
    )
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    whole = pa.Table.from_arrays(arrays, names=list(NAMES))
    (folder / "readings").mkdir()
    half = (len(readings) + 1) // 2
    for part in range(2):
        pyarrow.parquet.write_table(whole.slice(part * half, half), folder / "readings" / f"{part}.parquet")
    folder.chmod(0o755)
    with (folder / "readings.csv").open("w", newline="") as file:
        csv.writer(file).writerows((*row[:3], row[3].isoformat(), *row[4:]) for row in readings)


if __name__ == "__main__":
    sys.exit(main())
