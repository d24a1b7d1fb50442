"""However a person spells the place of a healthy stream's rows, it is the same place, or it is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestart.cli.main import main
from surestart.errors import UsageError
from surestart.facts.evidence.sink_names import read_sink_name
from tests.checkpoint.checkpoint_maker import QUERY_ID, make_checkpoint
from tests.deltalog.handmade import add, create, info, txn, write_commit


@pytest.fixture
def stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_checkpoint(tmp_path / "ck")
    for table in (tmp_path / "out", tmp_path / "o%20 ut"):
        write_commit(table, 0, *create())
        for version in range(1, 6):
            write_commit(table, version, info("STREAMING UPDATE"), txn(QUERY_ID, version - 1), add(f"f{version}"))
    (tmp_path / "link").symlink_to("out")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        *("{0}/out", "{0}/out/", "{0}//out//", "./out", "ck/../out", "{0}/link", "file:{0}/out", "file://{0}/out"),
        *("delta:file:{0}/out", "delta.`{0}/out`", "DELTA.`{0}/out`", "delta-builtin:delta.`{0}/out`"),
        *("{0}/o%20 ut", "file:{0}/o%20 ut", "delta.`{0}/o%20 ut`", "delta+alone:{0}/out"),
    ],
)
def test_the_same_table(stream: Path, name: str) -> None:
    assert main(["inspect", "ck", "--sink", name.format(stream)]) == 0


@pytest.mark.parametrize(
    "name",
    [
        *("`main`.`a/b`", "`a:b`.`c`", "main.default.t", "delta:`main`.`a:b`", "parquet.`/no/such`", "dbfs:/x/out"),
        *("file://host/out", "hdfs://nn/out", "http://x/y", "nosuch://x/y"),
    ],
)
def test_what_cannot_be_read_from_here_is_not_lost(stream: Path, name: str) -> None:
    assert main(["inspect", "ck", "--sink", name]) == (3 if name.startswith("parquet") else 4)


@pytest.mark.parametrize("name", ["", " ", ":", "delta:", "C:\\x", "FILE:/x"])
def test_what_names_nothing_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        read_sink_name(name)
