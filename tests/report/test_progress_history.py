"""Progress as Spark writes it: one object a line, an array, in the middle of a driver's log; and what is none."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from surestart.errors import UsageError
from surestart.facts.checkpoint.positions import KafkaPosition
from surestart.report.progress_history import of_query, read_progress_file, read_progress_text
from tests.checkpoint.checkpoint_maker import QUERY_ID
from tests.report.checkpoints import TOPIC, progress_of

BATCHES = (3, 4, 5)
LOG = """25/11/13 02:57:01 INFO MicroBatchExecution: Streaming query made progress: {body}
25/11/13 02:57:02 WARN KafkaOffsetReader: {{not json}}
{{
  "half": [1,
25/11/13 02:57:03 INFO BlockManager: Removed broadcast_{number}
"""


def written(form: str) -> str:
    reports = [progress_of(batch, behind=7) for batch in BATCHES]
    if form == "lines":
        return "\n".join(map(json.dumps, reports))
    if form == "array":
        return json.dumps(reports, indent=2)
    if form == "one":
        return json.dumps(reports[-1])
    return "".join(LOG.format(body=json.dumps(report, indent=2), number=at) for at, report in enumerate(reports))


@pytest.mark.parametrize("form", ["lines", "array", "log"])
def test_every_batch_is_found_in_any_form(form: str) -> None:
    found = read_progress_text(written(form))

    assert tuple(facts.batch for facts in found) == BATCHES
    last = found[-1]
    assert (last.query_id, last.rows, last.total_ms) == (QUERY_ID, 210, 1300)
    assert last.parts == {"addBatch": 1000, "latestOffset": 120, "walCommit": 80, "getBatch": 2, "queryPlanning": 60}
    (latest,) = last.latest
    assert isinstance(latest, KafkaPosition)
    assert latest.partitions[TOPIC][5] == 1000 + 60 * 6 + 7 * 6


def test_one_report_alone_is_enough() -> None:
    assert [facts.batch for facts in read_progress_text(written("one"))] == [5]


def test_the_last_report_of_a_batch_counts() -> None:
    again = {**progress_of(4), "numInputRows": 999}
    (facts,) = read_progress_text("\n".join(map(json.dumps, [progress_of(4), again])))

    assert facts.rows == 999


def test_queries_are_kept_apart() -> None:
    other = {**progress_of(4), "id": "other"}
    found = read_progress_text("\n".join(map(json.dumps, [progress_of(4), other])))

    assert [facts.query_id for facts in of_query(found, "other")] == ["other"]


@pytest.mark.parametrize(
    "report",
    [
        {"batchId": "4"}, {"batchId": True}, {"batchId": -1}, {"batchId": 10**30}, {"batchId": 4.5}, {}, [], "x", 4,
    ],
)  # fmt: skip
def test_what_names_no_batch_is_passed_over(report: object) -> None:
    assert read_progress_text(json.dumps(report)) == ()


def test_wrong_types_inside_a_report_are_not_known_rather_than_zero() -> None:
    report = {"batchId": 4, "numInputRows": "many", "durationMs": {"addBatch": None, "x": -1}, "sources": [7, {}]}
    (facts,) = read_progress_text(json.dumps(report))

    assert (facts.rows, facts.total_ms, facts.parts, facts.latest) == (None, None, {}, (None,))


@pytest.mark.parametrize(
    "text", ['{"a":\n' * 200_000, "{" * 1_000_000, "[" * 1_000_000, "progress: {" * 200_000, '{"a":1}\n' * 50_000],
    ids=["nested lines", "braces", "brackets", "starts", "other objects"],
)  # fmt: skip
def test_a_hostile_log_ends_in_seconds(text: str) -> None:
    began = time.monotonic()

    assert read_progress_text(text) == ()
    assert time.monotonic() - began < 20


def test_a_file_that_is_missing_or_reports_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_progress_file(str(tmp_path / "none"))
    (tmp_path / "log").write_text("INFO nothing\n")
    with pytest.raises(UsageError, match="reports no batch"):
        read_progress_file(str(tmp_path / "log"))
