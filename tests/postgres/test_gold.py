"""The pipeline's gold in Delta and PostgreSQL: files to gold, the same rows in both, also after a kill between them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg.conninfo
import pytest

from sensor_pipeline.records import GOLD_IN_POSTGRES, READING_COLUMNS
from sensor_pipeline.stages import build_stages
from surestart.cli.main import main
from surestart.environment import Environment, environment_from_settings
from surestart.errors import CannotTell, Refused, UsageError
from surestart.failpoints import VARIABLE as FAILPOINT
from surestart.history.run_table import read_runs
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.plan import Plan, Step
from surestart.remedies.planning.plan_replay import ReplayFrom, plan_replay
from surestart.remedies.planning.plan_reset import plan_reset
from surestart.remedies.planning.wanted import Request
from surestart.runs.runner import run_stage
from surestart.stage import BatchContext
from tests.foundation.rows import account, land
from tests.postgres.conftest import VARIABLE
from tests.postgres.database import Database

SETTINGS = {"postgres_url": f"env:{VARIABLE}"}
PASSWORD = "c4n4ry-pa%24s"


@pytest.mark.chaos
def test_gold_is_the_same_in_both_also_after_a_kill_between_them(
    spark: Any, database: Database, tmp_path: Path
) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    raw, deserialize, gold = build_stages(SETTINGS)
    land(environment, 900, per_file=150)
    for stage in (raw, deserialize, gold):
        run_stage(spark, environment, stage)
    first = in_postgres(database)
    assert first == in_delta(spark, environment)
    assert first

    land(environment, 900, per_file=150)
    run_stage(spark, environment, raw)
    run_stage(spark, environment, deserialize)
    died = _command(environment, {FAILPOINT: "both.between"})
    assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
    # Delta is ahead by the batch; a reader of PostgreSQL sees the former state, whole.
    assert in_postgres(database) == first
    assert in_delta(spark, environment) != first

    healed = _command(environment)

    assert healed.returncode == 0, healed.stderr[-2000:]
    assert in_postgres(database) == in_delta(spark, environment)
    # The independent count: this gold is the newest reading of every key in the files, each once.
    assert account(environment).faults == {}
    assert database.rows("SELECT batch_id FROM surestart_ledger") == {(0,): 1, (1,): 1}

    password = str(psycopg.conninfo.conninfo_to_dict(database.url)["password"])
    printed = died.stdout + died.stderr + healed.stdout + healed.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    assert password not in printed
    assert written == []


@pytest.mark.long(instead="postgres/test_both.py::test_both_hold_the_newest_rows_and_declare_themselves")
def test_gold_is_the_same_in_both_and_is_not_switched_off_and_on_in_silence(
    spark: Any, database: Database, tmp_path: Path
) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    first = in_both(spark, environment, database)

    # Everything that forgets the setting looks like this: `run all` without --set, a notebook, a deploy without --var.
    land(environment, 20)
    raw, deserialize, delta_only = build_stages({})
    run_stage(spark, environment, raw)
    run_stage(spark, environment, deserialize)
    with pytest.raises(CannotTell, match=rf"every batch to postgres sensor_gold \(\${VARIABLE}\) as well") as unasked:
        run_stage(spark, environment, delta_only)
    assert unasked.value.code == "SINK_LEFT_OUT"
    assert "--accept SINK_LEFT_OUT" in str(unasked.value.next)
    assert in_delta(spark, environment) == first

    run_stage(spark, environment, delta_only, accept=("SINK_LEFT_OUT",))
    assert in_delta(spark, environment) != first
    assert in_postgres(database) == first
    assert read_runs(environment)[-1].accepted == ("SINK_LEFT_OUT",)

    with pytest.raises(Refused) as behind:
        run_stage(spark, environment, build_stages(SETTINGS)[2])
    assert behind.value.code == "SINK_BEHIND_CHECKPOINT"
    assert in_postgres(database) == first


@pytest.mark.chaos
def test_a_plan_without_the_setting_says_so_and_one_with_it_brings_both_together_again(
    spark: Any, database: Database, tmp_path: Path
) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    first = in_both(spark, environment, database)
    land(environment, 20)
    run_stage(spark, environment, build_stages({})[0])
    run_stage(spark, environment, build_stages({})[1])

    chain = read_chain(environment, build_stages({}))
    forgetful = plan_reset(spark, environment, chain, "merge-gold", Request({}))
    assert f"WITHOUT postgres sensor_gold (${VARIABLE})" in run_of(forgetful).what
    apply_plan(spark, environment, chain, forgetful, lambda plan: plan.target)
    # Said, read and applied: nobody is asked again, and the history has it.
    assert read_runs(environment)[-1].accepted == ("SINK_LEFT_OUT",)
    run_stage(spark, environment, build_stages({})[2])
    assert in_postgres(database) == first != in_delta(spark, environment)

    # As the refusal of a start with both says.
    with pytest.raises(Refused, match="sensor_gold knows no batch of query") as unseen:
        run_stage(spark, environment, build_stages(SETTINGS)[2])
    assert "surestart plan replay merge-gold" in str(unseen.value.next)
    chain = read_chain(environment, build_stages(SETTINGS))
    plan = plan_replay(spark, environment, chain, "merge-gold", ReplayFrom(output=True), Request(SETTINGS))
    assert "WITHOUT" not in run_of(plan).what
    apply_plan(spark, environment, chain, plan, lambda plan: plan.target)

    assert in_postgres(database) == in_delta(spark, environment) != first
    assert account(environment).faults == {}


def run_of(plan: Plan) -> Step:
    (step,) = [step for step in plan.steps if step.kind == "run"]
    return step


def in_both(spark: Any, environment: Environment, database: Database) -> Counter[tuple[Any, ...]]:
    """The gold of a first run, the same in both."""
    land(environment, 60, per_file=30)
    for stage in build_stages(SETTINGS):
        run_stage(spark, environment, stage)
    found = in_postgres(database)
    assert found
    assert found == in_delta(spark, environment)
    assert account(environment).faults == {}
    return found


def test_switched_on_for_a_stage_that_has_run_it_is_not_started_with_half_of_gold(
    spark: Any, database: Database, tmp_path: Path
) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    land(environment, 150, per_file=150)
    for stage in build_stages({}):
        run_stage(spark, environment, stage)

    with pytest.raises(Refused, match=r"is not there, or is not a table; the checkpoint counts batch 0 ") as refused:
        run_stage(spark, environment, build_stages(SETTINGS)[2])

    assert refused.value.code == "SINK_MISSING"
    assert database.rows("SELECT to_regclass('sensor_gold')") == {(None,): 1}


def test_postgres_has_a_column_for_each_of_gold() -> None:
    assert [name for name, _ in GOLD_IN_POSTGRES] == [name for name, _ in _COLUMNS]


def test_the_stage_declares_where_the_url_is_kept_and_never_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOLD_URL", f"postgresql://user:{PASSWORD}@127.0.0.1:1/db")
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    declared = {
        place: build_stages({"postgres_url": place})[2].declare(environment)
        for place in ("env:GOLD_URL", "$GOLD_URL", "secret:sensor/postgres-url")
    }

    assert [[(sink.kind, sink.path) for sink in one.sinks[1:]] for one in declared.values()] == [
        [("postgres", "$GOLD_URL")],
        [("postgres", "$GOLD_URL")],
        [("postgres", "secret sensor/postgres-url")],
    ]
    assert PASSWORD not in json.dumps([one.as_dict() for one in declared.values()])
    assert [sink.kind for sink in build_stages({"postgres_url": ""})[2].declare(environment).sinks] == ["delta-merge"]


def test_a_refused_batch_names_the_doctor_of_its_environment_and_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOLD_URL", f"postgresql://user:{PASSWORD}@127.0.0.1:1/db")
    given = {"root": str(tmp_path / "a b"), "catalog": "", "schema": ""}
    local = environment_from_settings("local", "sensor", given, environ={})
    prod = environment_from_settings("prod", "sensor", {"catalog": "main", "schema": "sensor"}, environ={})
    sink = build_stages({"postgres_url": "env:GOLD_URL", "postgres_table": "gold"})[2].sink.second

    told = [
        str(sink.batch_writer(BatchContext(environment, "merge-gold", "sensor-merge-gold", "/checkpoint")).doctor)
        for environment in (local, prod)
    ]

    options = "--set postgres_url=env:GOLD_URL --set postgres_table=gold"
    assert told == [
        f"surestart doctor merge-gold -e local --root '{tmp_path}/a b' {options}",
        f"surestart doctor merge-gold -e prod --set catalog=main --set schema=sensor {options}",
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://user:{PASSWORD}@127.0.0.1:1/db",
        f"user:{PASSWORD}@127.0.0.1",
        f"host=127.0.0.1 password={PASSWORD}",
    ],
)
def test_a_url_as_a_setting_is_refused_without_repeating_it(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "merge-gold", "--set", f"postgres_url={text}"]) == 2

    shown = capsys.readouterr()
    assert "holds a URL" in shown.err
    assert f"--set postgres_url=env:{VARIABLE}" in shown.err
    assert PASSWORD not in shown.out + shown.err


@pytest.mark.parametrize("text", ["GOLD_URL", "env:", "env:1X", "secret:sensor", "secret:/key", "gold"])
def test_a_setting_that_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="neither env:NAME nor secret:scope/key"):
        build_stages({"postgres_url": text})


def test_without_the_database_nothing_starts_and_the_doctor_cannot_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GOLD_URL", f"postgresql://user:{PASSWORD}@127.0.0.1:1/db")

    asked = main(["doctor", "merge-gold", "--root", str(tmp_path), "--set", "postgres_url=env:GOLD_URL", "--json"])

    shown = capsys.readouterr()
    assert asked == 4
    assert json.loads(shown.out)["verdict"] == "cannot tell"
    assert PASSWORD not in shown.out + shown.err


def _command(environment: Environment, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`surestart run merge-gold` in a process of its own, with what the pipeline is given."""
    command = [sys.executable, "-m", "surestart", "run", "merge-gold", "--root", environment.root]
    return subprocess.run(
        [*command, "--set", f"postgres_url=env:{VARIABLE}"],
        env={**os.environ, **(variables or {})},
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


_COLUMNS = [column.split() for column in READING_COLUMNS.strip().split(",\n")]


def in_delta(spark: Any, environment: Environment) -> Counter[tuple[Any, ...]]:
    rows = spark.read.format("delta").load(environment.table("sensor_gold").path)
    wanted = [f"unix_micros({name})" if kind == "TIMESTAMP" else f"`{name}`" for name, kind in _COLUMNS]
    return Counter(tuple(row) for row in rows.selectExpr(*wanted).collect())


def in_postgres(database: Database) -> Counter[tuple[Any, ...]]:
    wanted = [
        f"(extract(epoch FROM {name}) * 1000000)::bigint" if kind == "TIMESTAMP" else f'"{name}"'
        for name, kind in _COLUMNS
    ]
    return database.rows(f"SELECT {', '.join(wanted)} FROM sensor_gold")
