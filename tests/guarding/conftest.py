"""A stream of plain Spark in a folder of its own, with what a test looks at: rows, bytes, history."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import surestart
from surestart.facts.delta.pinned import read_table_rows
from surestart.guarding.declared import find_declared
from surestart.guarding.watched import watched_here
from surestart.history.run_record import RunRecord
from surestart.history.run_table import read_runs


class Scene:
    """Numbers in text files, ten in each, into a Delta table by Delta's own sink."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.input, self.table, self.checkpoint = (str(folder / name) for name in ("in", "table", "ck/orders"))
        Path(self.input).mkdir()
        self._files = 0
        self.land()

    @property
    def stream(self) -> surestart.Stream:
        return surestart.Stream("orders", self.checkpoint)

    @property
    def declared(self) -> surestart.Stream:
        return surestart.declare_stream("orders", self.checkpoint, sink={"delta-builtin": self.table})

    def land(self) -> None:
        first = 10 * self._files
        text = "".join(f"{number}\n" for number in range(first, first + 10))
        (Path(self.input) / f"{self._files}.txt").write_text(text)
        self._files += 1

    def rows_of_input(self) -> Any:
        return self.spark.readStream.format("text").load(self.input)

    def writer(self, rows: Any = None, **trigger: Any) -> Any:
        writer = (self.rows_of_input() if rows is None else rows).writeStream.format("delta")
        return writer.option("checkpointLocation", self.checkpoint).trigger(**(trigger or {"availableNow": True}))

    def by_function(self, function: Any, **trigger: Any) -> Any:
        writer = self.rows_of_input().writeStream.foreachBatch(function)
        return writer.option("checkpointLocation", self.checkpoint).trigger(**(trigger or {"availableNow": True}))

    def run(self, **given: Any) -> None:
        surestart.start(self.writer(), self.stream, self.table, **given).awaitTermination()

    def numbers(self, table: str = "") -> Counter[int]:
        return Counter(int(row["value"]) for row in read_table_rows(table or self.table))

    @property
    def landed(self) -> Counter[int]:
        return Counter(range(10 * self._files))

    def runs(self) -> tuple[RunRecord, ...]:
        return read_runs(find_declared(self.stream).environment)

    def bytes(self) -> dict[str, bytes]:
        """Of everything but claims and history."""
        files = (path for path in self.folder.rglob("*") if path.is_file() and ".surestart" not in path.parts)
        return {str(path): path.read_bytes() for path in files}


def pairs(table: str) -> list[tuple[str, int]]:
    found = []
    for entry in sorted((Path(table) / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        found += [(one["txn"]["appId"], one["txn"]["version"]) for one in actions if "txn" in one]
    return found


def uncommit(scene: Scene, batch: int, log: str = "commits") -> None:
    for name in (f"{batch}", f".{batch}.crc"):
        (Path(scene.checkpoint) / log / name).unlink(missing_ok=True)


@pytest.fixture
def scene(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.chdir(tmp_path)
    yield Scene(spark, tmp_path)
    for watched in watched_here():
        watched.stop()
