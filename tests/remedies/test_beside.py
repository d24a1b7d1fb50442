"""A stage rebuilt beside: readers and streams keep the old tables until every row of the new ones is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.records import KEYS, NEWEST
from sensor_pipeline.stages import build_stages
from surestart.cli.main import build_parser
from surestart.cli.plan import check_options
from surestart.environment import Environment, environment_from_settings
from surestart.errors import EXIT_FINDINGS, Refused, UsageError
from surestart.facts.delta import Commit, read_delta_log
from surestart.facts.delta.commit_notes import note_of
from surestart.facts.evidence.sink_evidence import without_undone
from surestart.journal.journal import FILLING, read_journals
from surestart.remedies.apply.apply import ALREADY, Applied, apply_plan
from surestart.remedies.apply.undo import find_applied
from surestart.remedies.basis.beside import BesideEnvironment, BesideNotExact, read_beside
from surestart.remedies.basis.chain import Chain, read_chain
from surestart.remedies.basis.plan import Plan, parse_plan
from surestart.remedies.planning.plan_reset import plan_reset_beside
from surestart.runs.runner import run_stage
from surestart.runs.start_gate import open_gate
from surestart.sinks.both import Both
from surestart.sinks.postgres.sink import PostgresSink
from surestart.spark.session import applied
from surestart.stage import Stage
from tests.foundation.rows import TABLES
from tests.remedies.remedy import (
    SETTINGS,
    apply,
    assert_exact,
    chain_of,
    contents,
    land_more,
    request,
    run_stages,
    undo,
)
from tests.remedies.test_killed import assert_applied, assert_no_stage_starts, assert_undone, killed, put_back_after


def beside(spark: Any, environment: Environment, stage: str, **given: Any) -> Plan:
    return plan_reset_beside(spark, environment, chain_of(environment), stage, request(**given))


def apply_meanwhile(
    spark: Any, environment: Environment, plan: Plan, meanwhile: dict[str, Callable[[], None]]
) -> Applied:
    """Before the step whose line begins so, somebody does that."""
    left = dict(meanwhile)

    def say(line: str) -> None:
        for begin in [one for one in left if line.startswith(one)]:
            left.pop(begin)()

    done = apply_plan(spark, environment, chain_of(environment), plan, lambda plan: plan.target, say)
    assert not left
    return done


def ids_and_versions(environment: Environment) -> dict[str, tuple[str, int]]:
    logs = {name: read_delta_log(environment.table(name).path) for name in TABLES}
    return {name: (log.table_id, log.latest_version) for name, log in logs.items()}


def left_beside(environment: Environment) -> list[str]:
    """Tables, checkpoints and claims under a plan's own names."""
    root = Path(environment.root)
    return sorted(
        str(path.relative_to(root))
        for place in ("tables", "claims", "checkpoints/_beside")
        for path in (root / place).glob("*")
        if "beside" in str(path.relative_to(root))
    )


def own_environment(environment: Environment, plan: Plan) -> BesideEnvironment:
    return read_beside(environment, chain_of(environment), plan.stage, plan.digest)[0]


def delete_a_row(spark: Any, environment: Environment, plan: Plan, table: str) -> None:
    name = own_environment(environment, plan).table(table).sql
    source, offset = spark.sql(f"SELECT source, offset FROM {name} LIMIT 1").collect()[0]
    spark.sql(f"DELETE FROM {name} WHERE source = '{source}' AND offset = {offset}")


# What the live stages write while the rest is filled.
WRITTEN = {
    "raw-ingest": {"sensor_raw"},
    "deserialize": {"sensor_raw", "sensor_readings_deserialized", "sensor_quarantine"},
}


