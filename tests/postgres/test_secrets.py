"""The URL is named, never written down: no declaration, error, traceback or plan shows it."""

from __future__ import annotations

import json
import pickle
import traceback
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg.conninfo
import pytest

from surestart.environment import Environment
from surestart.errors import CannotTell, SurestartError, UsageError
from surestart.facts.postgres.types import staged_columns
from surestart.facts.postgres.url import DatabaseUrl, Secret
from surestart.sinks.postgres.copy import StagingTable, load_from_executors
from surestart.sinks.postgres.sink import PostgresSink
from surestart.stage import BatchContext
from tests.postgres.database import EVENTS, Database, append, readings, write
from tests.postgres.stream import local, stage

CANARY = "c4n4ry-pa%24s"
SPELLINGS = ("c4n4ry", "pa%24s", "pa$s")


def everything_said(error: BaseException) -> str:
    """The error as any logger could print it, with all that is chained to it."""
    said = "".join(traceback.format_exception(error)) + repr(error) + repr(error.args) + repr(vars(error))
    for chained in (error.__cause__, error.__context__):
        said += everything_said(chained) if chained is not None else ""
    return said


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://user:{CANARY}@127.0.0.1:1/db",
        f"postgresql://user:{CANARY}@127.0.0.1:1/db?sslmode=nonsense",
        f"postgresql://user:{CANARY}@127.0.0.1:none/db",
        f"postgresql://user:{CANARY}@[::1/db",
        f"postgresql://user:{CANARY}@127.0.0.1:1/db?no_such_option={CANARY}",
        f"postgresql://127.0.0.1:1/db?user=u&password={CANARY}",
        f"postgresql://user:{CANARY}@no-such-host.invalid/db",
        f"host=127.0.0.1 port=1 user=u password='{CANARY}'",
        f"host=127.0.0.1 port=1 user=u password='{CANARY}",
        "postgresql://user:c4n4ry/pa$s@127.0.0.1:1/db",
        "postgresql://user:c4n4ry?pa$s@127.0.0.1:1/db",
        "postgresql://user:c4n4ry@pa$s@127.0.0.1:1/db",
        f"postgresql//user:{CANARY}@127.0.0.1:1/db",
        f"jdbc:postgresql://user:{CANARY}@127.0.0.1:1/db",
        f"user:{CANARY}@127.0.0.1",
    ],
)
def test_no_failing_connection_shows_the_password(database: Database, text: str) -> None:
    with pytest.raises(SurestartError) as failed:
        write(replace(append(database, 0), url=DatabaseUrl(variable="U").read({"U": text})), readings(0))

    said = everything_said(failed.value)
    assert [spelling for spelling in SPELLINGS if spelling in said] == []
    assert failed.value.meaning


def test_a_failing_task_shows_no_password(spark: Any, database: Database) -> None:
    rows = spark.createDataFrame(readings(0), "sensor string, part int, pos bigint, value double")
    url = DatabaseUrl(variable="U").read({"U": f"postgresql://user:{CANARY}@127.0.0.1:1/db"})

    with pytest.raises(CannotTell, match=r"connecting to 127\.0\.0\.1:1") as failed:
        load_from_executors(rows, url, StagingTable("public", "staging", staged_columns(rows)))

    said = everything_said(failed.value)
    assert [spelling for spelling in SPELLINGS if spelling in said] == []


def test_a_declaration_and_the_function_of_a_batch_show_the_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOLD_URL", f"postgresql://user:{CANARY}@127.0.0.1:1/db")
    sink = PostgresSink(DatabaseUrl(variable="GOLD_URL"), "gold")
    declared = stage(sink).declare(local(tmp_path))
    batch = sink.batch_writer(BatchContext(local(tmp_path), "load", "sensor-load", "/checkpoint"))

    shown = json.dumps(declared.as_dict()) + repr(declared) + repr(sink) + repr(batch) + str(batch.url)

    assert [spelling for spelling in SPELLINGS if spelling in shown] == []
    assert "$GOLD_URL" in shown
    assert pickle.loads(pickle.dumps(batch)).url.reveal() == batch.url.reveal()


def test_a_label_leads_back_to_the_place() -> None:
    for url in (DatabaseUrl(variable="GOLD_URL"), DatabaseUrl(scope="sensor", key="postgres/url")):
        assert DatabaseUrl.from_label(url.label) == url


