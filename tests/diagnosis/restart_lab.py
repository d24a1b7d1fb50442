"""Real restarts on damaged copies of one real checkpoint, and what came out, counted row by row without Spark.

    lab/input/part-0 … part-5     ten rows a file, one file a batch; 0 to 4 are read before the damage, 5 after
    lab/base/<kind>/checkpoint    made once by a query that was stopped after batch 4
    lab/base/<kind>/table         its sink: Delta, written by Delta's own streaming sink
    lab/<case>/checkpoint, table  a copy with an identity of its own, then damaged, then started

Every copy gets its own query id (in `metadata` and in the table's transactions), because Spark stops a running query
when another one with the same id starts in the same session.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.diagnosis.calibration import Case

LAST = 4
NEW_FILES = 1
ROWS = 10
START_TIMEOUT_S = 600
# Each batch has ten rows and plans of its own: compiling them costs more than anything they do. Restarts do not differ.
THRIFTY = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@dataclass(frozen=True)
class Shape:
    """One damage. `kind` names the base query: stateless, or dedup (stateful). since: the first Spark line that writes
    the file which is damaged."""

    name: str
    damage: Callable[[Path], object]
    kind: str = "stateless"
    since: str = ""


@dataclass(frozen=True)
class Outcome:
    """What one start did. lost and duplicated count rows of the sink after it, against every file in the input."""

    error: str
    first_batch: int | None
    query_id: str | None
    lost: int
    duplicated: int

    @property
    def failed(self) -> bool:
        return bool(self.error)


class Lab:
    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.input = folder / "input"

    def make_bases(self, kinds: tuple[str, ...] = ("stateless", "dedup")) -> None:
        """Runs each base query to batch 4, then adds the files that only a restart will see."""
        self.input.mkdir(parents=True)
        for number in range(LAST + 1):
            self._add_file(number)
        with ThreadPoolExecutor(len(kinds)) as pool:
            made = pool.map(lambda kind: self._start(kind, self.folder / "base" / kind), kinds)
            assert [error for error, *_ in made if error] == []
        for number in range(LAST + 1, LAST + 1 + NEW_FILES):
            self._add_file(number)

    def lay_out(self, shape: Shape) -> Path:
        """A copy of the base with an identity of its own, damaged."""
        case = self.folder / re.sub(r"[^a-z0-9]+", "-", shape.name.lower())
        shutil.copytree(self.folder / "base" / shape.kind, case)
        renew_identity(case)
        shape.damage(case / "checkpoint")
        return case

    def restart(self, shape: Shape, case: Path) -> Outcome:
        error, first, query_id = self._start(shape.kind, case)
        lost, duplicated = self._count(case)
        return Outcome(error, first, query_id, lost, duplicated)

    def _add_file(self, number: int) -> None:
        rows = "".join(f"{number * ROWS + row}\n" for row in range(ROWS))
        draft = self.folder / f"draft-{number}"
        draft.write_text(rows)
        draft.rename(self.input / f"part-{number}")

    def _start(self, kind: str, case: Path) -> tuple[str, int | None, str | None]:
        stream = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.input))
        if kind == "dedup":
            stream = stream.dropDuplicates(["value"])
        writer = (
            stream.writeStream.format("delta")
            .option("checkpointLocation", str(case / "checkpoint"))
            .trigger(availableNow=True)
        )
        try:
            query = writer.start(str(case / "table"))
        except Exception as error:  # noqa: BLE001 - whatever Spark says is the observation
            return _first_line(error), None, None
        try:
            if not query.awaitTermination(START_TIMEOUT_S):
                query.stop()
                raise TimeoutError(f"{case.name} did not end within {START_TIMEOUT_S} s")
        except TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001
            return _first_line(error), _first_batch(query), str(query.id)
        return "", _first_batch(query), str(query.id)

    def _count(self, case: Path) -> tuple[int, int]:
        import pyarrow.parquet as parquet

        found: Counter[int] = Counter()
        for path in active_files(case / "table"):
            found.update(int(value) for value in parquet.read_table(path).column("value").to_pylist())
        expected = range((LAST + 1 + NEW_FILES) * ROWS)
        lost = sum(found[row] == 0 for row in expected)
        return lost, sum(count - 1 for count in found.values() if count > 1)


def restart_cases(
    lab: Lab, shapes: list[Shape], spark: str, workers: int = 3, done: Callable[[Case, float], object] | None = None
) -> list[Case]:
    """Each shape predicted, then started; a start that fails is tried once more, as a retry policy would.

    `done` hears of each case as it ends, with the seconds it took."""
    from tests.diagnosis.calibration import Case, predict

    lab.make_bases()

    def one(shape: Shape) -> Case:
        begin = time.monotonic()
        folder = lab.lay_out(shape)
        prediction = predict(folder, shape.kind, spark)
        outcomes = [lab.restart(shape, folder)]
        if outcomes[0].failed:
            outcomes.append(lab.restart(shape, folder))
        case = Case(shape, prediction, tuple(outcomes))
        if done:
            done(case, time.monotonic() - begin)
        return case

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, [shape for shape in shapes if shape.since <= spark]))


def _first_batch(query: Any) -> int | None:
    """A batch that Delta recognises as written counts no rows, so rows do not tell; the call of the sink does."""
    ran = [progress["batchId"] for progress in query.recentProgress if "addBatch" in progress["durationMs"]]
    return int(ran[0]) if ran else None


def _first_line(error: Exception) -> str:
    """Spark's own words, without the wrapper that every streaming error has."""
    text = str(error)
    inner = re.search(r"terminated with (?:exception|error): (.*?)(?: SQLSTATE|\n|$)", text)
    if inner:
        return inner.group(1)[:300]
    lines = text.strip().splitlines()
    # Py4J's first line names only the object that was called.
    return next((line.lstrip(": ") for line in lines if not line.startswith("An error occurred while calling")), "")[
        :300
    ]


def active_files(table: Path) -> list[Path]:
    """The table's data files, from its JSON log alone: every table here is younger than its first Delta "
    "checkpoint."""
    files: set[str] = set()
    for entry in sorted((table / "_delta_log").glob("*.json")):
        for line in entry.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                files.add(action["add"]["path"])
            if "remove" in action:
                files.discard(action["remove"]["path"])
    return [table / name for name in files]


def renew_identity(case: Path) -> None:
    metadata = case / "checkpoint" / "metadata"
    old, new = json.loads(metadata.read_text())["id"], str(uuid.uuid4())
    write(metadata, metadata.read_text().replace(old, new))
    log = case / "table" / "_delta_log"
    for path in [*log.glob("*.json"), *log.glob("*.crc")]:
        if path.name.startswith("."):
            continue
        write(path, path.read_text().replace(old, new))


def crc_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def write(path: Path, content: str | bytes) -> None:
    """Writes a file with the checksum that Hadoop's local file system would have written."""
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(data)
    chunks = [data[at : at + 512] for at in range(0, len(data), 512)]
    crc_of(path).write_bytes(
        b"crc\x00" + struct.pack(">I", 512) + b"".join(struct.pack(">I", zlib.crc32(c)) for c in chunks)
    )


def remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
            crc_of(path).unlink(missing_ok=True)