@pytest.mark.chaos
@pytest.mark.parametrize("stage", ["raw-ingest", "deserialize"])
def test_old_tables_stand_until_the_swap_and_rows_that_arrive_meanwhile_come_once(
    spark: Any, stood: Environment, stage: str
) -> None:
    plan = beside(spark, stood, stage, run=True)
    stages = {one.name: one for one in build_stages(SETTINGS)}
    before, seen = ids_and_versions(stood), {}

    def rows_arrive() -> None:
        land_more(stood)
        for name in stages:
            if name not in plan.touched:
                run_stage(spark, stood, stages[name])

    def rows_arrive_and_the_live_stage_reads_them() -> None:
        assert ids_and_versions(stood) == before
        rows_arrive()
        assert run_stage(spark, stood, stages[stage]).rows == 20

    def rows_arrive_when_it_stands_still() -> None:
        seen.update(ids_and_versions(stood))
        rows_arrive()
        with pytest.raises(Refused):
            run_stage(spark, stood, stages[stage])

    done = apply_meanwhile(
        spark,
        stood,
        plan,
        {
            "fill the tables of sensor-merge-gold": rows_arrive_and_the_live_stage_reads_them,
            "note where": rows_arrive_when_it_stands_still,
        },
    )

    # Up to the swap nobody but the live stages has written into a table of theirs.
    assert {name for name in TABLES if seen[name] != before[name]} == WRITTEN[stage]
    assert done.certificate is not None
    assert done.certificate["exact"], done.certificate["faults"]
    assert_exact(stood)
    assert {name: one[0] for name, one in ids_and_versions(stood).items()} == {n: one[0] for n, one in before.items()}
    assert left_beside(stood) == []
    after = ids_and_versions(stood)
    assert apply(spark, stood, plan).outcome == ALREADY
    assert ids_and_versions(stood) == after


@pytest.mark.long(instead="remedies/test_protocol_beside.py::test_no_schedule_loses_doubles_or_leaves_anything")
def test_a_row_that_is_missing_beside_is_not_swapped_in(spark: Any, stood: Environment) -> None:
    before, tables = contents(spark, stood), ids_and_versions(stood)
    plan = beside(spark, stood, "merge-gold")

    with pytest.raises(BesideNotExact, match="lost 1, duplicated 0") as refused:
        apply_meanwhile(
            spark, stood, plan, {"stages stand still": lambda: delete_a_row(spark, stood, plan, "sensor_gold")}
        )

    assert refused.value.exit_code == EXIT_FINDINGS
    assert f"surestart undo {plan.digest[:12]}" in str(refused.value.next)
    assert ids_and_versions(stood) == tables
    # What was filled is kept to be looked at, the stages may run, and another remedy may not begin over it.
    assert any("sensor_gold__beside_" in name for name in left_beside(stood))
    assert next(one for one in read_journals(stood) if one.digest == plan.digest).state == FILLING
    with pytest.raises(Refused, match="New tables are being filled beside"):
        apply(spark, stood, beside(spark, stood, "merge-gold"))
    assert find_applied(spark, stood, plan.digest[:12]) == parse_plan(plan.as_json(), "plan")

    undo(spark, stood, plan)

    assert left_beside(stood) == []
    assert contents(spark, stood) == before
    assert ids_and_versions(stood) == tables


@pytest.mark.long(instead="remedies/test_rivals.py::test_a_swap_is_taken_back_however_many_commits_came_since")
def test_new_rows_take_the_place_of_the_former_ones_in_one_commit_and_back(spark: Any, stood: Environment) -> None:
    right, gold = contents(spark, stood)["sensor_gold"], stood.table("sensor_gold").sql
    spark.sql(f"DELETE FROM {gold} WHERE offset % 3 = 0")
    before, tables = contents(spark, stood), ids_and_versions(stood)
    assert before["sensor_gold"] != right
    plan = beside(spark, stood, "merge-gold")

    apply(spark, stood, plan)

    assert contents(spark, stood)["sensor_gold"] == right
    table_id, version = tables["sensor_gold"]
    assert ids_and_versions(stood) == {**tables, "sensor_gold": (table_id, version + 1)}
    assert left_beside(stood) == []
    assert apply(spark, stood, plan).outcome == ALREADY

    undo(spark, stood, plan)

    assert contents(spark, stood) == before


