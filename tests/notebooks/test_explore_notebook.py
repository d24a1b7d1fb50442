"""Notebook 04, executed by a real kernel over checkpoints on disk. It starts no Spark, so none is here."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbclient.exceptions import CellExecutionError

from surestart.errors import UsageError
from surestart.notebooks.exploration import batch_rows, explore, read_shown_rows
from surestart.stage import Pipeline
from tests.notebooks.notebook_kernel import NotebookKernel, page_in, running_kernel, set_widgets, text_of
from tests.report.checkpoints import make_busy, make_hostile, make_table
from tests.report.pages import read_page

NOTEBOOK = "04_explore_checkpoints.ipynb"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment whose raw stage has eight batches, the last in flight, over a table that holds ten."""
    root = tmp_path_factory.mktemp("explore") / "root"
    make_busy(root / "checkpoints/sensor-raw-ingest", batches=8)
    make_table(root / "tables/sensor_raw", 9)
    make_hostile(root / "hostile")
    return root


@pytest.fixture(scope="module")
def kernel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    widgets = {"root": str(root), "environment": "local", "catalog": "", "schema": "", "source": "kafka"}
    widgets |= {"bootstrap": "127.0.0.1:1", "topic": "orders"}
    variables = {f"SURESTART_{name.upper()}": value for name, value in widgets.items()}
    with running_kernel(tmp_path_factory.mktemp("elsewhere"), variables) as kernel:
        yield kernel


def files_below(root: Path) -> dict[str, tuple[int, int]]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}


@pytest.mark.long(instead="test_any_checkpoint_can_be_looked_at_by_its_path")
def test_the_stages_of_an_environment_are_judged_without_spark_and_without_a_write(kernel, root: Path) -> None:
    before = files_below(root)
    shown = text_of(kernel.run(NOTEBOOK))
    page = page_in(shown)

    assert next(page.all("h1")).text == "Unsafe: do not start it"
    assert [row[:2] for row in page.by_id("stages").rows()][:2] == [
        ["raw-ingest", "unsafe"],
        ["deserialize", "safe"],
    ]
    assert "ahead by 3" in page.by_id("s0-sinks").text
    assert f"<caption>raw-ingest: {root}/checkpoints/sensor-raw-ingest</caption>" in shown
    assert "<td>7</td><td>in flight</td><td>2025-11-13 02:20 UTC</td>" in shown
    assert "orders 0@1070, 1@1140" in shown
    assert files_below(root) == before
    assert "False" in text_of(kernel.run_code("import sys; print('pyspark' in sys.modules)"))


def test_any_checkpoint_can_be_looked_at_by_its_path(kernel, root: Path) -> None:
    set_widgets(
        kernel, path=str(root / "checkpoints/sensor-raw-ingest"), sink=str(root / "tables/sensor_raw"), batch="3"
    )
    try:
        shown = text_of(kernel.run(NOTEBOOK))
        assert next(page_in(shown).all("title")).text == "UNSAFE: Checkpoint sensor-raw-ingest"
        assert "<td>3</td><td>0</td><td>orders 0@1030" in shown
        set_widgets(kernel, batch="77")
        with pytest.raises(CellExecutionError, match="The plans of 8 batches are kept, 0 to 7"):
            kernel.run(NOTEBOOK)
    finally:
        set_widgets(kernel, path="", sink="", batch="")


def test_a_hostile_checkpoint_stays_inside_its_frame(kernel, root: Path) -> None:
    set_widgets(kernel, path=str(root / "hostile"))
    try:
        shown = text_of(kernel.run(NOTEBOOK))
    finally:
        set_widgets(kernel, path="")

    outside = re.sub(r'srcdoc="[^"]*"', "", shown)
    assert "<script" not in outside
    assert "<img" not in outside
    assert 'sandbox="allow-scripts"' in outside
    assert read_page(re.sub(r"\A.*?(?=<div>)|(?<=</div>).*\Z", "", outside, flags=re.S))


def test_where_there_is_displayhtml_it_gets_the_page(kernel) -> None:
    """Databricks puts that function into the notebook's namespace."""
    shown = text_of(
        kernel.run_code(
            "displayHTML = lambda page: print('shown', len(page))\n"
            "from surestart.notebooks import notebook\n"
            "notebook.show_page('<!doctype html>')\n"
            "del displayHTML"
        )
    )

    assert shown.strip() == "shown 15"


# Without a kernel


def test_on_databricks_a_path_is_enough() -> None:
    from surestart.notebooks.notebook import LocalWidgets, Widget, read_settings

    given = LocalWidgets({"SURESTART_PATH": "/Volumes/main/x/checkpoints/y", "SURESTART_ENVIRONMENT": "dev"})
    path = Widget("path", "", "Path")
    assert read_settings(path, of=given, databricks=True, place_unless="path")["path"].endswith("/y")
    with pytest.raises(UsageError, match="catalog and schema are empty"):
        read_settings(path, of=LocalWidgets({}), databricks=True, place_unless="path")
    with pytest.raises(UsageError, match="catalog and schema are empty"):
        read_settings(path, of=given, databricks=True)


def test_rows_tell_damage_and_unknown_beginnings(tmp_path: Path) -> None:
    root = make_busy(tmp_path / "ck", batches=5)
    (root / "offsets/3").write_text("v1\n{")
    (root / "offsets/0").unlink()
    exploration = explore(Pipeline("sensor", lambda settings: ()), {"path": str(root)})
    checkpoint = exploration.checkpoints["ck"]

    states = {row[0]: row[1:3] for row in batch_rows(checkpoint)[1]}
    assert states[4] == ("in flight", "2025-11-13 02:17 UTC")
    assert str(states[3][1]).startswith("damaged: ")
    assert read_shown_rows(checkpoint, 1)[1][0][2] == "not known: the batch before is not kept"
    assert read_shown_rows(checkpoint)[1][0][2] == "not known: the batch before is not kept"
    assert read_shown_rows(checkpoint, 2)[1][0][2:] == ("orders 0@1020, 1@1040, 2@1060, 3@1080, 4@1100, 5@1120",
                                                   "orders 0@1030, 1@1060, 2@1090, 3@1120, 4@1150, 5@1180")  # fmt: skip


def test_a_stage_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = {"environment": "local", "root": str(tmp_path), "stage": "silver"}
    with pytest.raises(UsageError, match="no stage 'silver'"):
        explore(Pipeline("sensor", lambda settings: ()), settings)


def test_importing_the_exploration_does_not_import_spark() -> None:
    import subprocess

    code = (
        "import sys, surestart.notebooks.exploration, surestart.notebooks.notebook; sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
