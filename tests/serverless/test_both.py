"""One batch into Delta and PostgreSQL on the twin, which keeps no rows between the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment
from surestart.facts.delta import read_history
from surestart.runs.runner import run_stage
from surestart.runs.stage_failures import StageFailed
from surestart.sinks.both import Both
from surestart.sinks.delta.append import DeltaAppend
from surestart.sinks.delta.merge import DeltaMerge
from tests.postgres.conftest import database, server_url  # noqa: F401
from tests.postgres.database import EVENTS, TABLE, Database, readings
from tests.postgres.stream import APPEND, SCHEMA, UPSERT, land, local, stage
from tests.serverless import twin
from tests.serverless.conftest import on_the_twin

pytestmark = [
    pytest.mark.serverless,
    pytest.mark.skipif(not on_the_twin(), reason="no twin: run by make test-serverless"),
]
SINKS = {
    "append": Both(DeltaAppend("events", SCHEMA), APPEND),
    "upsert": Both(DeltaMerge("gold", SCHEMA, keys=("sensor",), order=("part", "pos")), UPSERT),
}


@pytest.mark.parametrize("kind", SINKS)
def test_a_sink_that_would_be_given_nothing_stops_the_batch_before_either_has_it(
    spark: Any,
    database: Database,  # noqa: F811
    tmp_path: Path,
    worker_with: Callable[..., None],
    kind: str,
) -> None:
    environment, sink, rows = local(tmp_path), stage(SINKS[kind]), readings(0)
    database.execute(EVENTS if kind == "append" else TABLE)
    land(tmp_path, 0)
    worker_with(**{twin.EMPTY_SECOND: "1"})
    for _ in range(2):
        with pytest.raises(StageFailed) as stopped:
            run_stage(spark, environment, sink)
        assert stopped.value.code == "BatchShort"
        assert wrote_nothing(environment, database, kind)
    worker_with()

    run_stage(spark, environment, sink)

    wanted = Counter(rows) if kind == "append" else Counter({row[0]: row for row in rows}.values())
    table = SINKS[kind].second.target  # type: ignore[attr-defined]
    assert database.rows(f"SELECT * FROM {table}") == wanted
    found = spark.read.format("delta").load(environment.table(table).path).collect()
    assert Counter(tuple(row) for row in found) == wanted


def wrote_nothing(environment: Environment, database: Database, kind: str) -> bool:  # noqa: F811
    table = "events" if kind == "append" else "gold"
    commits = Path(environment.checkpoint("load")) / "commits"
    written = [one for one in read_history(environment.table(table).path) if one.operation != "CREATE TABLE"]
    return not (written or list(commits.glob("[0-9]*")) or database.rows(f"SELECT * FROM {table}"))