@pytest.mark.chaos
def test_the_swap_waits_for_a_stage_that_runs_and_leaves_no_former_row(spark: Any, stood: Environment) -> None:
    gold = stood.table("sensor_gold").sql
    columns = [one for one in spark.table(gold).columns if one != "reading_date"]
    # In a partition that no new row is in, which a session with dynamic overwrites would leave as it is.
    spark.sql(
        f"INSERT INTO {gold} (reading_date, {', '.join(columns)}) "
        f"SELECT DATE'1999-01-01', {', '.join(columns)} FROM {gold} LIMIT 1"
    )
    plan = beside(spark, stood, "merge-gold", run=True)
    tables = ids_and_versions(stood)
    running = open_gate(spark, stood, build_stages(SETTINGS)[2])
    try:
        with pytest.raises(Refused, match="the new tables are filled, and the stages have to stand still"):
            apply(spark, stood, plan)
    finally:
        running.ended("stopped", "test")
    assert ids_and_versions(stood) == tables

    with applied(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        assert apply(spark, stood, plan).certificate is not None
    assert_exact(stood)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("replay raw-ingest --from-batch 1 --beside", "--beside is for reset and rewind, not for replay"),
        (
            "backfill raw-ingest --jobs all",
            "--jobs is for rewind and restart and replay and reset and move and retire, not for backfill",
        ),
    ],
)
def test_what_cannot_be_done_beside_is_said_before_spark_starts(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_options(build_parser("plan").parse_args(["plan", *words.split()]))


@pytest.mark.chaos
def test_rows_that_the_source_has_no_more_are_not_given_up_by_a_swap(spark: Any, stood: Environment) -> None:
    with pytest.raises(UsageError, match="--keep-lost does not go with --beside"):
        beside(spark, stood, "raw-ingest", keep_lost=True)
    plan = beside(spark, stood, "raw-ingest")
    tables = ids_and_versions(stood)
    sorted(Path(stood.landing).iterdir())[0].unlink()
    with pytest.raises(Refused, match="10 rows would be lost for ever"):
        beside(spark, stood, "raw-ingest")

    with pytest.raises(BesideNotExact, match="10 rows would be lost for ever, 0 when this was planned"):
        apply(spark, stood, plan)

    assert ids_and_versions(stood) == tables
    undo(spark, stood, plan)
    apply(spark, stood, beside(spark, stood, "raw-ingest", accept_loss=10))
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
@pytest.mark.parametrize("stage", ["deserialize", "merge-gold"])
def test_a_stage_below_is_rebuilt_beside_while_the_one_above_goes_on(
    spark: Any, stood: Environment, stage: str
) -> None:
    plan = beside(spark, stood, stage)
    above = build_stages(SETTINGS)[:2]

    def rows_pass_above() -> None:
        land_more(stood)
        for one in above:
            if one.name not in plan.touched:
                run_stage(spark, stood, one)

    apply_meanwhile(spark, stood, plan, {"stages stand still": rows_pass_above, "write down": rows_pass_above})
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
@pytest.mark.parametrize("ran", [True, False], ids=["run since", "not run since"])
def test_an_undone_swap_gives_back_what_the_live_stages_had_come_to(spark: Any, stood: Environment, ran: bool) -> None:
    plan = beside(spark, stood, "raw-ingest")
    before: dict[str, Any] = {}

    def goes_on() -> None:
        # A row that raw holds and that deserialize has not read: the undo must leave it to be read.
        land_more(stood)
        run_stage(spark, stood, build_stages(SETTINGS)[0])
        before.update(contents(spark, stood))

    apply_meanwhile(spark, stood, plan, {"fill the tables of sensor-merge-gold": goes_on})
    if ran:
        land_more(stood)
        run_stages(spark, stood)

    undo(spark, stood, plan)

    found = contents(spark, stood)
    assert {name for name in before if found[name] != before[name]} == set()
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)


@pytest.mark.chaos
@pytest.mark.parametrize(
    "point",
    ["remedy.fill.after_run:2", "remedy.check.before_count", "remedy.swap.after_commit:2", "remedy.done.mark"],
)
def test_a_rebuild_beside_killed_anywhere_goes_on_or_is_undone(
    spark: Any, stood: Environment, tmp_path: Path, point: str
) -> None:
    before, plan = contents(spark, stood), beside(spark, stood, "raw-ingest")

    killed(stood, "apply", plan, point, tmp_path)

    if "fill" not in point:
        assert_no_stage_starts(spark, stood, plan, "apply")
    with put_back_after(stood, tmp_path):
        assert_applied(spark, stood, plan)
        assert left_beside(stood) == []
    assert_undone(spark, stood, plan, before)
    assert left_beside(stood) == []


def test_what_is_filled_has_names_of_its_own_and_reads_the_live_table_above() -> None:
    settings = {"catalog": "main", "schema": "sensor"}
    environment = environment_from_settings("prod", "sensor", settings, environ={})
    digest = "20260131" + "a" * 56
    own, chain = read_beside(environment, chain_of(environment), "deserialize", digest)
    deserialize, merge_gold = chain.links

    assert [link.name for link in chain] == ["deserialize", "merge-gold"]
    assert deserialize.input == environment.table("sensor_raw")
    assert deserialize.outputs[0].table.qualified == "main.sensor.sensor_readings_deserialized__beside_20260131aaaa"
    assert (merge_gold.input, merge_gold.upstream) == (deserialize.outputs[0].table, "deserialize")
    # The live query's claim and checkpoint are others.
    assert deserialize.query == "sensor-deserialize-beside-20260131"
    assert deserialize.checkpoint == f"{environment.checkpoint_root}/_beside/20260131aaaa/{deserialize.query}"
    assert own.table("surestart_runs") != environment.table("surestart_runs")


