"""Fixtures shared by all rooms. One Spark session for the whole pytest process: starting one costs seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from surestart.environment import Environment, environment_from_settings

# Child processes and notebook kernels are short: the JVM's second compiler costs them more than it gives.
JAVA_OPTIONS, SHORT_RUN = "SURESTART_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1"
os.environ.setdefault(JAVA_OPTIONS, SHORT_RUN)

# Rooms whose files take longest begin first, so that processes side by side end together.
LONG_ROOMS = ("remedies", "foundation", "notebooks", "kafka", "postgres", "gate", "diagnosis")

# Compiling a plan costs more than running it on twenty rows. Drivers that tests start, and notebooks, do compile.
UNCOMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        room = item.path.parent.name
        return LONG_ROOMS.index(room) if room in LONG_ROOMS else len(LONG_ROOMS)

    items.sort(key=place)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Real Spark with Delta, Kafka and Avro; where SPARK_REMOTE names a server, that one (make test-connect)."""
    from surestart.session import local_session
    from surestart.session import session as any_session

    if os.environ.get("SPARK_REMOTE"):
        yield any_session("tests")
        return
    warehouse = tmp_path_factory.mktemp("warehouse")
    with pytest.MonkeyPatch.context() as patch:
        # This one lives for a quarter of an hour.
        if os.environ[JAVA_OPTIONS] == SHORT_RUN:
            patch.delenv(JAVA_OPTIONS)
        session = local_session("tests", confs={"spark.sql.warehouse.dir": str(warehouse), **UNCOMPILED})
    yield session
    session.stop()


@pytest.fixture
def classic_only() -> None:
    """For tests that look into the JVM of their own session, or that drive one of their own."""
    if os.environ.get("SPARK_REMOTE"):
        pytest.skip("needs a classic session; runs in make test")


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An empty local environment."""
    return environment_from_settings("local", "sensor", {"root": str(tmp_path / "root")}, environ={})
