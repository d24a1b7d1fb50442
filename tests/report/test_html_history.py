"""What no checkpoint holds: how far behind each batch was, and under which query ids the query has run before."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestart.report.html.page import Page, render, render_page
from surestart.report.html.report import CheckpointReport
from surestart.report.progress_history import BatchFacts, read_progress, read_run_metrics
from surestart.verdict.inspection import Inspection, inspect_checkpoint
from tests.report.checkpoints import FIRST_MINUTE, FORMER_ID, make_busy, make_runs, make_table, progress_of
from tests.report.pages import Element, read_page


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_busy(tmp_path_factory.mktemp("history") / "sensor-raw-ingest", batches=8)


def page_of(inspection: Inspection, **more: object) -> Element:
    report = CheckpointReport("raw-ingest", inspection, inspection.sink_evidence, **more)  # type: ignore[arg-type]
    return read_page(render_page(Page("sensor", (report,), FIRST_MINUTE)))


def lag_rows(busy: Path, progress: tuple[BatchFacts, ...]) -> tuple[Element, list[list[str]]]:
    page = page_of(inspect_checkpoint(str(busy), sinks=("none",)), progress=progress)
    return page, page.by_id("s0-lag-table").rows()


def test_lag_over_time_is_counted_from_progress_as_chart_and_table(busy: Path) -> None:
    # Behind by n: partition p lags n * (p + 1) offsets, six partitions make 21 n.
    page, rows = lag_rows(busy, read_progress([progress_of(batch, batch) for batch in (2, 3, 5, 6)]))

    assert [row[0] for row in rows] == ["6", "5", "3", "2"]
    assert [row[2] for row in rows] == ["126", "105", "63", "42"]
    assert rows[0][1] == "2025-11-13 02:13 UTC"
    (figure,) = page.by_id("s0-lag").all("figure")
    assert figure.attributes["data-table"] == "s0-lag-table"
    caption = next(figure.all("figcaption")).text
    assert caption == (
        "Lag when each batch ended, offsets unread: at most 126, last 126, growing over the last 4 batches."
    )
    assert [title.text for title in figure.all("title")] == [
        "batch 2: 42 offsets unread",
        "batch 3: 63 offsets unread",
        "batch 5: 105 offsets unread",
        "batch 6: 126 offsets unread",
    ]


def test_a_lag_that_shrinks_is_not_called_growing(busy: Path) -> None:
    page, _ = lag_rows(busy, read_progress([progress_of(batch, 9 - batch) for batch in (2, 3, 4, 5)]))

    assert "growing" not in page.by_id("s0-lag").text


def test_the_run_history_tells_what_the_source_said_of_itself(busy: Path) -> None:
    metrics = [
        {"batch": 3, "rows": 10, "ms": 900, "at": "2025-11-13T02:16:20.000Z", "lag": {"maxOffsetsBehindLatest": "70"}},
        {"batch": 4, "rows": 10, "ms": 900, "at": "2025-11-13T02:17:20.000Z", "phases": {"addBatch": 500}, "lag": {}},
        {"batch": 5, "rows": 10, "ms": 900, "at": "damaged", "lag": {"maxOffsetsBehindLatest": "0"}},
        {"batch": "no", "lag": None},
        "damaged",
    ]
    page, rows = lag_rows(busy, read_run_metrics("", metrics))

    assert rows == [["5", "not known", "0"], ["3", "2025-11-13 02:16 UTC", "70"]]
    assert "in the partition that lags most: at most 70, last 0" in page.by_id("s0-lag").text
    assert {row[0]: row[5] for row in page.by_id("s0-batches-table").rows()}["4"] == "0.90"


def test_without_progress_there_is_no_lag_section(busy: Path) -> None:
    page = read_page(render(inspect_checkpoint(str(busy), sinks=("none",))))

    assert not [element for element in page.all() if element.attributes.get("id") == "s0-lag"]
    assert "nor how far behind its sources each was" in page.by_id("s0-batches").text


def test_a_new_query_id_is_told_with_the_remedy_that_explains_it_or_without(busy: Path) -> None:
    page = page_of(inspect_checkpoint(str(busy), sinks=("none",)), runs=tuple(make_runs()))
    rows = page.by_id("s0-resets-table").rows()

    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("2025-11-13 02:13 UTC", "began under another query id", "run history"),
        ("2025-11-13 01:13 UTC", "reset of raw-ingest, digest 0a1b2c3d4e5f: finished", "run history"),
        ("2025-11-12 20:13 UTC", "began under another query id, and no remedy tells why", "run history"),
    ]
    assert rows[0][2] == f"{FORMER_ID}, up to batch 41"
    assert rows[2][2:4] == ["11111111-0000-4c5f-8f6e-2f3f5a6b7c8d, up to batch 7", FORMER_ID]


def test_a_former_query_id_that_only_the_sink_remembers_is_told(tmp_path: Path, busy: Path) -> None:
    table = make_table(tmp_path / "table", 11, query_id=FORMER_ID)
    page = page_of(inspect_checkpoint(str(busy), sinks=(str(table),)), query="sensor-raw-ingest")
    (row,) = page.by_id("s0-resets-table").rows()

    assert row[1:] == ["last batch of another query id", f"{FORMER_ID}, up to batch 11", "", f"sink {table}"]
    assert row[0] == "2025-11-13 02:24 UTC"


def test_one_identity_from_the_first_run_on_is_said_to_be_one(tmp_path: Path, busy: Path) -> None:
    table = make_table(tmp_path / "table", 7)
    page = page_of(inspect_checkpoint(str(busy), sinks=(str(table),)), runs=tuple(make_runs()[-1:]))

    assert (
        "Under one query id since it first ran, as far as the run history and the sinks" in page.by_id("s0-resets").text
    )


def test_nothing_asked_is_not_taken_for_nothing_found(busy: Path) -> None:
    page = page_of(inspect_checkpoint(str(busy), sinks=("none",)))

    assert "earlier starts are unknown" in page.by_id("s0-resets").text
