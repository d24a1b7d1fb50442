"""A driver that is stopped by a signal in its first batch, and wakes when another checkpoint has taken its own's place:
PostgreSQL, alone or beside Delta, gets nothing under the new identity, and the run says why it has ended."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from surestart.runs.runner import run_ungated
from tests.gate.test_woken_driver import assert_stopped, paused
from tests.postgres.database import EVENTS, TABLE, Database, readings
from tests.postgres.held_stream import STAGES
from tests.postgres.stream import land, local


@pytest.mark.chaos
@pytest.mark.usefixtures("classic_only")
def test_a_woken_driver_uses_nothing_of_the_new_identity(spark: Any, database: Database, tmp_path: Path) -> None:
    database.execute(EVENTS)
    database.execute(TABLE)
    for kind in STAGES:
        land(tmp_path / kind, 0)
    with paused(tmp_path, "tests.postgres.held_stream", list(STAGES)) as wake:
        for kind, stage in STAGES.items():
            # What a reset does to a checkpoint, and a start after it: a new id, and no batch yet.
            environment = local(tmp_path / kind)
            checkpoint, landing = Path(environment.checkpoint(stage.name)), Path(environment.landing)
            checkpoint.rename(checkpoint.with_name("aside"))
            landing.rename(landing.with_name("later"))
            landing.mkdir()
            assert run_ungated(spark, environment, stage).batches == 0
            landing.rmdir()
            landing.with_name("later").rename(landing)

        ended = wake()

    assert_stopped(ended, list(STAGES))
    # Had it used batch 0 of the new id, the rows that are brought now would be dropped, or be there already.
    assert not any(rows_of(spark, tmp_path, database).values())
    for kind, stage in STAGES.items():
        assert run_ungated(spark, local(tmp_path / kind), stage).batches == 1
    newest = Counter({row[0]: row for row in readings(0)}.values())
    assert rows_of(spark, tmp_path, database) == {"events": Counter(readings(0)), "gold": newest, "Delta": newest}


def rows_of(spark: Any, root: Path, database: Database) -> dict[str, Counter[tuple[Any, ...]]]:
    rows = spark.read.format("delta").load(local(root / "both").table("gold").path)
    return {
        "Delta": Counter(map(tuple, rows.select("sensor", "part", "pos", "value").collect())),
        **{table: database.rows(f"SELECT * FROM {table}") for table in ("events", "gold")},
    }
