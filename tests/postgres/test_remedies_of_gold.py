"""Remedies of gold in Delta and PostgreSQL: both lose the same rows, get them again once, and come back the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.merge_gold import to_gold
from sensor_pipeline.records import GOLD_IN_POSTGRES, KEYS
from sensor_pipeline.stages import build_stages
from surestart.cli.main import main
from surestart.environment import Environment, environment_from_settings
from surestart.errors import Refused
from surestart.failpoints import VARIABLE as FAILPOINT
from surestart.journal.journal import read_journals
from surestart.remedies.apply.apply import ALREADY, Applied, apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.chain import Chain, read_chain
from surestart.remedies.basis.plan import Plan
from surestart.remedies.count.certificate import certify
from surestart.remedies.planning.plan_replay import ReplayFrom, plan_replay
from surestart.remedies.planning.plan_reset import plan_reset, plan_reset_beside
from surestart.remedies.planning.wanted import Request
from surestart.runs.runner import run_stage
from surestart.sinks.postgres.sink import PostgresSink
from surestart.sources.delta import DeltaSource
from surestart.stage import Stage
from tests.foundation.rows import account, land, run_all
from tests.postgres.conftest import VARIABLE
from tests.postgres.database import Database
from tests.postgres.test_gold import in_delta, in_postgres

SETTINGS = {"postgres_url": f"env:{VARIABLE}", "max_files_per_trigger": "2"}
CORRECTIONS = "part-999999999999.jsonl"
REMEDIES = "SELECT query_id, batch_id FROM surestart_ledger WHERE mode = 'remedy'"


@pytest.fixture
def environment(spark: Any, database: Database, tmp_path: Path) -> Environment:
    """Gold in Delta and in PostgreSQL; the last file corrects the first four readings of the first one."""
    made = environment_from_settings("local", "sensor", {"root": str(tmp_path / "root")}, environ={})
    land(made, 60, per_file=10)
    first, *_ = sorted(Path(made.landing).iterdir())
    corrected = [json.loads(line) | {"revision": 7} for line in first.read_text().splitlines()[:4]]
    (Path(made.landing) / CORRECTIONS).write_text("".join(json.dumps(one) + "\n" for one in corrected))
    run_all(spark, made, **SETTINGS)
    return made


def chain_of(environment: Environment) -> Chain:
    return read_chain(environment, build_stages(SETTINGS))


def request(**given: Any) -> Request:
    return Request(settings=SETTINGS, **{"run": False, **given})


def apply(spark: Any, environment: Environment, plan: Plan) -> Applied:
    return apply_plan(spark, environment, chain_of(environment), plan, lambda plan: plan.target)


def undo(spark: Any, environment: Environment, plan: Plan) -> None:
    undo_remedy(spark, environment, chain_of(environment), plan, lambda plan: plan.target)


def assert_same_and_exact(spark: Any, environment: Environment, database: Database) -> None:
    assert in_postgres(database) == in_delta(spark, environment)
    assert account(environment).faults == {}


def counted(plan: Plan) -> dict[str, int | None]:
    return {effect.target: effect.rows for effect in plan.effects if effect.action == "remove rows"}


@pytest.mark.chaos
def test_a_replay_killed_between_the_database_and_the_journal_goes_on_once_and_is_undone(
    spark: Any, database: Database, environment: Environment, tmp_path: Path
) -> None:
    before = in_postgres(database)
    streams = database.rows("SELECT query_id, batch_id FROM surestart_ledger")
    corrections, others = (f"file:{environment.landing}/{name}" for name in (CORRECTIONS, "part-000000000050.jsonl"))
    begin = ReplayFrom(positions={corrections: {"0": 0}, others: {"0": 4}})
    plan = plan_replay(spark, environment, chain_of(environment), "merge-gold", begin, request())
    rows = counted(plan)
    assert rows["postgres sensor_gold"] == rows["sensor_gold"]
    # The four corrections, and of the six last lines of a file those that are readings.
    assert 4 < int(rows["sensor_gold"] or 0) <= 10

    killed(environment, plan, tmp_path, "remedy.database.after_commit")

    assert in_delta(spark, environment) == before
    half_way = in_postgres(database)
    assert half_way != before
    assert database.rows(REMEDIES) == {(f"remedy-{plan.digest[:16]}", 0): 1}
    with pytest.raises(Refused, match="is in the middle of a replay"):
        run_stage(spark, environment, build_stages(SETTINGS)[2])

    apply(spark, environment, plan)

    # The rows that went have given way to their former readings, in both the same.
    assert in_postgres(database) == half_way == in_delta(spark, environment)
    assert len(half_way) == len(before) - int(rows["sensor_gold"] or 0) + 4
    assert database.rows(REMEDIES) == {(f"remedy-{plan.digest[:16]}", 0): 1}
    assert apply(spark, environment, plan).outcome == ALREADY
    land(environment, 20, per_file=10)
    run_all(spark, environment, **SETTINGS)
    assert_same_and_exact(spark, environment, database)
    assert in_postgres(database) != before

    undo(spark, environment, plan)

    assert in_postgres(database) == before == in_delta(spark, environment)
    assert set(streams) <= set(_streams(database))
    run_all(spark, environment, **SETTINGS)
    assert_same_and_exact(spark, environment, database)


def _streams(database: Database) -> Counter[tuple[Any, ...]]:
    return database.rows("SELECT query_id, batch_id FROM surestart_ledger")


@pytest.mark.chaos
def test_a_reset_empties_both_fills_both_and_is_undone_in_both(
    spark: Any, database: Database, environment: Environment
) -> None:
    before = in_postgres(database)
    plan = plan_reset(spark, environment, chain_of(environment), "merge-gold", request(run=True))
    assert counted(plan)["postgres sensor_gold"] == sum(before.values())

    done = apply(spark, environment, plan)

    assert done.certificate is not None
    assert done.certificate["exact"]
    assert in_postgres(database) == before == in_delta(spark, environment)
    journal = next(one for one in read_journals(environment) if one.digest == plan.digest)
    kept = str(journal.facts("database:sensor_gold")["kept"])
    assert database.one(f"SELECT count(*) FROM {kept}") == sum(before.values())
    land(environment, 20, per_file=10)
    run_all(spark, environment, **SETTINGS)
    assert in_postgres(database) != before

    undo(spark, environment, plan)

    assert in_postgres(database) == before == in_delta(spark, environment)
    run_all(spark, environment, **SETTINGS)
    assert_same_and_exact(spark, environment, database)


@pytest.mark.long(
    instead="postgres/test_remedy.py::test_all_rows_give_way_to_new_ones_in_one_transaction_and_come_back_the_same"
)
def test_a_reset_beside_replaces_both_each_at_once_and_is_undone_in_both(
    spark: Any, database: Database, environment: Environment
) -> None:
    right = in_postgres(database)
    database.execute("UPDATE sensor_gold SET temperature = -1")
    spark.sql(f"UPDATE {environment.table('sensor_gold').sql} SET temperature = -1").collect()
    wrong = in_postgres(database)
    assert wrong == in_delta(spark, environment) != right
    plan = plan_reset_beside(spark, environment, chain_of(environment), "merge-gold", request())
    effect = next(one for one in plan.effects if one.target == "postgres sensor_gold")
    assert (effect.action, effect.rows) == ("replace rows", sum(right.values()))
    seen: dict[str, bool] = {}

    def die_between_the_two(line: str) -> None:
        seen[line.partition(" of ")[2]] = in_postgres(database) == wrong
        if line.startswith("put the new") and line.endswith("of sensor_gold"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply_plan(spark, environment, chain_of(environment), plan, lambda plan: plan.target, die_between_the_two)

    # It was filled beside in Delta alone; then PostgreSQL got the new rows, and Delta has not yet.
    assert [was for line, was in seen.items() if "rows of sensor_gold" not in line] == [True] * (len(seen) - 1)
    assert in_postgres(database) == right
    assert in_delta(spark, environment) == wrong
    with pytest.raises(Refused, match="is in the middle of a reset"):
        run_stage(spark, environment, build_stages(SETTINGS)[2])

    apply(spark, environment, plan)

    assert in_postgres(database) == right == in_delta(spark, environment)
    assert database.rows(REMEDIES) == {(f"remedy-{plan.digest[:16]}", 0): 1}
    land(environment, 20, per_file=10)
    run_all(spark, environment, **SETTINGS)
    assert_same_and_exact(spark, environment, database)

    undo(spark, environment, plan)

    assert in_postgres(database) == wrong == in_delta(spark, environment)
    rows_of_the_database_alone_are_counted(spark, environment, database)


def rows_of_the_database_alone_are_counted(spark: Any, environment: Environment, database: Database) -> None:
    """Somebody has loaded rows into PostgreSQL that no table of ours ever had."""
    columns = ", ".join(f'"{name}"' for name, _ in GOLD_IN_POSTGRES)
    given = columns.replace('"sensor_id"', "'old ' || sensor_id").replace('"source"', "'old system'")
    copied = f"INSERT INTO sensor_gold ({columns}) SELECT {given} FROM sensor_gold ORDER BY 1 LIMIT 9"
    database.execute(copied)
    for make, stage in ((plan_reset, "merge-gold"), (plan_reset_beside, "raw-ingest")):
        with pytest.raises(
            Refused, match=r": 9 rows would be lost for ever: 9 rows of PostgreSQL sensor_gold"
        ) as refused:
            make(spark, environment, chain_of(environment), stage, request())
        assert refused.value.code == "SourceLostRows"


@pytest.mark.chaos
@pytest.mark.parametrize("verb", ["apply", "undo"])
@pytest.mark.parametrize("point", ["remedy.database.before_commit", "remedy.database.after_commit"])
def test_a_swap_killed_on_either_side_of_the_commit_goes_on_once_or_is_undone(
    spark: Any, database: Database, environment: Environment, tmp_path: Path, point: str, verb: str
) -> None:
    right = in_postgres(database)
    database.execute("UPDATE sensor_gold SET temperature = -1")
    wrong = in_postgres(database)
    plan = plan_reset_beside(spark, environment, chain_of(environment), "raw-ingest", request(run=True))

    killed(environment, plan, tmp_path, point)

    if point.endswith("before_commit"):
        assert in_postgres(database) == wrong
    else:
        assert as_read(in_postgres(database)) == as_read(right)
    if verb == "undo":
        undo(spark, environment, plan)
        assert in_postgres(database) == wrong
        return
    done = apply(spark, environment, plan)
    assert done.certificate is not None
    assert done.certificate["exact"], done.certificate["faults"]
    assert as_read(in_postgres(database)) == as_read(right)
    land(environment, 20, per_file=10)
    run_all(spark, environment, **SETTINGS)
    assert_same_and_exact(spark, environment, database)


def as_read(rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Without the times at which the rows were ingested and deserialized: a reset of raw does both again."""
    behind = 1 + [column for column, _ in GOLD_IN_POSTGRES].index("offset")
    found: Counter[tuple[Any, ...]] = Counter()
    for row, times in rows.items():
        found[row[:behind]] += times
    return found


