"""Each way of altering a stopped query that people were seen to use: the answer is given first, then Spark restarts.

One base run of five batches of ten rows is copied for every case; three more files wait for the restart. Rows are
counted from the table's files, without Spark.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.delta import read_table_rows
from surestart.facts.evidence.read_sinks import read_sinks
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.verdict.acceptance import NextBatch, SinkAcceptance, diagnose_acceptance, next_batch_of
from surestart.verdict.explain import explain
from surestart.words.finding import Acceptance, Severity
from tests.diagnosis.restart_lab import THRIFTY

NOW = 1_800_000_000_000


@dataclass(frozen=True)
class Run:
    """A query's checkpoint and table, and the folder of input that all copies share."""

    landing: Path
    checkpoint: Path
    table: Path

    def copy(self, folder: Path) -> Run:
        shutil.copytree(self.checkpoint, folder / "checkpoint")
        shutil.copytree(self.table, folder / "table")
        return Run(self.landing, folder / "checkpoint", folder / "table")


def write_files(landing: Path, numbers: range) -> None:
    landing.mkdir(exist_ok=True)
    for number in numbers:
        rows = [json.dumps({"id": number * 10 + index}) for index in range(10)]
        (landing / f"part-{number:03d}.json").write_text("\n".join(rows) + "\n")


def start(spark: SparkSession, run: Run, constant_id: bool = False) -> str:
    """Runs the query to the end of its input; the error's text, or ''."""
    frame = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).json(str(run.landing))
    writer = frame.writeStream.option("checkpointLocation", str(run.checkpoint)).trigger(availableNow=True)
    if constant_id:
        writer = writer.foreachBatch(ConstantAppend(str(run.table)))
        query = writer.start()
    else:
        query = writer.format("delta").start(str(run.table))
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class ConstantAppend:
    table: str

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        writer = frame.write.format("delta").mode("append").option("txnAppId", "my-app")
        writer.option("txnVersion", str(batch_id)).save(self.table)


@pytest.fixture(scope="module", autouse=True)
def production_settings(spark: SparkSession) -> Iterator[None]:
    """The settings that a run of ours sets; one of them makes these small commits five times as quick."""
    with applied(spark, {**pairs(EVERYWHERE), **THRIFTY}):
        yield


