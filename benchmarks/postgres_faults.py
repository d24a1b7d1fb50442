"""The same faults on PostgresSink and on plain df.write.jdbc(mode="append"): rows lost and doubled, counted.

    python -m benchmarks.postgres_faults [--rows 1000] [--faults 9]      prints one table, a few minutes
    python -m benchmarks.postgres_faults child …                         the run that dies, started by the other

A batch is four partitions of so many rows. Batch 0 is written, batch 1 meets the fault, the next start replays it and
goes on with batch 2; then the table is compared with all 12,000 rows row by row. PostgresSink dies at its fail points.
Plain JDBC has none: there a trigger holds chosen partitions at their first row until the others are committed, which
is what a slower partition does on any day. Both run without the start gate, which refuses a JDBC sink altogether.
The second writer's row is taken away before the next start; a batch that still cannot be written then is stuck.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.servers.postgres_server import PostgresServer, postgres_server

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.environment import Environment, environment_from_settings
from surestart.failpoints import VARIABLE as FAILPOINT
from surestart.failpoints import fail_point
from surestart.runs.runner import StageFailed, run_ungated
from surestart.sinks.postgres.sink import PostgresSink
from surestart.spark.session import local_session
from surestart.stage import BatchContext, Sink, Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

JDBC = "org.postgresql:postgresql:42.7.7"
URL = "SURESTART_POSTGRES_URL"
SIZE = "SURESTART_BENCH_FAULT_ROWS"
PARTITIONS, ROWS = 4, int(os.environ.get(SIZE) or 1000)
GATE = f"""
CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(7, NEW.part); RETURN NEW; END $$;
CREATE TRIGGER gate BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.pos % {ROWS} = 0) EXECUTE FUNCTION gate()
"""


@dataclass(frozen=True)
class JdbcAppend:
    """What most pipelines do: foreachBatch and Spark's JDBC writer."""

    def prepare(self, spark: SparkSession, environment: Environment) -> None:
        return

    def start(self, writer: DataStreamWriter, context: BatchContext) -> StreamingQuery:
        return writer.foreachBatch(_append_by_jdbc).start()

    def declare(self, environment: Environment) -> tuple[SinkDeclaration, ...]:
        return (SinkDeclaration("jdbc", "events", identity="none"),)


def _append_by_jdbc(batch_df: DataFrame, batch_id: int) -> None:
    from psycopg.conninfo import conninfo_to_dict

    at = conninfo_to_dict(os.environ[URL])
    login = {"user": str(at["user"]), "password": str(at["password"]), "driver": "org.postgresql.Driver"}
    address = f"jdbc:postgresql://{at['host']}:{at['port']}/{at['dbname']}"
    batch_df.write.mode("append").jdbc(address, "events", properties=login)
    fail_point("jdbc.after_write")


@dataclass(frozen=True)
class Files:
    """Four files a batch, each a partition."""

    def read_stream(self, spark: SparkSession, environment: Environment) -> DataFrame:
        reader = spark.readStream.schema("part int, pos bigint").option("maxFilesPerTrigger", PARTITIONS)
        return reader.parquet(environment.landing)

    def declare(self, environment: Environment) -> SourceDeclaration:
        return SourceDeclaration("files", environment.landing)


@dataclass(frozen=True)
class Fault:
    """held: partitions kept back; then: what happens once the others are done (None: the fail point kills the run)."""

    name: str
    ours: str = ""
    jdbc: str = ""
    held: tuple[int, ...] = ()
    then: str = "kill"


