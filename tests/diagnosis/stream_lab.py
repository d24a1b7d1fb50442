"""Streams of plain Spark that surestart did not write: made once, copied, damaged, judged as a user would ask, and
started again for real. What came out is counted without Spark, as a multiset.

    lab/input/part-0 … part-7     ten rows a file, one file a batch; 0 to 4 are read before the damage, 5 to 7 after
    lab/base/<kind>/checkpoint    made in two rounds: files 0 to 2, then 3 and 4
    lab/base/<kind>/early         the checkpoint after the first round: what a backup would hold
    lab/base/<kind>/out, out2     where its rows went
    lab/<case>/…                  a copy with an identity of its own
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surestart.cli.stage_answers import ask_stages
from surestart.facts.delta import read_table_rows
from surestart.facts.evidence.sink_names import with_said
from surestart.spark.spark_lines import installed_line
from surestart.streams.adopt.adopt import adopt
from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import ProjectFile, parse_project_text
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Verdict
from tests.diagnosis.restart_lab import crc_of, write

ROWS, EARLY, LAST, END = 10, 2, 4, 7
# Each is a field of a result.
SAID = {"undeclared": "nothing said", "declared": "said by a user", "adopted": "adopted"}
START_TIMEOUT_S = 600
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Folder:
    """One stream: its checkpoint and its sinks. newest: of the files that wait, its source is shown none above it."""

    root: Path
    input: Path
    newest: int = END

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def out2(self) -> Path:
        return self.root / "out2"


@dataclass(frozen=True)
class Kind:
    """How a query is started on a folder; which rows its sinks have to hold in the end; how a user names its sinks,
    saying nothing and saying what they know. beside: what else writes there. copy: for sinks that are no folder."""

    name: str
    start: Callable[[Any, Folder, int], Any]
    undeclared: Callable[[Folder], tuple[str, ...]]
    declared: Callable[[Folder], tuple[str, ...]]
    rows: Callable[[Folder], Rows]
    expected: Callable[[range], Rows]
    beside: Callable[[Any, Folder], None] | None = None
    copy: Callable[[Folder, Folder], None] | None = None


@dataclass(frozen=True)
class Damage:
    """of_source: it is about what the stream reads, which `inspect` does not ask, and `doctor` does."""

    name: str
    do: Callable[[Any, Folder], object]
    healthy: bool = False
    said: tuple[str, ...] = ()
    of_source: bool = False


@dataclass(frozen=True)
class Outcome:
    error: str
    lost: int
    doubled: int

    @property
    def went_well(self) -> bool:
        return not self.error and not self.lost and not self.doubled

    def __str__(self) -> str:
        return f"lost {self.lost}, twice {self.doubled}" + (f", failed: {self.error[:60]}" if self.error else "")


@dataclass(frozen=True)
class Answer:
    verdict: Verdict
    codes: tuple[str, ...]

    @property
    def starts(self) -> bool:
        return self.verdict in (Verdict.SAFE, Verdict.ATTENTION)


@dataclass(frozen=True)
class Result:
    kind: str
    damage: str
    healthy: bool
    undeclared: Answer
    declared: Answer
    adopted: Answer
    outcome: Outcome
    seconds: float
    of_source: bool = False

    @property
    def name(self) -> str:
        return f"{self.kind}: {self.damage}"


class StreamLab:
    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder, self.input = spark, folder, folder / "input"

    def make_bases(self, kinds: Iterable[Kind], workers: int = 3) -> None:
        """Each query is run to batch 2, its checkpoint copied, and run to batch 4; the other files then wait."""
        self.input.mkdir(parents=True)
        kinds = list(kinds)
        self._add_files(0, EARLY)
        self._start_all(kinds, workers)
        for kind in kinds:
            base = self.base(kind)
            shutil.copytree(base.checkpoint, base.root / "early")
        self._add_files(EARLY + 1, LAST)
        self._start_all(kinds, workers)
        self._add_files(LAST + 1, END)

    def base(self, kind: Kind) -> Folder:
        return Folder(self.folder / "base" / kind.name.replace(" ", "-"), self.input)

    def judge_and_restart(self, kind: Kind, damage: Damage) -> Result:
        """What is said first, then the starts, each twice where it fails: a file each, so that none goes on from what
        the one before has in memory. Where that goes well and unsafe was said, once more with all that wait in one
        batch: a stream is safe only if no cut harms it."""
        begin = time.monotonic()
        folder = self._copy(kind, damage, "")
        project = adopt_stream(folder)
        damage.do(self.spark, folder)
        adopted = ask_doctor(project)
        undeclared = ask(folder, kind.undeclared(folder))
        declared = ask(folder, tuple(with_said(name, damage.said) for name in kind.declared(folder)))
        outcome = self._restart(kind, folder, range(LAST + 1, END + 1), 1)
        if outcome.went_well and Verdict.UNSAFE in (undeclared.verdict, declared.verdict, adopted.verdict):
            uncut = self._copy(kind, damage, " uncut")
            damage.do(self.spark, uncut)
            outcome = self._restart(kind, uncut, (END,), 100)
        seconds = time.monotonic() - begin
        said = (undeclared, declared, adopted)
        return Result(kind.name, damage.name, damage.healthy, *said, outcome, seconds, damage.of_source)

    def _copy(self, kind: Kind, damage: Damage, suffix: str) -> Folder:
        name = re.sub(r"[^a-z0-9]+", "-", f"{kind.name} {damage.name}{suffix}".lower())
        folder = Folder(self.folder / name, self.input)
        base = self.base(kind)
        shutil.copytree(base.root, folder.root)
        renew(folder, base)
        if kind.copy:
            kind.copy(base, folder)
        return folder

    def _restart(self, kind: Kind, folder: Folder, newest: Iterable[int], files: int) -> Outcome:
        """One start for each of newest."""
        error = ""
        for last in newest:
            shown = replace(folder, newest=last)
            error = run_to_the_end(kind, self.spark, shown, files) and run_to_the_end(kind, self.spark, shown, files)
            if error:
                break
        expected, held = kind.expected(range(END + 1)), kind.rows(folder)
        return Outcome(error, sum((expected - held).values()), sum((held - expected).values()))

    def _start_all(self, kinds: list[Kind], workers: int) -> None:
        def one(kind: Kind) -> str:
            error = run_to_the_end(kind, self.spark, self.base(kind), 1)
            if not error and kind.beside:
                kind.beside(self.spark, self.base(kind))
            return f"{kind.name}: {error}" if error else ""

        with ThreadPoolExecutor(workers) as pool:
            problems = [error for error in pool.map(one, kinds) if error]
        assert not problems, problems

    def _add_files(self, first: int, last: int) -> None:
        for number in range(first, last + 1):
            draft = self.folder / f"draft-{number}"
            draft.write_text("".join(f"{number * ROWS + row}\n" for row in range(ROWS)))
            # Spark reads files in the order of their times.
            os.utime(draft, (1_790_000_000 + number * 10, 1_790_000_000 + number * 10))
            draft.rename(self.input / f"part-{number}")


def restart_all(
    lab: StreamLab,
    cases: Iterable[tuple[Kind, Damage]],
    workers: int = 3,
    done: Callable[[Result], object] | None = None,
) -> list[Result]:
    """Each stream judged and started again. `done` hears of each as it ends."""
    cases = list(cases)
    lab.make_bases(dict.fromkeys(kind for kind, _ in cases), workers)

    def one(case: tuple[Kind, Damage]) -> Result:
        result = lab.judge_and_restart(*case)
        if done:
            done(result)
        return result

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, cases))


def ask(folder: Folder, sinks: tuple[str, ...]) -> Answer:
    found = inspect_checkpoint(str(folder.checkpoint), sinks=sinks, spark=installed_line().name)
    return Answer(found.verdict, tuple(finding.code for finding in found.findings))


def adopt_stream(folder: Folder) -> ProjectFile:
    """What `surestart adopt` writes of it while it is whole, with nothing added by hand."""
    found = adopt([str(folder.root)])
    (text,) = (one.told for one in found.adopted if one.joined.checkpoint.location == str(folder.checkpoint))
    return parse_project_text(folder.root / "surestart.toml", text)


def ask_doctor(project: ProjectFile) -> Answer:
    """What `surestart doctor` says of the one stream that the file declares."""
    stages = pipeline_of_streams(project.streams).build_stages({})
    (found,) = ask_stages(environment_of_streams(project), stages)
    return Answer(found.verdict, tuple(finding.code for finding in found.findings))


def run_to_the_end(kind: Kind, spark: Any, folder: Folder, files: int) -> str:
    """ "" or what Spark says."""
    try:
        query = kind.start(spark, folder, files)
    except Exception as error:  # noqa: BLE001 - whatever Spark says is the observation
        return _shortly(error)
    try:
        if query.awaitTermination(START_TIMEOUT_S):
            return ""
    except Exception as error:  # noqa: BLE001
        return _shortly(error)
    query.stop()
    raise TimeoutError(f"{folder.root.name} did not end within {START_TIMEOUT_S} s")


def _shortly(error: Exception) -> str:
    found = re.search(r"\[([A-Z_.0-9]{8,})\]", str(error))
    return found.group(1) if found else str(error).strip().splitlines()[0][:100]


def renew(folder: Folder, base: Folder) -> None:
    """An identity of its own: Spark stops a running query when another of its id starts in the session. And a file
    sink's log names its files with their whole path."""
    metadata = folder.checkpoint / "metadata"
    old, new = json.loads(metadata.read_text())["id"], str(uuid.uuid4())
    paths = [
        *folder.root.glob("*/metadata"),
        *folder.root.glob("*/_delta_log/*"),
        *folder.root.glob("*/_spark_metadata/*"),
    ]
    for path in paths:
        if path.is_dir() or path.name.startswith(".") or path.suffix == ".parquet":
            continue
        text = path.read_text()
        changed = text.replace(old, new).replace(str(base.root), str(folder.root))
        if changed != text:
            times = path.stat()
            write(path, changed)
            for file in (path, crc_of(path)):
                os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def numbers(files: range) -> Rows:
    return Counter((file * ROWS + row,) for file in files for row in range(ROWS))


