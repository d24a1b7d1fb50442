"""A pipeline that has run three times, made once; every night gets it as it was, at the same place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.foundation.project import serve_the_sensor_pipeline
from tests.nights.scene import Scene


@pytest.fixture(scope="package")
def played(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    scene = Scene(spark, tmp_path_factory.mktemp("night") / "here")
    scene.place.mkdir()
    serve_the_sensor_pipeline(scene.place)
    for _ in range(3):
        scene.land(200)
        scene.run_all()
    shutil.copytree(scene.place, scene.place.with_name("kept"))
    return scene


@pytest.fixture
def scene(played: Scene) -> Iterator[Scene]:
    yield played
    shutil.rmtree(played.place)
    shutil.copytree(Path(played.place).with_name("kept"), played.place)