FAULTS = (
    Fault("kill -9 after BEGIN", ours="postgres.after_begin", held=(0, 1, 2, 3)),
    Fault("kill -9 mid COPY / mid INSERT", ours="postgres.mid_copy", held=(2, 3)),
    Fault("kill -9 before the ledger row", ours="postgres.before_ledger", held=(3,)),
    Fault("kill -9 before the (last) COMMIT", ours="postgres.before_commit", held=(3,)),
    Fault("kill -9 right after COMMIT", ours="postgres.after_commit", jdbc="jdbc.after_write"),
    Fault("kill -9 before Spark's commit file", ours="postgres.before_spark_commit", jdbc="jdbc.after_write"),
    Fault("pg_terminate_backend mid-batch", held=(2, 3), then="terminate"),
    Fault("server restart -m immediate", held=(2, 3), then="restart"),
    Fault("unique violation by a second writer", held=(3,), then="rival"),
)
RIVAL = (3, PARTITIONS * ROWS + 3 * ROWS + ROWS // 2)


@dataclass(frozen=True)
class Outcome:
    fault: Fault
    sink: str
    lost: int
    doubled: int
    stuck: bool


def main() -> int:
    if sys.argv[1:2] == ["child"]:
        _child(Path(sys.argv[2]), sys.argv[3])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of a partition")
    parser.add_argument("--faults", type=int, default=len(FAULTS), help="so many of the faults, the last one included")
    args = parser.parse_args()
    if args.rows != ROWS:
        # The runs that die count by it too, and so do the constants above.
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.postgres_faults", *sys.argv[1:]],
                  {**os.environ, SIZE: str(args.rows)})  # fmt: skip
    outcomes = measure((*FAULTS[: args.faults - 1], FAULTS[-1]))
    print(table(outcomes))
    wrong = sum(1 for outcome in outcomes if outcome.sink == "surestart" and _is_wrong(outcome))
    print(f"{'MISSED' if wrong else 'held'}: PostgresSink lost or doubled rows after {wrong} faults, wanted 0")
    return 1 if wrong else 0


def measure(faults: Sequence[Fault] = FAULTS) -> list[Outcome]:
    spark = _session()
    try:
        with postgres_server({"fsync": "off"}) as server:
            os.environ[URL] = server.url
            outcomes = []
            for fault in faults:
                for sink in ("surestart", "jdbc"):
                    outcomes.append(_suffer(spark, server, fault, sink))
                    print(f"{fault.name}, {sink}: {_cell(outcomes[-1])}", file=sys.stderr, flush=True)
            return outcomes
    finally:
        spark.stop()


def table(outcomes: list[Outcome]) -> str:
    lines = [f"{'fault':<36}{'PostgresSink lost/doubled':>28}{'df.write.jdbc lost/doubled':>28}"]
    for fault in dict.fromkeys(outcome.fault for outcome in outcomes):
        cells = {one.sink: _cell(one) for one in outcomes if one.fault == fault}
        lines.append(f"{fault.name:<36}{cells['surestart']:>28}{cells['jdbc']:>28}")
    for sink in ("surestart", "jdbc"):
        mine = [outcome for outcome in outcomes if outcome.sink == sink]
        wrong = sum(1 for outcome in mine if _is_wrong(outcome))
        lines.append(f"{sink}: wrong after {wrong} of {len(mine)} faults")
    return "\n".join(lines)


def _cell(outcome: Outcome) -> str:
    return f"{outcome.lost:,} / {outcome.doubled:,}{', stuck' if outcome.stuck else ''}"


def _is_wrong(outcome: Outcome) -> bool:
    return bool(outcome.lost or outcome.doubled or outcome.stuck)


def _suffer(spark: SparkSession, server: PostgresServer, fault: Fault, sink: str) -> Outcome:
    root = Path(tempfile.mkdtemp(prefix="surestart-faults-"))
    try:
        with _connect() as connection:
            connection.execute("DROP TABLE IF EXISTS events, surestart_ledger; DROP FUNCTION IF EXISTS gate")
            unique = ", UNIQUE (part, pos)" if fault.then == "rival" else ""
            connection.execute(f"CREATE TABLE events (part int, pos bigint{unique})")
        _land(root, 0)
        run_ungated(spark, _environment(root), _stage(sink))
        _land(root, 1)
        _meet(server, fault, sink, root)
        _land(root, 2)
        stuck = False
        try:
            run_ungated(spark, _environment(root), _stage(sink))
        except StageFailed:
            stuck = True
        with _connect() as connection:
            found = Counter(connection.execute("SELECT part, pos FROM events").fetchall())
        expected = Counter(row for batch_id in range(3) for row in _rows(batch_id))
        return Outcome(fault, sink, (expected - found).total(), (found - expected).total(), stuck)
    finally:
        shutil.rmtree(root)


