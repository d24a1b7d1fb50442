"""An environment in which raw-ingest has run one small batch; every test gets it as it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, environment_from_settings
from surestart.runs.runner import run_stage
from tests.foundation.rows import land


@pytest.fixture(scope="package")
def ran_once(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    root = tmp_path_factory.mktemp("gate") / "root"
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    land(environment, 20)
    run = run_stage(spark, environment, build_stages({})[0])
    assert (run.first_batch, run.last_batch) == (0, 0)
    shutil.copytree(root, root.with_name("kept"))
    return environment


@pytest.fixture
def stood(ran_once: Environment) -> Iterator[Environment]:
    root = Path(ran_once.root)
    yield ran_once
    shutil.rmtree(root)
    shutil.copytree(root.with_name("kept"), root)