def with_sink(sink: Any) -> tuple[Stage, ...]:
    *above, gold = build_stages({})
    return (*above, replace(gold, sink=sink))


GOLD = build_stages({})[2].sink
OTHER_KEYS = PostgresSink(mode="upsert", keys=("room",), order=("offset",))


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (with_sink(PostgresSink()), "to no Delta table with the same rows"),
        (with_sink(Both(GOLD, PostgresSink())), "to no Delta table with the same rows"),
        (with_sink(Both(GOLD, OTHER_KEYS)), "to no Delta table with the same rows"),
        (tuple(replace(stage, state=("deduplicate",)) for stage in build_stages({})), "keeps state"),
    ],
    ids=["postgres only", "every row in postgres, the newest in delta", "other keys in postgres", "state"],
)
def test_what_has_no_table_to_be_filled_beside_is_cleared_in_place(
    stages: tuple[Stage, ...], said: str, tmp_path: Path
) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    with pytest.raises(UsageError, match=said) as no:
        plan_reset_beside(None, environment, read_chain(environment, stages), "merge-gold", request())  # type: ignore[arg-type]
    place = f"-e local --root {tmp_path}"
    assert str(no.value.next) == f"surestart plan reset merge-gold {place} -o plan.json  # clears in place"


@pytest.mark.parametrize(
    "sink",
    [
        build_stages({"postgres_url": "env:GOLD_URL"})[2].sink,
        Both(Both(PostgresSink(target="a", mode="upsert", keys=KEYS, order=NEWEST), GOLD), PostgresSink(target="b")),
    ],
    ids=["ours", "two tables"],
)
def test_what_goes_to_postgres_too_is_filled_into_delta_alone(sink: Any, tmp_path: Path) -> None:
    """Two places would be filled from the beginning otherwise, and one of them is the live one."""
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    own, beside = _beside_of_gold(environment, sink)

    assert beside.link("merge-gold").databases == ()
    assert beside.link("merge-gold").stage.sink == GOLD
    assert [one.table for one in beside.link("merge-gold").outputs] == [own.table("sensor_gold")]


def _beside_of_gold(environment: Environment, sink: Any) -> tuple[BesideEnvironment, Chain]:
    chain = read_chain(environment, with_sink(sink))
    (link,) = chain.below("merge-gold")
    # Whether the rows can be read from Delta is another question.
    only = [one for one in link.databases if link.mirror_of(one)]
    assert only
    return read_beside(
        environment, Chain((*chain.links[:2], replace(link, databases=tuple(only)))), "merge-gold", "0" * 64
    )


@pytest.mark.parametrize("step", ["clear:sensor_raw", "swap:sensor_raw"])
def test_what_an_undo_took_back_is_not_held_against_the_restored_checkpoint(step: str) -> None:
    note = note_of("a" * 64, f"undo:{step}")
    restored = Commit(3, 0, "RESTORE", {"version": "1"}, user_metadata=note)
    somebodys = Commit(3, 0, "RESTORE", {"version": "1"})
    before = tuple(Commit(version, 0, "WRITE", {}) for version in (0, 1, 2))

    assert [one.version for one in without_undone((*before, restored))] == [0, 1]
    assert [one.version for one in without_undone((*before, somebodys))] == [0, 1, 2, 3]
    marker = Commit(3, 0, "WRITE", {}, user_metadata=note_of("a" * 64, f"marker:{step}", 1))
    behind_it = Commit(4, 0, "RESTORE", {"version": "1"})
    assert [one.version for one in without_undone((*before, marker, behind_it))] == [0, 1]
    to_another = Commit(4, 0, "RESTORE", {"version": "0"})
    assert [one.version for one in without_undone((*before, marker, to_another))] == [0, 1, 2, 3, 4]
    a_second = Commit(5, 0, "RESTORE", {"version": "1"})
    assert [one.version for one in without_undone((*before, marker, behind_it, a_second))] == [0, 1, 5]