def delta_rows(table: Path, *columns: str) -> Rows:
    if not (table / "_delta_log").exists():
        return Counter()
    return Counter(tuple(int(row[column]) for column in columns or ("id",)) for row in read_table_rows(str(table)))


def file_sink_rows(folder: Path) -> Rows:
    """What a reader of the folder sees: the files that `_spark_metadata` lists; all files where it is gone."""
    import pyarrow.parquet as parquet

    log = folder / "_spark_metadata"
    if not folder.exists():
        return Counter()
    files = {str(path) for path in folder.glob("*.parquet")}
    if log.exists():
        lines = [line for path in log.iterdir() if path.name[0] != "." for line in path.read_text().splitlines()[1:]]
        files = {json.loads(line)["path"].removeprefix("file://") for line in lines}
    return Counter((value,) for path in sorted(files) for value in parquet.read_table(path).column("id").to_pylist())


def matrix(results: Iterable[Result]) -> str:
    """Said in rows, what came in columns: with nothing said of the sinks, with what their owner knows, and by what
    `surestart adopt` has written of the stream before the damage."""
    results = list(results)
    lines = [f"{len(results)} streams restarted: {sum(one.healthy for one in results)} healthy, the others damaged", ""]
    lines.append(f"{'':<14}" + "".join(f"{said:>26}" for said in SAID.values()))
    lines.append(f"{'verdict':<14}" + f"{'went well':>12}{'harm':>14}" * len(SAID))
    for verdict in Verdict:
        row = f"{verdict.value:<14}"
        for which in SAID:
            asked = [one for one in results if which == "adopted" or not one.of_source]
            mine = [one.outcome.went_well for one in asked if getattr(one, which).verdict is verdict]
            row += f"{sum(mine):>12}{len(mine) - sum(mine):>14}"
        lines.append(row)
    lines.append("")
    for which, said in SAID.items():
        counted = count_wrong(results, which)
        lines.append(
            f"{said}: false safe {len(counted[0])}, false unsafe {len(counted[1])}, cannot tell {len(counted[2])}"
        )
        lines += [f"  FALSE SAFE: {describe(one, which)}" for one in counted[0]]
        lines += [f"  FALSE UNSAFE: {describe(one, which)}" for one in counted[1]]
        lines += [f"  cannot tell: {describe(one, which)}" for one in counted[2]]
    return "\n".join(lines)


def count_wrong(results: Iterable[Result], which: str) -> tuple[list[Result], list[Result], list[Result]]:
    """(false safe, false unsafe, cannot tell)"""
    results = [one for one in results if which == "adopted" or not one.of_source]
    harmed = [one for one in results if getattr(one, which).starts and not one.outcome.went_well]
    refused = [one for one in results if getattr(one, which).verdict is Verdict.UNSAFE and one.outcome.went_well]
    return harmed, refused, [one for one in results if getattr(one, which).verdict is Verdict.CANNOT_TELL]


def describe(one: Result, which: str) -> str:
    return f"{one.name}: {', '.join(getattr(one, which).codes) or 'no finding'}; {one.outcome}"
