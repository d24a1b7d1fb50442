"""An environment in which raw-ingest has run three batches, and the stages below one over all of it; every test gets it
as it was."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment, environment_from_settings
from tests.foundation.rows import land, run_all

FEW_FILES = "2"


@pytest.fixture(scope="package")
def ran_thrice(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    root = tmp_path_factory.mktemp("remedies") / "root"
    environment = environment_from_settings("local", "sensor", {"root": str(root)}, environ={})
    land(environment, 60, per_file=10)
    run_all(spark, environment, max_files_per_trigger=FEW_FILES)
    shutil.copytree(root, root.with_name("kept"))
    return environment


@pytest.fixture
def stood(ran_thrice: Environment) -> Iterator[Environment]:
    root = Path(ran_thrice.root)
    yield ran_thrice
    shutil.rmtree(root)
    shutil.copytree(root.with_name("kept"), root)
