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
from surestart.sinks.delta.merge import DeltaMerge
from tests.postgres.conftest import database, server_url  # noqa: F401
from tests.postgres.database import TABLE, Database, readings
from tests.postgres.stream import SCHEMA, UPSERT, land, local, stage
from tests.serverless import twin
from tests.serverless.conftest import on_the_twin

pytestmark = [
    pytest.mark.serverless,
    pytest.mark.skipif(not on_the_twin(), reason="no twin: run by make test-serverless"),
]
SINK = Both(DeltaMerge("gold", SCHEMA, keys=("sensor",), order=("part", "pos")), UPSERT)


def test_a_sink_that_would_be_given_nothing_stops_the_batch_before_either_has_it(
    spark: Any,
    database: Database,  # noqa: F811
    tmp_path: Path,
    worker_with: Callable[..., None],
) -> None:
    environment = local(tmp_path)
    database.execute(TABLE)
    land(tmp_path, 0)
    worker_with(**{twin.EMPTY_SECOND: "1"})
    for _ in range(2):
        with pytest.raises(StageFailed) as stopped:
            run_stage(spark, environment, stage(SINK))
        assert stopped.value.code == "BatchShort"
        assert wrote_nothing(environment, database)
    worker_with()

    run_stage(spark, environment, stage(SINK))

    wanted = Counter({row[0]: row for row in readings(0)}.values())
    assert database.rows("SELECT * FROM gold") == wanted
    found = spark.read.format("delta").load(environment.table("gold").path).collect()
    assert Counter(tuple(row) for row in found) == wanted


def wrote_nothing(environment: Environment, database: Database) -> bool:  # noqa: F811
    commits = Path(environment.checkpoint("load")) / "commits"
    written = [one for one in read_history(environment.table("gold").path) if one.operation != "CREATE TABLE"]
    return not (written or list(commits.glob("[0-9]*")) or database.rows("SELECT * FROM gold"))