def test_what_an_error_tells_to_run_names_the_place_that_was_read(database: Database) -> None:
    dbutils = SimpleNamespace(
        secrets=SimpleNamespace(get=lambda scope, key: {("sensor", "gold url"): unreachable}[scope, key])
    )
    unreachable = f"postgresql://user:{CANARY}@127.0.0.1:1/db"
    secret = DatabaseUrl(scope="sensor", key="gold url").read(dbutils=dbutils)

    with pytest.raises(CannotTell) as failed:
        write(replace(append(database, 0), url=secret), readings(0))

    assert str(failed.value.next) == (
        "psql \"$(databricks secrets get-secret sensor 'gold url' | jq -r .value | base64 -d)\" -c 'select 1'"
    )
    assert [spelling for spelling in SPELLINGS if spelling in everything_said(failed.value)] == []


def test_a_secret_is_read_by_scope_and_key_and_a_missing_one_is_named() -> None:
    def get(scope: str, key: str) -> str:
        if (scope, key) != ("sensor", "postgres-url"):
            raise LookupError(f"no {key} beside {CANARY}")
        return f"  postgresql://user:{CANARY}@127.0.0.1:1/db\n"

    dbutils = SimpleNamespace(secrets=SimpleNamespace(get=get))

    found = DatabaseUrl(scope="sensor", key="postgres-url").read({}, dbutils=dbutils)
    with pytest.raises(UsageError, match=r"secret sensor/other could not be read \(LookupError\)") as missing:
        DatabaseUrl(scope="sensor", key="other").read({}, dbutils=dbutils)

    assert found.reveal() == f"postgresql://user:{CANARY}@127.0.0.1:1/db"
    assert (found.label, str(found)) == ("secret sensor/postgres-url", "Secret(***)")
    assert [spelling for spelling in SPELLINGS if spelling in everything_said(missing.value)] == []


def test_a_url_in_the_place_of_its_name_is_refused_without_repeating_it() -> None:
    with pytest.raises(UsageError) as refused:
        DatabaseUrl(variable=f"postgresql://user:{CANARY}@127.0.0.1:1/db")

    assert refused.value.code == "DatabaseUrlInCode"
    assert [spelling for spelling in SPELLINGS if spelling in everything_said(refused.value)] == []


@pytest.mark.parametrize("given", [{}, {"variable": "A", "scope": "b", "key": "c"}, {"scope": "b"}, {"key": "c"}])
def test_a_url_has_exactly_one_place(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="exactly one of the two"):
        DatabaseUrl(**given)


def test_an_unset_variable_is_named() -> None:
    with pytest.raises(UsageError, match=r"\$GOLD_URL is empty or not set"):
        DatabaseUrl(variable="GOLD_URL").read({})


def test_a_secret_outside_databricks_is_named_and_not_found() -> None:
    with pytest.raises(UsageError, match="secret sensor/postgres-url could not be read"):
        DatabaseUrl(scope="sensor", key="postgres-url").read({})


def test_redaction_covers_url_password_and_their_spellings() -> None:
    url = Secret(f"postgresql://user:{CANARY}@h/db?sslpassword=0ther")

    assert url.redact(f"{url.reveal()} | {CANARY} | c4n4ry-pa$s | 0ther | h") == "*** | *** | *** | *** | h"


def test_the_plan_of_a_load_shows_no_password(
    spark: Any, database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    from surestart.sinks.postgres.copy import load_plan

    rows = spark.createDataFrame(readings(0), "sensor string, part int, pos bigint, value double")

    load_plan(rows, database.secret, StagingTable("public", "staging", staged_columns(rows))).explain(True)

    password = str(psycopg.conninfo.conninfo_to_dict(database.url)["password"])
    plan = capfd.readouterr().out
    assert "MapInArrow" in plan
    assert password not in plan


def test_the_ledger_of_an_unreachable_database_is_unknown_and_says_so_without_the_password(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(EVENTS)
    monkeypatch.setenv("GOLD_URL", f"postgresql://user:{CANARY}@127.0.0.1:1/db")

    sink = PostgresSink(DatabaseUrl(variable="GOLD_URL"), "events")
    found = sink.read_evidence(Environment("local", "sensor", "/nowhere", root="/nowhere"))

    assert not found.known
    assert [spelling for spelling in SPELLINGS if spelling in repr(found)] == []
