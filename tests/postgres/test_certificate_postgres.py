"""The certificate's last hop: PostgreSQL holds the rows of gold, column by column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import environment_from_settings
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.count.certificate import certify
from tests.foundation.rows import land, run_all
from tests.postgres.conftest import VARIABLE
from tests.postgres.database import Database


@pytest.mark.chaos
def test_each_difference_from_gold_is_counted(spark: Any, database: Database, tmp_path: Path) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    land(environment, 400, per_file=200)
    run_all(spark, environment, postgres_url=f"env:{VARIABLE}")
    chain = read_chain(environment, build_stages({"postgres_url": f"env:{VARIABLE}"}))

    found = certify(spark, environment, chain)
    assert (found.verdict, found.stages[-1].kind) == ("exact", "database")
    gold = found.stages[-1].counts
    assert gold.input == gold.rows == gold.distinct == database.one("SELECT count(*) FROM sensor_gold") > 0

    key = (
        "(sensor_id, reading_time) = (SELECT sensor_id, reading_time FROM sensor_gold ORDER BY 1, 2 OFFSET {} LIMIT 1)"
    )
    database.execute(f"DELETE FROM sensor_gold WHERE {key.format(0)}")
    database.execute(f"UPDATE sensor_gold SET revision = revision + 1 WHERE {key.format(3)}")
    database.execute("UPDATE sensor_gold SET sensor_id = 'nobody''s: 1' WHERE " + key.format(7))
    database.execute(
        "UPDATE sensor_gold SET temperature = temperature + 1e-9 WHERE (sensor_id, reading_time) = (SELECT sensor_id,"
        " reading_time FROM sensor_gold WHERE temperature IS NOT NULL AND sensor_id NOT LIKE 'nobody%%' ORDER BY 1, 2"
        " OFFSET 11 LIMIT 1)"
    )

    found = certify(spark, environment, chain)
    assert dict(found.faults) == {
        "merge-gold database: lost": 2,
        "merge-gold database: wrong": 2,
        "merge-gold database: from nowhere": 1,
    }

    database.execute("DROP TABLE sensor_gold")
    found = certify(spark, environment, chain)
    assert (found.verdict, found.lost) == ("cannot tell", 0)
    assert "sensor_gold" in found.stages[-1].problem
