"""One line that says how far a run of tests is: written over on a terminal, every half minute a new one in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TextIO

import pytest

from tests.order.costs import cost_of

EVERY_SECONDS_IN_A_LOG = 30


def span(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


class Progress:
    """Takes the place of pytest's dots. What fails is named when it fails."""

    def __init__(self, screen: TextIO = sys.stderr, now: float | None = None) -> None:
        self.screen, self.begun = screen, time.time() if now is None else now
        self.said = self.begun
        self.costs: dict[str, float] = {}
        self.done, self.failed = set[str](), 0

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
        terminal = self.screen.isatty()
        if not end and now - self.said < (0.5 if terminal else EVERY_SECONDS_IN_A_LOG):
            return
        self.said = now
        self.screen.write(f"\r\x1b[K{self.line(now)}" if terminal else f"{self.line(now)}\n")
        if terminal and end:
            self.screen.write("\n")
        self.screen.flush()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.expect(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self.expect(item.nodeid for item in session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        if report.when == "call" and report.passed:
            return "passed", "", ""
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.screen.write(f"\nFAILED {report.nodeid}\n")
        if report.failed or report.when == "teardown":
            self.count(report.nodeid, report.failed)
        self.show(time.time())

    def pytest_sessionfinish(self) -> None:
        if self.costs:
            self.show(time.time(), end=True)
