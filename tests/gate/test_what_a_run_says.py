"""What a run says while it runs: one line per batch, each of its own stage, for people and for machines."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
from collections.abc import Callable
from dataclasses import replace

from surestart.errors import SurestartError
from surestart.report.json.json_log import JsonLog
from surestart.report.text.run_table import ProgressLines
from surestart.runs.runner import BatchProgress, StageRun
from surestart.runs.running_query import rows_of_report
from surestart.words.amounts import sum_of


def batch(stage: str, number: int, rows: int) -> BatchProgress:
    return BatchProgress(stage, number, rows, 0.5, {"durationMs": {"addBatch": 400}}, f"sensor-{stage}")


def ended(stage: str, batches: int) -> StageRun:
    return StageRun(stage, "id", "/c", batches, 30, 1.0, 0, batches - 1, None, f"sensor-{stage}")


def two_stages(log: ProgressLines | JsonLog) -> None:
    log.begin("sensor-a")
    log.begin("sensor-b")
    for number in range(2):
        log.batch(batch("a", number, 10))
        log.batch(batch("b", number, 5))


def written(work: Callable[[io.TextIOBase], None]) -> str:
    stream = io.StringIO()
    work(stream)
    return stream.getvalue()


def test_where_nobody_watches_each_batch_is_a_line_of_its_own_stage() -> None:
    lines = written(lambda stream: two_stages(ProgressLines(stream))).splitlines()  # type: ignore[arg-type]
    assert [line.split()[:5] for line in lines] == [
        ["sensor-a", "batch", "0", "10", "rows"],
        ["sensor-b", "batch", "0", "5", "rows"],
        ["sensor-a", "batch", "1", "10", "rows"],
        ["sensor-b", "batch", "1", "5", "rows"],
    ]


def on_a_terminal(work: Callable[[ProgressLines], None]) -> str:
    """What a real terminal receives."""
    former = {name: os.environ.pop(name, None) for name in ("CI", "TERM")}
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, "w") as stream:
            work(ProgressLines(stream))
        received = b""
        # A terminal hands over what it has piece by piece, and fails with EIO at the end of it.
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 4096):
                received += piece
        return received.decode()
    finally:
        os.close(ours)
        os.environ.update({name: value for name, value in former.items() if value is not None})


def test_on_a_terminal_stages_side_by_side_do_not_wipe_each_other_out() -> None:
    said = on_a_terminal(two_stages)
    for line in ("sensor-a               batch 0", "sensor-b               batch 0", "sensor-a               batch 1"):
        assert said.count(line) == 1
        assert "\n" in said[said.index(line) :].split("sensor", 2)[1]


def test_on_a_terminal_a_stage_alone_has_one_live_line() -> None:
    def alone(lines: ProgressLines) -> None:
        for stage in ("a", "b"):
            lines.begin(f"sensor-{stage}")
            for number in range(3):
                lines.batch(batch(stage, number, 10))
            lines.end(ended(stage, 3))

    said = on_a_terminal(alone)
    assert said.count("\n") == 2
    assert "sensor-b               batches 0-2" in said


def test_for_machines_each_object_names_its_query() -> None:
    def work(stream: io.TextIOBase) -> None:
        log = JsonLog(stream)  # type: ignore[arg-type]
        two_stages(log)
        log.warn(SurestartError("not written", meaning="m", next="n", code="HistoryNotWritten"))
        log.end(ended("a", 2))
        log.interrupted()

    told = [json.loads(line) for line in written(work).splitlines()]
    named = [(one["event"], one["query"], one.get("batch")) for one in told]
    assert named[2:6] == [("batch", f"sensor-{stage}", number) for number in range(2) for stage in "ab"]
    warning, end, interrupted = told[-3:]
    assert (warning["event"], warning["code"], "exit_code" in warning) == ("warning", "HistoryNotWritten", False)
    assert (end["event"], end["query"], end["rows"]) == ("end", "sensor-a", 30)
    assert interrupted["event"] == "interrupted"


def test_rows_that_nobody_says_are_no_zero() -> None:
    """Serverless compute reports 0 rows of every foreachBatch; only a declared table can say how many there were."""

    class Connect:
        pass

    Connect.__module__ = "pyspark.sql.connect.session"
    report = {"batchId": 3, "numInputRows": 0}
    assert rows_of_report(Connect(), report, (), "id") is None  # type: ignore[arg-type]
    assert rows_of_report(object(), report, (), "id") == 0  # type: ignore[arg-type]
    assert rows_of_report(Connect(), report | {"numInputRows": 7}, (), "id") == 7  # type: ignore[arg-type]
    unknown = replace(batch("a", 0, 0), rows=None)

    def work(stream: io.TextIOBase) -> None:
        lines = ProgressLines(stream)  # type: ignore[arg-type]
        lines.begin("sensor-a")
        lines.batch(unknown)
        lines.batch(batch("a", 1, 10))
        lines.end(replace(ended("a", 2), rows=sum_of(sum_of(None, None), 10)))
        lines.end(replace(ended("a", 2), rows=None))

    first, second, some, none = written(work).splitlines()
    assert ("? rows" in first, "10 rows" in second, "10 rows" in some, "? rows" in none) == (True, True, True, True)
    assert " 0 rows" not in first + none
