"""One line that says how far a run of tests is: written over on a terminal, every half minute a new one in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pytest

from tests.order.costs import cost_of

EVERY_SECONDS_IN_A_LOG = 30
# From the beginning of the line, which is cleared.
OVER = "\r\x1b[K"


def span(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


class Progress:
    """Takes the place of pytest's dots. What fails is named when it fails.
    write: to pytest's own screen, because whatever else is written during a run is captured."""

    def __init__(self, write: Callable[[str], object], terminal: bool, now: float) -> None:
        self.write, self.terminal = write, terminal
        self.begun = self.said = now
        self.costs: dict[str, float] = {}
        self.done, self.failed, self.over = set[str](), 0, False

    def expect(self, tests: Iterable[str]) -> None:
        self.costs = {test: cost_of(test) for test in tests}

    def count(self, test: str, failed: bool) -> None:
        self.done.add(test)
        self.failed += failed

    def line(self, now: float) -> str:
        """By what the tests cost, not by their number: most of them take no time."""
        whole = sum(self.costs.values()) or 1.0
        share = sum(self.costs.get(test, 0.0) for test in self.done) / whole
        since = now - self.begun
        left = f", about {span(since / share - since)} to go" if share > 0.1 else ""
        broken = f", {self.failed} FAILED" if self.failed else ""
        return f"{share:4.0%}  {len(self.done):,} of {len(self.costs):,} tests{broken}  {span(since)}{left}"

    def show(self, now: float, end: bool = False) -> None:
        if not end and now - self.said < (0.5 if self.terminal else EVERY_SECONDS_IN_A_LOG):
            return
        self.said = now
        self.write(f"{OVER}{self.line(now)}" if self.terminal else f"{self.line(now)}\n")
        if self.terminal and end:
            self.write("\n")

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.expect(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self.expect(item.nodeid for item in session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        # Its summary has a word for each.
        if not self.over and (report.skipped or (report.when == "call" and report.passed)):
            return report.outcome, "", ""
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.write(f"{OVER if self.terminal else ''}FAILED {report.nodeid}\n")
        if report.failed or report.when == "teardown":
            self.count(report.nodeid, report.failed)
        self.show(time.time())

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self.over = True
        if self.costs:
            self.show(time.time(), end=True)
