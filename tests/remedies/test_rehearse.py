"""docs/rehearse.md, its code and commands as printed: a stream is forked, tried with new code, compared, dropped."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.cli.main import main
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs

PAGE = (Path(__file__).parents[2] / "docs" / "rehearse.md").read_text(encoding="utf-8")
FORK, TRY, COMPARE, DROP = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
REHEARSE, COMPARED = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(DECLARED,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
# The page's readers have a job of their own; here it is. Deployed is "old", tried is "new".
JOB = """
import os

def read(spark):
    rows = spark.readStream.schema("id INT, s STRING").option("maxFilesPerTrigger", 1)
    return rows.json(os.environ["ORDERS"]).dropDuplicates(["id"])

def transform(rows):
    return rows.selectExpr("id", "upper(s) AS s" if os.environ["CODE"] == "new" else "s")
"""


@pytest.fixture(autouse=True)
def quick(spark: Any) -> Iterator[None]:
    with applied(spark, {**pairs(EVERYWHERE), "spark.sql.shuffle.partitions": "2"}):
        yield


class Desk:
    """A folder in which the page is followed. Its paths are put below it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        for name, code in (("orders", JOB), ("rehearse", REHEARSE), ("compare", COMPARED)):
            (folder / f"{name}.py").write_text(code)
        for name in ("scratch", "data/in"):
            (folder / name).mkdir(parents=True)
        (folder / "surestart.toml").write_text(DECLARED.replace('"/data/', f'"{folder}/data/'))
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        patch.setenv("ORDERS", f"{folder}/data/in")
        patch.delenv("SURESTART_PIPELINE", raising=False)

    def type(self, block: str) -> None:
        for line in re.sub(r" /(scratch|data)/", rf" {self.folder}/\1/", block).splitlines():
            program, *words = shlex.split(line)
            if program == "surestart":
                assert main(words) == 0, line
                continue
            assert program == "python"
            self.patch.setattr(sys, "argv", words)
            runpy.run_path(words[0], run_name="__main__")


@pytest.mark.long(instead="remedies/test_fork_folder.py::test_a_fork_is_dropped_and_nothing_beside_it")
def test_the_page_is_followed_to_its_end(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], classic_only: None
) -> None:
    desk = Desk(tmp_path, monkeypatch)
    monkeypatch.setenv("CODE", "old")
    for file, ids in enumerate(([1, 2], [3, 4], [2, 5, 6])):
        lines = [json.dumps({"id": number, "s": f"row {number}"}) for number in ids]
        landed = tmp_path / "data/in" / f"{file}.json"
        landed.write_text("\n".join(lines) + "\n")
        os.utime(landed, (1_790_000_000 + 10 * file,) * 2)
    import orders  # type: ignore[import-not-found]

    writer = orders.transform(orders.read(spark)).writeStream.format("delta").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "data/ck/orders")).start(
        str(tmp_path / "data/tables/orders")
    )
    assert query.awaitTermination(300)
    before = {name: read_manifest(tmp_path / "data" / name) for name in ("ck", "tables")}

    desk.type(FORK)
    monkeypatch.setenv("CODE", "new")
    desk.type(TRY)
    capsys.readouterr()
    desk.type(COMPARE)
    said = capsys.readouterr().out
    # The third file brings 5 and 6; that 2 has been there before, the state of batch 1 knows.
    assert "only by the new code: [(5, 'ROW 5'), (6, 'ROW 6')]" in said
    assert "only by the old code: [(5, 'row 5'), (6, 'row 6')]" in said
    digest = json.loads((tmp_path / "scratch/rehearsal/fork.json").read_text())["digest"]
    desk.type(DROP.replace("DIGEST", digest))
    assert list((tmp_path / "scratch").iterdir()) == []
    assert {name: read_manifest(tmp_path / "data" / name) for name in ("ck", "tables")} == before
