"""One kernel with one JVM for all notebooks that need Spark, over one environment: a JVM more costs ten seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sensor_pipeline.stages import PIPELINE
from surestart.environment import Environment, environment_from_settings
from tests.notebooks.notebook_kernel import NotebookKernel, running_kernel, text_of

READINGS = 3_000
STAGES = ("01_raw_ingest.ipynb", "02_deserialize.ipynb", "03_merge_gold.ipynb")


@pytest.fixture(scope="package")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    root = tmp_path_factory.mktemp("notebooks")
    return environment_from_settings("local", PIPELINE.name, {"root": str(root)}, environ={})


@pytest.fixture(scope="package")
def kernel(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    widgets = {"root": environment.root, "readings": str(READINGS), "environment": "local", "catalog": "", "schema": ""}
    # One that stands in the developer's shell would be a second sink.
    widgets["postgres_url"] = ""
    variables = {f"SURESTART_{name.upper()}": value for name, value in widgets.items()}
    with running_kernel(tmp_path_factory.mktemp("elsewhere"), variables) as kernel:
        yield kernel


@pytest.fixture(scope="package")
def first(kernel: NotebookKernel) -> dict[str, str]:
    """What each notebook showed in its first run, all three run in order."""
    return {name: text_of(kernel.run(name)) for name in STAGES}