@pytest.fixture(scope="module")
def base(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Five batches written and committed; the next three files are there and unread."""
    folder = tmp_path_factory.mktemp("base")
    run = Run(folder / "landing", folder / "checkpoint", folder / "table")
    write_files(run.landing, range(5))
    assert start(spark, run) == ""
    write_files(run.landing, range(5, 8))
    return run


@pytest.fixture(scope="module")
def constant_base(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("constant")
    run = Run(folder / "landing", folder / "checkpoint", folder / "table")
    write_files(run.landing, range(5))
    assert start(spark, run, constant_id=True) == ""
    write_files(run.landing, range(5, 8))
    return run


def remove(run: Run, *names: str) -> None:
    for name in names:
        path = run.checkpoint / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def nothing(spark: SparkSession, run: Run) -> None: ...


def crash_after_the_sink(spark: SparkSession, run: Run) -> None:
    remove(run, "commits/4")


def rewind_both_logs(spark: SparkSession, run: Run) -> None:
    remove(run, "offsets/3", "offsets/4", "commits/3", "commits/4")


def delete_the_checkpoint(spark: SparkSession, run: Run) -> None:
    shutil.rmtree(run.checkpoint)


def delete_both_logs(spark: SparkSession, run: Run) -> None:
    remove(run, "offsets", "commits")


def remove_offsets_only(spark: SparkSession, run: Run) -> None:
    remove(run, "offsets/3", "offsets/4")


def remove_three_commits(spark: SparkSession, run: Run) -> None:
    remove(run, "commits/2", "commits/3", "commits/4")


def lose_metadata(spark: SparkSession, run: Run) -> None:
    remove(run, "metadata")


def lose_metadata_in_flight(spark: SparkSession, run: Run) -> None:
    remove(run, "metadata", "commits/4")


def tear_the_last_commit(spark: SparkSession, run: Run) -> None:
    remove(run, "commits/4")
    (run.checkpoint / "commits" / "4").write_text("v1")


def restore_the_table(spark: SparkSession, run: Run) -> None:
    spark.sql(f"RESTORE TABLE delta.`{run.table}` TO VERSION AS OF 2")


def restore_and_rewind(spark: SparkSession, run: Run) -> None:
    restore_the_table(spark, run)
    rewind_both_logs(spark, run)


def restore_with_a_batch_in_flight(spark: SparkSession, run: Run) -> None:
    restore_the_table(spark, run)
    crash_after_the_sink(spark, run)


def empty_the_table(spark: SparkSession, run: Run) -> None:
    spark.sql(f"DELETE FROM delta.`{run.table}`")


def drop_the_table(spark: SparkSession, run: Run) -> None:
    shutil.rmtree(run.table)


def put_back_an_older_table(spark: SparkSession, run: Run) -> None:
    for version in (3, 4):
        (run.table / "_delta_log" / f"{version:020d}.json").unlink()
        (run.table / "_delta_log" / f".{version:020d}.json.crc").unlink(missing_ok=True)
        (run.table / "_delta_log" / f"{version:020d}.crc").unlink(missing_ok=True)
        (run.table / "_delta_log" / f".{version:020d}.crc.crc").unlink(missing_ok=True)


@dataclass(frozen=True)
class Case:
    """damage; the answer expected before the start; rows lost and doubled after it (None: the query does not start)."""

    damage: Callable[[SparkSession, Run], None]
    acceptance: Acceptance
    codes: tuple[str, ...]
    lost: int | None
    doubled: int = 0


CASES = [
    Case(nothing, Acceptance.ACCEPTS, (), 0),
    Case(crash_after_the_sink, Acceptance.ACCEPTS, (), 0),
    Case(rewind_both_logs, Acceptance.SKIPS, ("SINK_AHEAD_OF_CHECKPOINT",), 20),
    Case(delete_the_checkpoint, Acceptance.DUPLICATES, ("SINK_OUTPUT_NOT_CLEARED",), 0, 50),
    Case(delete_both_logs, Acceptance.SKIPS, ("SINK_AHEAD_OF_CHECKPOINT",), 30),
    Case(remove_offsets_only, Acceptance.SKIPS, ("SINK_AHEAD_OF_CHECKPOINT",), None),
    Case(remove_three_commits, Acceptance.ACCEPTS, (), 0),
    Case(lose_metadata, Acceptance.ACCEPTS, ("SINK_IDENTITY_RENEWED",), 0),
    Case(lose_metadata_in_flight, Acceptance.DUPLICATES, ("SINK_IDENTITY_RENEWED",), 0, 10),
    Case(tear_the_last_commit, Acceptance.ACCEPTS, (), 0),
    Case(restore_the_table, Acceptance.ACCEPTS, ("SINK_RESTORED",), 20),
    Case(restore_and_rewind, Acceptance.SKIPS, ("SINK_AHEAD_OF_CHECKPOINT",), 40),
    Case(restore_with_a_batch_in_flight, Acceptance.SKIPS, ("SINK_RESTORED",), 20),
    Case(empty_the_table, Acceptance.ACCEPTS, ("SINK_CLEARED",), 50),
    Case(drop_the_table, Acceptance.CANNOT_TELL, ("SINK_MISSING",), 50),
    Case(put_back_an_older_table, Acceptance.ACCEPTS, ("SINK_BEHIND_CHECKPOINT",), 20),
]


# Ten seconds each; what differs from the others by the batch in flight or by two damages at once is in `make chaos`.
TEN_SECONDS = (restore_with_a_batch_in_flight, restore_and_rewind)
# Of each answer one.
QUICK = (nothing, rewind_both_logs, delete_the_checkpoint, lose_metadata, restore_the_table, drop_the_table)
LONG = pytest.mark.long(instead="test_the_answer_before_the_start_is_what_the_start_then_does")
MARKS = {**dict.fromkeys(QUICK, ()), **dict.fromkeys(TEN_SECONDS, pytest.mark.chaos)}
PARAMETERS = [pytest.param(case, id=case.damage.__name__, marks=MARKS.get(case.damage, LONG)) for case in CASES]


@pytest.mark.parametrize("case", PARAMETERS)
def test_the_answer_before_the_start_is_what_the_start_then_does(
    spark: SparkSession, base: Run, tmp_path: Path, case: Case
) -> None:
    run = base.copy(tmp_path)
    case.damage(spark, run)

    answer = ask(run)
    problem = start(spark, run)

    assert answer.acceptance is case.acceptance, answer.detail
    assert tuple(finding.code for finding in answer.findings) == case.codes
    if case.lost is None:
        assert "CONCURRENT_STREAM_LOG_UPDATE" in problem
        assert explain(problem).matches[0].explanation.name == "CONCURRENT_STREAM_LOG_UPDATE"
    else:
        assert problem == ""
        assert count(run) == (case.lost, case.doubled)
    harmful = case.lost != 0 or case.doubled
    refused = any(finding.severity in (Severity.UNSAFE, Severity.CANNOT_TELL) for finding in answer.findings)
    assert refused == bool(harmful), "a start is refused exactly when it loses or doubles rows"


def test_a_constant_identity_outlives_the_checkpoint_and_drops_new_rows(
    spark: SparkSession, constant_base: Run, tmp_path: Path
) -> None:
    run = constant_base.copy(tmp_path)
    shutil.rmtree(run.checkpoint)
    # Other batch boundaries than before: the first file is gone from the landing folder.
    landing = tmp_path / "landing"
    shutil.copytree(run.landing, landing)
    (landing / "part-000.json").unlink()
    run = Run(landing, run.checkpoint, run.table)

    answer = ask(run, identity="constant", kind="foreach-batch")

    assert answer.acceptance is Acceptance.SKIPS
    assert answer.findings[0].code == "SINK_CONSTANT_IDENTITY_SKIPS"
    assert start(spark, run, constant_id=True) == ""
    lost, doubled = count(run)
    assert (lost, doubled) == (10, 0), "file 5, read as batch 4, is dropped"


def test_a_replay_past_the_transaction_retention_doubles_its_rows(
    spark: SparkSession, base: Run, tmp_path: Path
) -> None:
    run = base.copy(tmp_path)
    spark.sql(
        f"ALTER TABLE delta.`{run.table}` SET TBLPROPERTIES "
        "(delta.setTransactionRetentionDuration = 'interval 1 milliseconds')"
    )
    crash_after_the_sink(spark, run)

    answer = ask(run)

    assert answer.acceptance is Acceptance.DUPLICATES
    assert answer.findings[0].code == "SINK_FORGOT_QUERY"
    assert start(spark, run) == ""
    assert count(run) == (0, 10)


def ask(run: Run, identity: str = "query-id", kind: str = "delta-builtin") -> SinkAcceptance:
    declaration = StageDeclaration(
        stage="ingest",
        query="sensor-ingest",
        checkpoint=str(run.checkpoint),
        sources=(SourceDeclaration("files", str(run.landing)),),
        sinks=(SinkDeclaration(kind, str(run.table), str(run.table), identity=identity, shared=False),),
    )
    next_batch = next_batch_of(read_checkpoint(str(run.checkpoint)))
    assert isinstance(next_batch, NextBatch)
    evidence = read_sinks(declaration.sinks, count_rows=next_batch.batch == 0)
    (answer,) = diagnose_acceptance(declaration, next_batch, evidence, NOW, "local")
    return answer


def count(run: Run) -> tuple[int, int]:
    """(lost, doubled) rows of the eight files, as a multiset."""
    held = Counter(row["id"] for row in read_table_rows(str(run.table)))
    expected = Counter(range(80))
    return sum((expected - held).values()), sum((held - expected).values())
