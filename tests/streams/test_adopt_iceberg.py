"""Adoption and the doctor read one metadata file of Iceberg in one way."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from surestart.facts.evidence.iceberg_sink import read_iceberg_sink
from surestart.facts.storage.open_storage import LocalStorage
from surestart.streams.adopt.read_found import read_iceberg
from tests.checkpoint.checkpoint_maker import QUERY_ID
from tests.fleet.make_iceberg import ARCHIVE, KINDS
from tests.fleet.test_iceberg_sink import FIVE, OTHER, batch, snapshot, write_table


@pytest.mark.parametrize("kind", KINDS)
def test_the_queries_of_a_real_table_are_those_that_the_doctor_sees(tmp_path: Path, kind: str) -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    table = tmp_path / kind / "out"
    found, held = read_iceberg(str(table), LocalStorage(str(table))), read_iceberg_sink(str(table))
    assert found.problem == held.problem == ""
    assert bool(held.transactions) == (kind == "own"), "a function of a batch leaves no query id"
    told = {app_id: (one.last_batch, one.last_time) for app_id, one in found.writers.items()}
    assert told == {app_id: (one.version, one.last_updated) for app_id, one in held.transactions.items()}
    assert found.id == held.table_id


@pytest.mark.parametrize("name", ["v7.metadata.json", "v7.gz.metadata.json"])
def test_writers_are_told_apart_also_in_a_packed_file(tmp_path: Path, name: str) -> None:
    plain = snapshot(7, 6, {"operation": "append"})
    table = write_table(tmp_path / "t", [*FIVE, batch(6, 9, OTHER), plain], name)
    found = read_iceberg(str(table), LocalStorage(str(table)))
    assert {app_id: (one.first, one.last, one.last_batch) for app_id, one in found.writers.items()} == {
        QUERY_ID: (0, 4, 4),
        OTHER: (5, 5, 9),
    }
    assert (found.unsigned, found.snapshots) == ((6,), frozenset(range(1, 8)))


def test_a_file_that_is_none_of_icebergs_is_a_problem_and_no_table_without_writers(tmp_path: Path) -> None:
    folder = tmp_path / "t" / "metadata"
    folder.mkdir(parents=True)
    assert read_iceberg("t", LocalStorage(str(tmp_path / "t"))).problem
    (folder / "v7.metadata.json").write_text("{")
    assert read_iceberg("t", LocalStorage(str(tmp_path / "t"))).problem
    (folder / "v7.metadata.json").write_text("{}")
    with pytest.raises(OSError, match="none of Iceberg's"):
        read_iceberg("t", LocalStorage(str(tmp_path / "t")))
