"""No plan removes a row that nobody brings again without saying so: from any table, for any remedy."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused, UsageError
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.plan import Plan
from surestart.remedies.loss.still_given import read_giving, read_row_positions
from surestart.remedies.planning.plan_replay import ReplayFrom
from surestart.remedies.planning.plan_reset import plan_reset, plan_reset_beside
from surestart.remedies.planning.plan_retire import plan_retire
from surestart.runs.runner import run_stage
from surestart.sinks.delta.append import DeltaAppend
from surestart.sources.delta import DeltaSource
from surestart.stage import Stage
from tests.remedies.remedy import (
    SETTINGS,
    apply,
    assert_exact,
    chain_of,
    contents,
    land_more,
    replay,
    request,
    reset,
    run_stages,
    undo,
)

PRELOADED = {
    "source": "'old system'",
    "partition": "0",
    "offset": "offset + 1000 * partition",
    # Keys of their own: a MERGE would write newer values over rows of the same key.
    "sensor_id": "concat('old ', sensor_id)",
}
UNPLACED = {"source": "CAST(NULL AS STRING)"}


def add_rows(spark: Any, environment: Environment, table: str, altered: dict[str, str], count: int) -> None:
    """Somebody else writes copies of rows of the table, each column as it is but for these."""
    rows = spark.read.format("delta").load(environment.table(table).path)
    chosen = rows.limit(count).selectExpr(*[f"{altered.get(one, f'`{one}`')} AS `{one}`" for one in rows.columns])
    spark.createDataFrame(chosen.collect(), rows.schema).write.format("delta").mode("append").save(
        environment.table(table).path
    )


def delete_rows_of_first_file(spark: Any, environment: Environment, table: str) -> Path:
    file = sorted(Path(environment.landing).iterdir())[0]
    spark.sql(f"DELETE FROM {environment.table(table).sql} WHERE source = 'file:{file}'")
    return file


def beside(spark: Any, environment: Environment, stage: str, **given: Any) -> Plan:
    return plan_reset_beside(spark, environment, chain_of(environment), stage, request(**given))


Make = Callable[..., Plan]
WAYS: dict[str, Make] = {
    "reset of raw": lambda spark, environment, **given: reset(spark, environment, "raw-ingest", **given),
    "reset of gold": lambda spark, environment, **given: reset(spark, environment, "merge-gold", **given),
    "replay of raw": lambda spark, environment, **given: replay(
        spark, environment, "raw-ingest", ReplayFrom(batch=0), **given
    ),
    "replay of deserialize": lambda spark, environment, **given: replay(
        spark, environment, "deserialize", ReplayFrom(batch=1), **given
    ),
    "reset beside": lambda spark, environment, **given: beside(spark, environment, "raw-ingest", **given),
}
FAST = ("reset of raw",)


def lost_rows(number: int, *tables: str) -> Any:
    """Said of the table that has them, or of its input that no longer has them."""
    return pytest.raises(Refused, match=rf": {number} rows would be lost for ever: .*({'|'.join(tables)})")


@pytest.mark.long(instead="test_rows_without_a_position_are_named_and_cannot_be_kept")
@pytest.mark.parametrize("way", [one if one in FAST else pytest.param(one, marks=pytest.mark.chaos) for one in WAYS])
def test_rows_below_that_no_input_knows_are_counted_and_named(spark: Any, stood: Environment, way: str) -> None:
    make = WAYS[way]
    assert make(spark, stood).loss == 0
    add_rows(spark, stood, "sensor_gold", PRELOADED, 7)
    with lost_rows(7, "sensor_gold", "sensor_readings_deserialized no longer has them") as refused:
        make(spark, stood)
    assert refused.value.code == "SourceLostRows"
    with pytest.raises(Refused, match="--accept-loss 6 was given, 7 rows would be lost"):
        make(spark, stood, accept_loss=6)
    plan = make(spark, stood, accept_loss=7)
    assert plan.loss == 7
    (named,) = [line for line in plan.statements if "another writer" in line]
    assert named.startswith("sensor_gold: 1 commit of another writer than sensor-merge-gold (WRITE at version")
    assert "7 rows" in named


@pytest.mark.chaos
def test_preloaded_rows_stay_where_that_is_asked_for(spark: Any, stood: Environment) -> None:
    add_rows(spark, stood, "sensor_gold", PRELOADED, 7)
    add_rows(spark, stood, "sensor_readings_deserialized", PRELOADED, 5)
    run_stages(spark, stood)
    before = contents(spark, stood)
    plan = reset(spark, stood, "raw-ingest", keep_lost=True)
    assert plan.loss == 0

    apply(spark, stood, plan)
    # Of gold's, those whose rows stay above are merged again from there.
    for table, number in (("sensor_raw", 0), ("sensor_readings_deserialized", 5)):
        assert sum(contents(spark, stood)[table].values()) == number
    run_stages(spark, stood)

    after = contents(spark, stood)
    assert {name for name in before if name.startswith("sensor_") and after[name] != before[name]} == set()
    undo(spark, stood, plan)
    assert contents(spark, stood) == before


def test_rows_without_a_position_are_named_and_cannot_be_kept(spark: Any, stood: Environment) -> None:
    add_rows(spark, stood, "sensor_readings_deserialized", UNPLACED, 3)
    with lost_rows(3, "3 rows have no position"):
        reset(spark, stood, "deserialize")
    with pytest.raises(UsageError, match="cannot be said by position"):
        reset(spark, stood, "deserialize", keep_lost=True)
    assert reset(spark, stood, "deserialize", accept_loss=3).loss == 3


@pytest.mark.chaos
def test_rows_that_raw_no_longer_keeps_count_once_and_only_where_nobody_has_them(
    spark: Any, stood: Environment
) -> None:
    """As where raw is kept for 30 days, and the landing folder for longer, or shorter."""
    file = delete_rows_of_first_file(spark, stood, "sensor_raw")
    # The folder still has them: a reset of raw brings them again, one of deserialize cannot.
    assert reset(spark, stood, "raw-ingest").loss == 0
    with lost_rows(10, "sensor_raw no longer has them"):
        reset(spark, stood, "deserialize")
    # What deserialize holds is enough for gold.
    assert reset(spark, stood, "merge-gold").loss == 0
    file.unlink()
    with lost_rows(10, "sensor_readings_deserialized"):
        reset(spark, stood, "raw-ingest")

    before = contents(spark, stood)
    apply(spark, stood, reset(spark, stood, "raw-ingest", keep_lost=True))
    run_stages(spark, stood)
    after = contents(spark, stood)
    assert {name for name in before if name.startswith("sensor_") and after[name] != before[name]} == set()


@pytest.mark.chaos
def test_what_a_stage_below_loses_after_the_look_stops_the_apply(spark: Any, stood: Environment) -> None:
    file = delete_rows_of_first_file(spark, stood, "sensor_raw")
    plan = reset(spark, stood, "raw-ingest")
    before = contents(spark, stood)
    file.unlink()
    with pytest.raises(Refused, match="10 rows would be lost for ever, 0 when this was planned"):
        apply(spark, stood, plan)
    assert contents(spark, stood) == before


@pytest.mark.chaos
def test_rows_of_others_that_arrived_since_are_not_undone_in_silence(spark: Any, stood: Environment) -> None:
    plan = reset(spark, stood, "raw-ingest")
    apply(spark, stood, plan)
    land_more(stood)
    run_stages(spark, stood)
    add_rows(spark, stood, "sensor_gold", PRELOADED, 7)
    with pytest.raises(Refused, match="7 rows that arrived since would be lost for ever"):
        undo(spark, stood, plan)
    spark.sql(f"DELETE FROM {stood.table('sensor_gold').sql} WHERE source = 'old system'")
    undo(spark, stood, plan)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
def test_rows_of_others_in_a_table_without_positions_are_not_undone_in_silence(spark: Any, stood: Environment) -> None:
    """What the stage itself has written since comes again, and is no loss."""
    columns = "sensor_id STRING, temperature DOUBLE"
    sink = DeltaAppend("readings_alone", columns)
    stage = Stage("alone", DeltaSource("sensor_readings_deserialized"), without_positions, sink)
    chain = read_chain(stood, (*build_stages(SETTINGS), stage))
    table = stood.table("readings_alone").sql

    def rows() -> Counter[Any]:
        return Counter(tuple(row) for row in spark.sql(f"SELECT * FROM {table}").collect())

    run_stage(spark, stood, stage)
    before = rows()
    plan = plan_reset(spark, stood, chain, "alone", request(accept_loss=sum(before.values())))
    apply_plan(spark, stood, chain, plan, lambda plan: plan.target)
    run_stage(spark, stood, stage)
    spark.sql(f"INSERT INTO {table} VALUES ('old', 1.0), ('old', 2.0), ('old', 3.0)")

    with pytest.raises(Refused, match=r"3 rows that arrived since would be lost for ever: .*WRITE at version") as said:
        undo_remedy(spark, stood, chain, plan, lambda plan: plan.target)

    assert said.value.code == "SourceLostRows"
    assert sum(rows().values()) == sum(before.values()) + 3
    undo_remedy(spark, stood, chain, plan, lambda plan: plan.target, accept_loss=3)
    assert rows() == before


def without_positions(rows: Any) -> Any:
    return rows.select("sensor_id", "temperature")


def test_a_retired_stage_s_rows_are_said_to_go_for_good(spark: Any, stood: Environment) -> None:
    add_rows(spark, stood, "sensor_gold", PRELOADED, 7)
    rows = sum(contents(spark, stood)["sensor_gold"].values())
    plan = plan_retire(spark, stood, chain_of(stood), "merge-gold", True, request())
    said = " ".join(plan.statements)
    assert f"{rows} rows of sensor_gold: removed for good, whoever wrote them" in said
    assert "1 commit of another writer than sensor-merge-gold" in said


def rewrite(file: Path, text: bytes, *, same_time: bool = False) -> None:
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    file.write_bytes(text)
    os.utime(file, ns=times if same_time else (times[0], times[1] + 5_000_000_000))


# What becomes of a file of ten lines, and how many of its rows are lost.
CHANGES: dict[str, tuple[Callable[[Path, bytes], None], int]] = {
    "touched": (lambda file, text: rewrite(file, text), 0),
    "written anew, more lines at its end": (lambda file, text: rewrite(file, text + b"{}\n"), 0),
    "the last line end gone": (lambda file, text: rewrite(file, text.rstrip(b"\n")), 0),
    "other lines, as many": (lambda file, text: rewrite(file, b"{}\n" * 10), 10),
    "other lines, as many bytes": (lambda file, text: rewrite(file, text.replace(b"2", b"3", 1)), 1),
    "cut short": (lambda file, text: rewrite(file, b"".join(text.splitlines(keepends=True)[:6])), 4),
    "cut short, its time set back": (
        lambda file, text: rewrite(file, b"".join(text.splitlines(keepends=True)[:6]), same_time=True),
        4,
    ),
    "cut to nothing": (lambda file, text: rewrite(file, b""), 10),
    "its first line gone": (lambda file, text: rewrite(file, b"".join(text.splitlines(keepends=True)[1:])), 10),
}


@pytest.mark.long(instead="foundation/test_count.py::test_what_was_altered_doubled_or_taken_for_good_is_seen")
def test_a_file_altered_under_its_own_name_is_not_taken_for_what_was_read(spark: Any, stood: Environment) -> None:
    raw, file = chain_of(stood).links[0], sorted(Path(stood.landing).iterdir())[3]
    text, times = file.read_bytes(), file.stat().st_mtime_ns
    rows = read_row_positions(spark, raw.outputs)
    assert read_giving(spark, stood, raw).gives_all
    found = {}
    for name, (change, _) in CHANGES.items():
        change(file, text)
        lost = read_giving(spark, stood, raw).lost(rows)
        found[name] = 0 if lost is None else lost.count()
        file.write_bytes(text)
        os.utime(file, ns=(times, times))
    assert found == {name: number for name, (_, number) in CHANGES.items()}
    CHANGES["cut short"][0](file, text)
    with lost_rows(4, "are gone, or not what was read"):
        reset(spark, stood, "raw-ingest")
