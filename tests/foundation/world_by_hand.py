"""Landed files, tables and checkpoints of the pipeline, written by hand: what a count can meet, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from sensor_pipeline.count import judge
from sensor_pipeline.simulate import write_files
from sensor_pipeline.tally import RowPosition
from surestart.environment import Environment
from tests.deltalog.handmade import add, create, write_commit
from tests.diagnosis.stage_values import write_checkpoint

RAW, GOOD, BAD, GOLD = "sensor_raw", "sensor_readings_deserialized", "sensor_quarantine", "sensor_gold"
_GOLD_COLUMNS = ("sensor_id", "reading_time", "revision", "temperature", "humidity", "battery")
Record = tuple[RowPosition, bytes]


class World:
    """`land` makes files; `ingest`, `deserialize` and `merge` do what the stages do, with the rows that are given."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.landing = Path(environment.landing)
        self._listed: list[Path] = []

    def land(self, readings: int, per_file: int = 20) -> list[Record]:
        before = set(self.landing.glob("*"))
        write_files(self.landing, Path(self.environment.root) / "truth.json", readings, per_file=per_file)
        return [record for path in sorted(set(self.landing.glob("*")) - before) for record in lines_of(path)]

    def ingest(self, records: Iterable[Record]) -> None:
        """raw-ingest has read every file that is there, and its table gets these rows."""
        self.append(RAW, records)
        self._listed += sorted(set(self.landing.glob("*")) - set(self._listed))
        checkpoint = self._commit("raw-ingest", {"logOffset": 0})
        entries = [json.dumps({"path": path.as_uri(), "timestamp": 1, "batchId": 0}) for path in self._listed]
        (checkpoint / "sources" / "0").mkdir(parents=True, exist_ok=True)
        (checkpoint / "sources" / "0" / "0").write_text("\n".join(["v1", *entries]))

    def deserialize(self, records: Iterable[Record]) -> None:
        records = list(records)
        good = [place(position) for position, payload in records if judge(payload) is not None]
        bad = [place(position) for position, payload in records if judge(payload) is None]
        self._append(GOOD, good)
        self._append(BAD, bad)
        self._commit("deserialize", self._delta_position(RAW))

    def merge(self, records: Iterable[Record]) -> None:
        """Gold is what these records make of it, all of it."""
        newest: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for position, payload in records:
            reading = judge(payload)
            if reading is not None and (reading[2], position) > newest.get(reading[:2], (-1, position))[:2]:
                newest[reading[:2]] = (reading[2], position, *reading[3:])
        rows = [
            dict(zip(_GOLD_COLUMNS, (sensor, time.replace(tzinfo=None), found[0], *found[2:]), strict=True))
            | place(found[1])
            for (sensor, time), found in newest.items()
        ]
        self._append(GOLD, rows)
        self._commit("merge-gold", self._delta_position(GOOD))

    def run_all(self, records: Iterable[Record]) -> None:
        records = list(records)
        self.ingest(records)
        self.deserialize(records)
        self.merge(records)

    def append(self, name: str, records: Iterable[Record]) -> None:
        self._append(name, [{"payload": payload, **place(position)} for position, payload in records])

    def _append(self, name: str, rows: list[dict[str, Any]]) -> None:
        folder = Path(self.environment.table(name).path)
        version = self._versions(name)
        if not version:
            write_commit(folder, 0, *create(table_id=f"id-{name}"))
            version = 1
        if rows:
            table = pyarrow.table({key: [row[key] for row in rows] for key in rows[0]})
            pyarrow.parquet.write_table(table, folder / f"{version}.parquet")
            write_commit(folder, version, add(f"{version}.parquet", rows=len(rows)))

    def _versions(self, name: str) -> int:
        return len(list((Path(self.environment.table(name).path) / "_delta_log").glob("*.json")))

    def _delta_position(self, name: str) -> dict[str, Any]:
        return {
            "sourceVersion": 1,
            "reservoirId": f"id-{name}",
            "reservoirVersion": self._versions(name),
            "index": -1,
            "isStartingVersion": False,
        }

    def _commit(self, stage: str, position: dict[str, Any]) -> Path:
        checkpoint = Path(self.environment.checkpoint(stage))
        if not checkpoint.exists():
            return write_checkpoint(checkpoint, planned=0, committed=0, offset=json.dumps(position))
        planned = (checkpoint / "offsets" / "0").read_text().rpartition("\n")[0]
        (checkpoint / "offsets" / "0").write_text(f"{planned}\n{json.dumps(position)}")
        return checkpoint


def place(position: RowPosition) -> dict[str, Any]:
    return dict(zip(("source", "partition", "offset"), position, strict=True))


def lines_of(path: Path) -> list[Record]:
    return [((f"file:{path}", 0, number), line) for number, line in enumerate(path.read_bytes().split(b"\n")[:-1])]