@pytest.mark.chaos
def test_what_moved_in_the_database_is_refused_and_prune_drops_what_a_remedy_has_kept(
    spark: Any, database: Database, environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    before = in_postgres(database)
    plan = plan_reset(spark, environment, chain_of(environment), "merge-gold", request())
    without = read_chain(environment, build_stages({}))
    with pytest.raises(Refused, match="not of this pipeline"):
        apply_plan(spark, environment, without, plan, lambda plan: plan.target)
    database.execute("CREATE TABLE anew (LIKE sensor_gold INCLUDING ALL)")
    database.execute("ALTER TABLE sensor_gold RENAME TO was; ALTER TABLE anew RENAME TO sensor_gold")
    with pytest.raises(Refused, match="postgres sensor_gold: is another table now"):
        apply(spark, environment, plan)
    assert database.rows(REMEDIES) == {}
    assert len(database.rows("SELECT * FROM was")) == len(before)
    assert read_journals(environment) == ()

    # As it was, and applied: prune drops what it has kept, by the list that was read, and with it goes the undo.
    database.execute("DROP TABLE sensor_gold; ALTER TABLE was RENAME TO sensor_gold")
    apply(spark, environment, plan)
    (kept,) = (
        one for (one,) in database.rows("SELECT relname FROM pg_class WHERE starts_with(relname, 'surestart_kept_')")
    )
    listed = ["prune", "--root", environment.root, "--older-than", "0h"]
    assert main(listed) == 0
    shown = capsys.readouterr().out
    assert f"with:   PostgreSQL table public.{kept}, the rows that it removed" in shown
    assert main([*listed, "--apply", shown.rpartition("--apply ")[2].strip()]) == 0
    assert database.rows("SELECT to_regclass(%s)", (kept,)) == {(None,): 1}
    with pytest.raises(Refused) as refused:
        undo(spark, environment, plan)
    assert refused.value.code == "UndoTooLate"


def to_postgres() -> Stage:
    """A stage that writes to PostgreSQL only: every good reading, as it comes."""
    sink = PostgresSink(target="readings", columns=GOLD_IN_POSTGRES)
    return Stage("to-postgres", DeltaSource("sensor_readings_deserialized"), to_gold, sink)


@pytest.mark.chaos
def test_a_stage_that_writes_to_postgres_only_is_reset_and_undone(
    spark: Any, database: Database, environment: Environment
) -> None:
    chain = read_chain(environment, (*build_stages(SETTINGS), to_postgres()))
    run_stage(spark, environment, to_postgres())
    before = database.rows("SELECT * FROM readings")
    with pytest.raises(Refused) as refused:
        plan_replay(spark, environment, chain, "to-postgres", ReplayFrom(batch=0), request())
    assert refused.value.code == "DatabaseOnly"
    plan = plan_reset(spark, environment, chain, "to-postgres", request())
    assert counted(plan) == {"postgres readings": sum(before.values())}

    apply_plan(spark, environment, chain, plan, lambda plan: plan.target)
    assert database.rows("SELECT * FROM readings") == {}
    run_stage(spark, environment, to_postgres())
    assert database.rows("SELECT * FROM readings") == before

    land(environment, 20, per_file=10)
    for stage in (*build_stages(SETTINGS)[:2], to_postgres()):
        run_stage(spark, environment, stage)
    after = database.rows("SELECT * FROM readings")
    undo_remedy(spark, environment, chain, plan, lambda plan: plan.target)
    assert database.rows("SELECT * FROM readings") == before
    run_stage(spark, environment, to_postgres())
    assert database.rows("SELECT * FROM readings") == after

    counted_now = [one for one in certify(spark, environment, chain).stages if one.stage == "to-postgres"]
    assert [(one.counts.rows, one.counts.faults, one.problem) for one in counted_now] == [(sum(after.values()), {}, "")]
    database.execute('UPDATE readings SET humidity = 1.5 WHERE "offset" = 7')
    wrong = next(one for one in certify(spark, environment, chain).stages if one.stage == "to-postgres").counts.wrong
    assert wrong == sum(count for row, count in after.items() if row[11] == 7 and row[7] != 1.5)

    # What the source has no more is not removed unseen.
    spark.sql(f"DELETE FROM {environment.table('sensor_readings_deserialized').sql} WHERE offset = 7")
    lost = sum(count for row, count in after.items() if row[11] == 7)
    with pytest.raises(Refused, match=f"{lost} rows would be lost for ever") as refused:
        plan_reset(spark, environment, chain, "to-postgres", request())
    assert refused.value.code == "SourceLostRows"


@pytest.mark.chaos
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_of_a_database_without_positions_are_told_apart_by_their_values(
    spark: Any, database: Database, environment: Environment, mode: Any
) -> None:
    columns = GOLD_IN_POSTGRES[:8]
    keys: dict[str, Any] = {"keys": KEYS, "order": ("revision",)} if mode == "upsert" else {}
    sink = PostgresSink(target="plain", columns=columns, mode=mode, **keys)
    stage = Stage("plain", DeltaSource("sensor_readings_deserialized"), without_positions, sink)
    chain = read_chain(environment, (*build_stages(SETTINGS), stage))
    run_stage(spark, environment, stage)
    assert plan_reset(spark, environment, chain, "plain", request()).loss == 0
    names = ", ".join(name for name, _ in columns)
    given = names.replace("sensor_id", "'old ' || sensor_id")
    database.execute(f"INSERT INTO plain ({names}) SELECT {given} FROM plain ORDER BY 1 LIMIT 4")
    with pytest.raises(Refused, match=r": 4 rows would be lost for ever"):
        plan_reset(spark, environment, chain, "plain", request())

    # Nor are those that others have written since taken out by an undo in silence; the stage's own come again.
    before = database.rows("SELECT * FROM plain")
    plan = plan_reset(spark, environment, chain, "plain", request(accept_loss=4))
    apply_plan(spark, environment, chain, plan, lambda plan: plan.target)
    run_stage(spark, environment, stage)
    given = names.replace("sensor_id", "'new ' || sensor_id")
    database.execute(f"INSERT INTO plain ({names}) SELECT {given} FROM plain ORDER BY 1 LIMIT 3")
    after = database.rows("SELECT * FROM plain")
    with pytest.raises(Refused, match=r"3 rows that arrived since would be lost for ever"):
        undo_remedy(spark, environment, chain, plan, lambda plan: plan.target)
    assert database.rows("SELECT * FROM plain") == after
    undo_remedy(spark, environment, chain, plan, lambda plan: plan.target, accept_loss=3)
    assert database.rows("SELECT * FROM plain") == before


def without_positions(rows: Any) -> Any:
    return rows.select(*[name for name, _ in GOLD_IN_POSTGRES[:8]])


def killed(environment: Environment, plan: Plan, place: Path, point: str) -> None:
    """`surestart apply` in a process of its own, with what the plan says of the stage; dead at that point."""
    file = place / "plan.json"
    file.write_text(plan.as_json())
    command = ["apply", str(file), "--root", environment.root, "--confirm", plan.target]
    died = subprocess.run(
        [sys.executable, "-m", "surestart", *command],
        env={**os.environ, FAILPOINT: point},
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr[-3000:]
