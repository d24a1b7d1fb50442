"""Fixtures shared by all rooms. One Spark session for the whole pytest process: starting one costs seconds."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from surestart.environment import Environment, environment_from_settings
from surestart.errors import SurestartError
from surestart.words.finding import Finding
from tests.order.costs import cost_of
from tests.order.progress import Progress
from tests.order.slices import SLICES, cut
from tests.typed.typeable import faults_of

SRC = f"{os.sep}src{os.sep}"
# Compiling a plan costs more than running it on twenty rows: three stages of a new driver take 16 seconds, not 22. What
# looks at compiled plans, or at a run as users have it, asks for them (`AS_USERS_HAVE_IT`).
UNCOMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
AS_USERS_HAVE_IT = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
# A VACUUM lists folders with 10,000 tasks: 20 of the 52 seconds of a test that runs two.
VACUUM_OF_FEW_FILES = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "4"}
CONFS = {**UNCOMPILED, **VACUUM_OF_FEW_FILES}

# Child processes and notebook kernels are short: the JVM's second compiler costs them more than it gives. In the tests'
# own JVM few methods are worth it either: with twenty times the usual thresholds the compilers take 22 seconds of CPU
# for two files of tests instead of 54, and the tests run as fast.
JAVA_OPTIONS, COMPILE_LITTLE = "SURESTART_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1"
SHORT_RUN = " ".join([COMPILE_LITTLE, *(f"-D{name}={value}" for name, value in CONFS.items())])
LONG_RUN = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 "
    "-XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=800000"
)
os.environ.setdefault(JAVA_OPTIONS, SHORT_RUN)

# What stays out of `make test`; `long` is what `make test-all` adds to it.
LEFT_OUT = ("long", "chaos", "calibrate", "connect", "cluster", "lines", "serverless")
COLLECTED = pytest.StashKey[list[pytest.Item]]()
BEGUN = pytest.StashKey[float]()
# With --minutes: what is running is stopped so long after the end of the time. One that ran ten times as long as it is
# known to take, and five minutes, hangs: it fails.
GRACE_SECONDS, HANGS_AFTER, HANGS_SECONDS = 120.0, 10.0, 300.0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("order", "order of the tests, tests/order")
    group.addoption("--progress", action="store_true", help="one line that says how far it is, instead of dots")
    group.addoption("--slice", type=int, default=0, help=f"of the chaos tests those of one slice, 1 to {SLICES}")
    group.addoption("--minutes", type=float, default=0, help="begin no test that would end later than that")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if not 0 <= config.option.slice <= SLICES:
        raise pytest.UsageError(f"--slice {config.option.slice} is not one of 1 to {SLICES}")
    config.stash[BEGUN] = time.time()
    if config.option.progress and not hasattr(config, "workerinput"):
        screen = config.get_terminal_writer()
        write = partial(screen.write, flush=True)
        config.pluginmanager.register(Progress(write, screen.hasmarkup, config.stash[BEGUN]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A room's tests run in one of the processes side by side: its broker, server, kernel and tables are made once. Not
    so the few and long ones of a slice."""
    from xdist.scheduler import LoadScopeScheduling

    class RoomByRoom(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if config.option.slice else room_of(nodeid)

    return RoomByRoom(config, log)


def room_of(test: str) -> str:
    return str(PurePosixPath(test.split("::", 1)[0]).parent)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """The longest rooms begin first, so that processes side by side end together."""
    config.stash[COLLECTED] = list(items)
    if config.option.slice:
        keep_slice(config, items)
    yield
    costs = Counter[str]()
    for item in items:
        costs[room_of(item.nodeid)] += cost_of(item.nodeid, config.option.slice > 0)
    items.sort(key=lambda item: -costs[room_of(item.nodeid)])


def keep_slice(config: pytest.Config, items: list[pytest.Item]) -> None:
    slices = cut(item.nodeid for item in items if item.get_closest_marker("chaos"))
    others = [item for item in items if slices.get(item.nodeid) != config.option.slice]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if slices.get(item.nodeid) == config.option.slice]


def left_of(config: pytest.Config) -> float:
    """Seconds of --minutes that are left."""
    return config.stash[BEGUN] + config.option.minutes * 60 - time.time()


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What is begun in time and takes longer than anybody knew is stopped a little after the end of the time."""
    if item.config.option.minutes:
        item.add_marker(pytest.mark.timeout(max(left_of(item.config), 1.0) + GRACE_SECONDS, method="signal"))
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    config, cost = item.config, cost_of(item.nodeid, item.get_closest_marker("chaos") is not None)
    if config.option.minutes and cost > left_of(config):
        pytest.skip(f"not begun, {config.option.minutes:g} minutes are over: {item.nodeid}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that the end of the time has stopped says nothing of the product, unless it seems to hang."""
    report = yield
    stopped = call.excinfo is not None and str(call.excinfo.value).startswith("Timeout")
    if item.config.option.minutes and stopped and left_of(item.config) < 0:
        cost = cost_of(item.nodeid, item.get_closest_marker("chaos") is not None)
        if call.duration < max(HANGS_AFTER * cost, HANGS_SECONDS):
            why = f"stopped after {call.duration:.0f} s, {item.config.option.minutes:g} minutes are over: {item.nodeid}"
            report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1] or 0, why)
    return report


@pytest.fixture(scope="session")
def said_next() -> Iterator[list[str]]:
    """What the product has said to do next since the last look: every finding and error is seen where it is made."""
    said: list[str] = []

    def watched(kind: Any) -> Any:
        made = kind.__init__

        def init(self: Any, *args: Any, **given: Any) -> None:
            made(self, *args, **given)
            # Whatever a test makes by hand is the test's own text.
            caller = sys._getframe(1)
            while caller.f_back is not None and caller.f_code.co_name == "__init__":
                caller = caller.f_back
            if self.next and SRC in caller.f_code.co_filename:
                said.append(str(self.next))

        return init

    with pytest.MonkeyPatch.context() as patch:
        for kind in (Finding, SurestartError):
            patch.setattr(kind, "__init__", watched(kind))
        yield said


@pytest.fixture(autouse=True)
def what_is_said_next_can_be_typed(said_next: list[str]) -> Iterator[None]:
    yield
    made, said_next[:] = dict.fromkeys(said_next), []
    assert [fault for text in made for fault in faults_of(text)] == []


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Real Spark with Delta, Kafka and Avro; where SPARK_REMOTE names a server, that one (make test-connect)."""
    from surestart.spark.session import local_session
    from surestart.spark.session import obtain_session as any_session

    if os.environ.get("SPARK_REMOTE"):
        yield any_session("tests")
        return
    warehouse = tmp_path_factory.mktemp("warehouse")
    with pytest.MonkeyPatch.context() as patch:
        if os.environ[JAVA_OPTIONS] == SHORT_RUN:
            patch.setenv(JAVA_OPTIONS, LONG_RUN)
        confs = {"spark.sql.warehouse.dir": str(warehouse), **CONFS}
        session = local_session("tests", confs=confs)
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
