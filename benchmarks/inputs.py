"""The one input of a run, and what every system must make of it, worked out in plain Python without any of them.

    <work>/input-<readings>-<in each file>-<devices>-<tiny files>x<records in each>/
        landing/*.jsonl      what the systems read
        expected.parquet     sensor_id, reading_time, revision, temperature, humidity, battery
        expected.json        {"produced": …, "good": …, "keys": …}, written last

expected.parquet holds for each key every reading with the highest revision: two sensors' messages of equal revision are
told apart by their position only, which not every system keeps. That ours chooses the right one is tested elsewhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sensor_pipeline.count import judge, read_landed
from sensor_pipeline.simulate import Simulation, write_files


@dataclass(frozen=True)
class Input:
    folder: Path
    produced: int
    good: int
    keys: int

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    @property
    def expected(self) -> Path:
        return self.folder / "expected.parquet"


def make_input(
    work: Path, readings: int, *, per_file: int = 5000, devices: int = 200, tiny_files: int = 0, tiny: int = 10
) -> Input:
    """`readings` records in files of `per_file`, then tiny_files files of `tiny` records."""
    folder = work / f"input-{readings}-{per_file}-{devices}-{tiny_files}x{tiny}"
    summary = folder / "expected.json"
    if not summary.exists():
        simulation = Simulation(devices=devices)
        if readings:
            write_files(folder / "landing", folder / "truth.json", readings, simulation, per_file)
        if tiny_files:
            write_files(folder / "landing", folder / "truth.json", tiny_files * tiny, simulation, tiny)
        summary.write_text(json.dumps(_expect(folder)))
    numbers = json.loads(summary.read_text())
    return Input(folder, numbers["produced"], numbers["good"], numbers["keys"])


def _expect(folder: Path) -> dict[str, int]:
    import pyarrow
    import pyarrow.parquet as parquet

    best: dict[tuple[str, datetime], set[tuple[int, float, float, float]]] = {}
    produced = good = 0
    for _, payload in read_landed(str(folder / "landing")):
        produced += 1
        reading = judge(payload)
        if reading is None:
            continue
        good += 1
        sensor, time, *values = reading
        candidate = (values[0], values[1], values[2], values[3])
        held = best.setdefault((sensor, time), set())
        if held and next(iter(held))[0] < candidate[0]:
            held.clear()
        if not held or next(iter(held))[0] == candidate[0]:
            held.add(candidate)
    rows = [(sensor, time, *values) for (sensor, time), held in best.items() for values in held]
    names = ("sensor_id", "reading_time", "revision", "temperature", "humidity", "battery")
    table = pyarrow.table({name: [row[index] for row in rows] for index, name in enumerate(names)})
    parquet.write_table(table, folder / "expected.parquet")
    return {"produced": produced, "good": good, "keys": len(best)}
