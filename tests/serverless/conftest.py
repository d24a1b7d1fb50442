"""Everything here is a client of the twin, by `make test-serverless`; a part is in `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from surestart.environment import Environment, environment_from_settings
from tests.remedies.conftest import ran_thrice, stood  # noqa: F401
from tests.serverless import twin


@pytest.fixture
def environment(tmp_path: Path, volumes: Path) -> Environment:
    """Tables below a folder, checkpoints and landing files below one that plays /Volumes."""
    places = {"root": str(tmp_path / "root"), "checkpoint_root": f"{volumes}/checkpoints"}
    return environment_from_settings("dev", "sensor", {**places, "landing": f"{volumes}/landing"}, environ={})


@pytest.fixture
def volumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "Volumes"
    folder.mkdir()
    monkeypatch.setenv(twin.VOLUMES, str(folder))
    twin.worker_environment(**{twin.VOLUMES: str(folder)})
    yield folder
    twin.worker_environment()


@pytest.fixture
def checkpoints_on_volumes(ran_thrice: Environment, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: F811
    """The folder of checkpoints of `stood` plays /Volumes."""
    monkeypatch.setenv(twin.VOLUMES, ran_thrice.checkpoint_root)
    twin.worker_environment(**{twin.VOLUMES: ran_thrice.checkpoint_root})
    yield
    twin.worker_environment()


@pytest.fixture
def worker_with(volumes: Path) -> Callable[..., None]:
    """Call it with variables: the workers that start from now on have these, and no others of a test's."""

    def give(**variables: str) -> None:
        twin.worker_environment(**{twin.VOLUMES: str(volumes)}, **variables)

    return give


def on_the_twin() -> bool:
    return os.environ.get(twin.VARIABLE) == twin.CLIENT
