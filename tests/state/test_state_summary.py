"""What `inspect`, the doctor and the page say of state: rows, bytes, spread, watermark, versions, columns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestart.cli.main import main
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.checkpoint.state_versions import ranges_text, summarise
from surestart.facts.checkpoint.store_files import HDFS, StoreVersions
from surestart.report.text.state import state_in_a_line
from tests.state import fixtures

SCHEMA = json.loads((Path(__file__).parents[2] / "src/surestart/report/inspect.schema.json").read_text())
numbers = st.frozensets(st.integers(1, 8))


@given(numbers, numbers, numbers)
def test_the_versions_are_those_that_nothing_is_missing_for(
    full: frozenset[int], steps: frozenset[int], broken: frozenset[int]
) -> None:
    versions = StoreVersions(full, steps, broken=dict.fromkeys(broken & full, "a whole one"))

    assert versions.loadable() == {version for version in full | steps if not versions.missing_for(version, HDFS)}


@pytest.mark.parametrize("name", ["within-rocks", "session-rocks", "aggregate-rockslog", "join-rockslog"])
def test_rows_are_counted_where_rocksdb_says_them(checkpoints: Path, name: str) -> None:
    checkpoint = read_checkpoint(str(checkpoints / name / "checkpoint"))
    reads = list(fixtures.reads_of(checkpoints / name))
    (operator,) = checkpoint.state.operators
    for store in summarise(operator):
        assert store.rows_at is not None
        for read in reads:
            if read["store"] == store.store and store.rows_at == (read["batch"] + 1, read["batch"] + 1):
                assert store.rows == len(read["rows"])
    assert sum(store.size for store in summarise(operator)) <= operator.size


def test_each_store_of_a_join_has_its_own_line(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(checkpoints / "join-hdfs" / "checkpoint")
    main(["inspect", path, "--sink", "none"])
    said = " ".join(capsys.readouterr().out.split())
    assert "state hdfs; watermark 2026-01-01 00:18 UTC, " in said
    assert "left-keyToNumValues: rows not counted in the files, 1.4 kB in 2 partitions, most in partition 1" in said
    assert "versions 1 to 5 are there, left by batches 0 to 4; newest snapshot 3" in said
    assert "aa array<struct<p:string,q:bigint>>, matched boolean)" in said

    main(["inspect", path, "--sink", "none", "--json"])
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    assert found["state"]["watermark_ms"] == 1_767_226_715_000
    stores = found["state"]["operators"][0]["by_store"]
    assert [store["loadable_versions"] for store in stores] == [[1, 2, 3, 4, 5]] * 4


def test_the_page_has_a_row_for_each_store(checkpoints: Path, tmp_path: Path) -> None:
    main(
        ["inspect", str(checkpoints / "join-hdfs" / "checkpoint"), "--sink", "none", "--html", str(tmp_path / "p.html")]
    )
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "Watermark: 2026-01-01 00:18 UTC, " in page
    for store in (
        "left-keyToNumValues",
        "left-keyWithIndexToValue",
        "right-keyToNumValues",
        "right-keyWithIndexToValue",
    ):
        assert f">{store}<" in page


def test_a_version_that_one_partition_lacks_is_not_offered(checkpoints: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(checkpoints / "dedup-hdfs" / "checkpoint", tmp_path / "own"))
    whole = summarise(read_checkpoint(str(root)).state.operators[0])[0]
    (root / "state/0/1/1.delta").unlink()
    (root / "state/0/1/4.delta").unlink()
    (store,) = summarise(read_checkpoint(str(root)).state.operators[0])

    assert whole.loadable == (1, 2, 3, 4)
    assert set(store.loadable) == {2, 3} & set(store.loadable)
    assert 4 not in store.loadable
    assert 1 not in store.loadable
    shutil.rmtree(root / "state/0/1")
    (store,) = summarise(read_checkpoint(str(root)).state.operators[0])
    assert store.loadable == ()


def test_all_of_a_query_s_state_in_a_line(checkpoints: Path) -> None:
    said = state_in_a_line(read_checkpoint(str(checkpoints / "within-rocks" / "checkpoint")))
    assert said.startswith("1 operator (rocksdb), 7 rows, 56.4 kB")
    assert "watermark 2026-01-01 00:19 UTC" in said


def test_ranges_are_short() -> None:
    assert ranges_text((1, 2, 3, 7, 9, 10)) == "1 to 3, 7, 9 to 10"
    assert ranges_text(tuple(range(0, 40, 2))) == "0, 2, …, 36, 38"