def _meet(server: PostgresServer, fault: Fault, sink: str, root: Path) -> None:
    """The run has met the fault and is over."""
    point = fault.ours if sink == "surestart" else fault.jdbc
    if point:
        died = _start(root, sink, point)
        if died.wait(240) != -9:
            raise SystemExit(f"{fault.name}, {sink}: ended with {died.returncode} instead of being killed")
        return
    gate = _connect()
    gate.execute(GATE)
    for part in fault.held:
        gate.execute("SELECT pg_advisory_lock(7, %s)", (part,))
    run = _start(root, sink)
    # PostgresSink moves a batch over one connection, so it waits at the first partition that is held.
    waiting = 1 if sink == "surestart" else len(fault.held)
    before = PARTITIONS * ROWS
    there = before if sink == "surestart" else before + (PARTITIONS - len(fault.held)) * ROWS
    _until(lambda: _waiting(gate) >= waiting and _count(gate) == there, run, fault)
    if fault.then == "restart":
        server.restart_immediately()
    else:
        if fault.then == "rival":
            gate.execute("INSERT INTO events VALUES (%s, %s)", RIVAL)
        elif fault.then == "terminate":
            gate.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        else:
            os.killpg(run.pid, 9)
        gate.execute("SELECT pg_advisory_unlock_all()")
    gate.close()
    if run.wait(240) == 0:
        raise SystemExit(f"{fault.name}, {sink}: the run survived, so nothing was tested")
    with _connect() as connection:
        # What a killed driver's transaction still had open is over before the next start.
        _until(lambda: connection.execute(_OTHERS).fetchone()[0] == 0, None, fault)
        connection.execute("DROP FUNCTION gate CASCADE")
        if fault.then == "rival":
            connection.execute("DELETE FROM events WHERE (part, pos) = (%s, %s)", RIVAL)


_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


def _start(root: Path, sink: str, point: str = "") -> subprocess.Popen[bytes]:
    environment = {**os.environ, **({FAILPOINT: point} if point else {})}
    with (root / "output").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.postgres_faults", "child", str(root), sink],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _child(root: Path, sink: str) -> None:
    spark = _session()
    try:
        run_ungated(spark, _environment(root), _stage(sink))
    except StageFailed as failure:
        sys.exit(str(failure))
    finally:
        spark.stop()


def _until(holds: Callable[[], bool], run: subprocess.Popen[bytes] | None, fault: Fault) -> None:
    deadline = time.monotonic() + 240
    while not holds():
        if time.monotonic() > deadline or (run is not None and run.poll() is not None):
            raise SystemExit(f"{fault.name}: the moment for the fault did not come")
        time.sleep(0.05)


def _waiting(connection: Any) -> int:
    sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    return int(connection.execute(sql).fetchone()[0])


def _count(connection: Any) -> int:
    return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])


def _connect() -> Any:
    import psycopg

    return psycopg.connect(os.environ[URL], autocommit=True)


def _session() -> SparkSession:
    confs = {"spark.sql.files.minPartitionNum": str(PARTITIONS)}
    # A slot for each partition: with fewer, the held ones could take them all, and the others would never begin.
    master = f"local[{PARTITIONS}]"
    return local_session("postgres-faults", master=master, more_packages=(JDBC,), confs=confs)


def _stage(sink: str) -> Stage:
    chosen: Sink = PostgresSink(target="events") if sink == "surestart" else JdbcAppend()
    return Stage("load", Files(), _same, chosen)


def _same(rows: DataFrame) -> DataFrame:
    return rows


def _environment(root: Path) -> Environment:
    return environment_from_settings("local", "faults", {"root": str(root)}, environ={})


def _rows(batch_id: int) -> list[tuple[int, int]]:
    start = batch_id * PARTITIONS * ROWS
    return [(part, start + part * ROWS + row) for part in range(PARTITIONS) for row in range(ROWS)]


def _land(root: Path, batch_id: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    landing = Path(_environment(root).landing)
    landing.mkdir(parents=True, exist_ok=True)
    for part in range(PARTITIONS):
        positions = [pos for at, pos in _rows(batch_id) if at == part]
        rows = pa.table({"part": pa.array([part] * ROWS, pa.int32()), "pos": pa.array(positions, pa.int64())})
        draft = root / "draft.parquet"
        pyarrow.parquet.write_table(rows, draft)
        # Spark takes files by age; four of one batch have the same.
        os.utime(draft, (1_700_000_000 + batch_id, 1_700_000_000 + batch_id))
        draft.rename(landing / f"{batch_id:03d}-{part}.parquet")


if __name__ == "__main__":
    sys.exit(main())
