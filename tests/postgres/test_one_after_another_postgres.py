"""Remedies one after another where gold is in Delta and in PostgreSQL: both end with the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment
from tests.foundation.rows import land
from tests.postgres.conftest import VARIABLE
from tests.postgres.database import Database
from tests.postgres.test_gold import in_delta, in_postgres
from tests.remedies.sequences import Lab, chosen_seeds

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("seed", chosen_seeds(5, and_rewinding=1), ids=lambda seed: f"seed{seed}")
def test_any_sequence_ends_exact(
    spark: Any, environment: Environment, database: Database, tmp_path: Path, seed: int, classic_only: None
) -> None:
    def same() -> None:
        assert in_postgres(database) == in_delta(spark, environment)

    lab = Lab(spark, environment, tmp_path, lambda readings: land(environment, readings, per_file=10))
    lab.settings = {"postgres_url": f"env:{VARIABLE}", "max_files_per_trigger": "2"}
    lab.also_exact = same
    lab.begin()
    lab.do_seed(seed)
