"""The lines of a screen agree with each other: over every shape of a checkpoint and every answer of a sink."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from surestart.declaration import SourceDeclaration, StageDeclaration
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.report.text.inspection import render_inspection
from surestart.spark.spark_lines import NAMES
from surestart.typed import word
from surestart.verdict.inspection import Inspection, inspect_checkpoint
from surestart.verdict.next_start import Outcome
from surestart.verdict.shapes import diagnose_checkpoint
from surestart.words.finding import Acceptance, Severity, Verdict
from tests.checkpoint.checkpoint_maker import QUERY_ID, make_checkpoint
from tests.deltalog.handmade import add, create, info, remove, txn, write_commit
from tests.diagnosis.called import surestart
from tests.diagnosis.environment_by_hand import checkpoint, lay_out
from tests.diagnosis.test_ignorance import runs
from tests.diagnosis.test_shapes import CASES
from tests.typed.typeable import faults_of, without_comment, words_of

OTHER = "9b1d5a30-30cc-4be9-9a0c-2f3a1b8f6d11"
HEADLINES = {
    Verdict.SAFE: "SAFE: start it",
    Verdict.ATTENTION: "ATTENTION: it would start",
    Verdict.CANNOT_TELL: "CANNOT TELL",
    Verdict.UNSAFE: "UNSAFE: do not start it",
}


def contradictions(inspection: Inspection) -> Iterator[str]:
    """Lines of one screen that cannot both be true."""
    text = render_inspection(inspection)
    checkpoint, start, findings = inspection.checkpoint, inspection.start, inspection.findings
    joined = " ".join(text.split())
    codes = {finding.code for finding in findings}
    worst = [Severity.UNSAFE, Severity.CANNOT_TELL, Severity.ATTENTION, Severity.INFO]
    if HEADLINES[inspection.verdict] not in joined:
        yield f"the headline is not that of {inspection.verdict}"
    if findings and worst.index(findings[0].severity) != min(worst.index(one.severity) for one in findings):
        yield "the first finding is not the worst"
    if inspection.verdict is Verdict.SAFE and any(one.severity is not Severity.INFO for one in findings):
        yield "safe, with a finding that is not"
    yield from (f"one is no range: {found}" for found in re.findall(r"\b(\d+)(?:\.\.| to )\1\b", joined))
    yield from (f"a range before 0: {found}" for found in re.findall(r"\d\.\.-\d+|batch -\d+", joined))
    if inspection.verdict in (Verdict.UNSAFE, Verdict.CANNOT_TELL):
        yield from (f"{one.code} says to start: {str(one.next)!s}" for one in findings if one.next.starts_a_query)
    if start.outcome in (Outcome.FAILS, Outcome.LOOPS) and inspection.verdict is not Verdict.UNSAFE:
        yield f"the start {start.sentence}, and the verdict is {inspection.verdict}"
    if "NOT_A_CHECKPOINT" in codes and start.outcome is not Outcome.CANNOT_TELL:
        yield f"no checkpoint, and it {start.sentence}"
    if start.outcome is Outcome.FIRST and checkpoint.latest_planned is not None:
        yield "a first start of a query that has planned batches"
    if start.outcome is Outcome.REPLAYS and checkpoint.in_flight != start.batch:
        yield f"replays {start.batch}, and {checkpoint.in_flight} is in flight"
    if start.outcome is Outcome.STARTS and checkpoint.in_flight is not None:
        yield f"starts {start.batch}, and {checkpoint.in_flight} is in flight"
    if checkpoint.in_flight is None:
        said = [*(one.detail for one in inspection.sinks), *(f"{one.evidence} {one.meaning}" for one in findings)]
        # What would be true after a crash is no claim about now.
        said = [one for one in said if re.search(r"the batch in flight|batch \d+ is in flight|the replay is", one)]
        yield from (
            f"nothing is in flight: {one}" for one in said if "After a crash" not in one and "older ones" not in one
        )
    for answer in inspection.sinks:
        if answer.next_batch is not None and start.batch is not None and answer.next_batch != start.batch:
            yield f"the start is of batch {start.batch}, the sink was asked about {answer.next_batch}"
        named = {one.code for one in answer.findings if one.severity is Severity.UNSAFE}
        if answer.acceptance is Acceptance.ACCEPTS and named and f" ACCEPTS: {answer.sink.target}" in joined:
            yield f"accepts, and {' '.join(sorted(named))}"
        if answer.acceptance is Acceptance.SKIPS and not named:
            yield f"{answer.sink.target} skips, and nothing is unsafe"
    yield from (fault for one in findings for fault in faults_of(str(one.next)))
    yield from (f"cut: {str(one.next)!s}" for one in findings if f"Next: {str(one.next)!s}\n" not in text)


def table_of(root: Path, *pairs: tuple[str, int], gone: str = "") -> Path:
    """A Delta table that holds a batch of each pair (query id, batch id), in that order; gone: what took its rows."""
    write_commit(root, 0, *create(table_id="T"))
    for version, (query_id, batch) in enumerate(pairs, 1):
        note = info(
            "STREAMING UPDATE", operationParameters={"outputMode": "Append", "queryId": query_id, "epochId": str(batch)}
        )
        write_commit(root, version, note, txn(query_id, batch), add(f"{version}.parquet"))
    if gone:
        rows = [remove(f"{version}.parquet") for version in range(1, len(pairs) + 1)]
        write_commit(root, len(pairs) + 1, info(gone, operationParameters={"version": "0"}), *rows)
    return root


def sinks(root: Path) -> dict[str, str]:
    """Named sinks: what each holds is in its name."""
    tables = {
        f"batches to {last}": tuple((QUERY_ID, batch) for batch in range(last + 1)) for last in (0, 1, 3, 4, 5, 8)
    }
    tables |= {
        "nothing": (),
        "another query's": tuple((OTHER, batch) for batch in range(5)),
        "another query's, further": tuple((OTHER, batch) for batch in range(9)),
        "one batch of another query": ((OTHER, 0),),
        "two writers": tuple((one, batch) for batch in range(5) for one in (QUERY_ID, OTHER)),
        "a former id, then this": (*((OTHER, batch) for batch in range(3)), *((QUERY_ID, batch) for batch in (3, 4))),
    }
    found = {name: str(table_of(root / name.replace(" ", "_"), *pairs)) for name, pairs in tables.items()}
    for operation in ("RESTORE", "TRUNCATE", "DELETE"):
        found[operation] = str(table_of(root / operation, *((QUERY_ID, batch) for batch in range(5)), gone=operation))
    found |= {"no table": str(root / "nowhere"), "a function": f"foreach-batch:{found['nothing']}"}
    found |= {
        f"{kind}, {name}": f"{kind}:{found[name]}" for kind in ("delta-merge", "delta-builtin") for name in tables
    }
    return found | {"jdbc": "jdbc:orders", "a topic": "kafka:orders", "files": f"parquet:{root / 'files'}"}


def stopped(root: Path, planned: int, committed: int | None) -> Path:
    """A checkpoint that stopped between these two."""
    return make_checkpoint(
        root, planned=range(planned + 1), committed=range(-1 if committed is None else committed + 1)
    )


def test_no_line_of_a_screen_contradicts_another(tmp_path: Path) -> None:
    named = sinks(tmp_path / "sinks")
    wrong: dict[str, str] = {}
    seen = 0
    stops = [(0, None), (0, 0), (1, 0), (4, 4), (4, 3), (4, 2)]
    for planned, committed in stops:
        root = stopped(tmp_path / f"stop-{planned}-{committed}", planned, committed)
        for (name, sink), line in itertools.product(named.items(), ("4.0", "4.2")):
            inspection = inspect_checkpoint(str(root), sinks=(sink,), spark=line)
            seen += 1
            for one in contradictions(inspection):
                wrong.setdefault(one, f"planned {planned}, committed {committed}, sink {name}, Spark {line}")
    chosen = random.Random(17)
    for name, (source, damage, _, _) in CASES.items():
        root = make_checkpoint(tmp_path / "shapes" / re.sub(r"\W", "-", name), source=source)
        damage(root)
        for sink in ("none", "", *chosen.sample(sorted(named), 2)):
            given = (named.get(sink, sink),) if sink else ()
            inspection = inspect_checkpoint(str(root), sinks=given, spark=chosen.choice(NAMES))
            seen += 1
            for one in contradictions(inspection):
                wrong.setdefault(one, f"{name}, sink {sink}")
    assert seen > 700
    assert wrong == {}


def test_a_folder_that_is_no_checkpoint_does_not_begin_at_batch_0(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "part-1.parquet").write_text("x")
    shown = surestart("inspect", str(tmp_path / "data"), "--sink", "none").stdout
    assert "NOT_A_CHECKPOINT" in shown
    assert "begins at batch 0" not in shown


def test_a_copy_that_is_only_looked_at_is_no_fault(tmp_path: Path) -> None:
    """`cp -r` without -p gives every file a new time: that is what a backup looks like."""
    old = make_checkpoint(tmp_path / "orders")
    for entry in (old / "offsets").iterdir():
        entry.write_text(re.sub(r'"batchTimestampMs":\d+', '"batchTimestampMs":1700000000000', entry.read_text()))
    shutil.copytree(old, tmp_path / "backup", copy_function=shutil.copyfile)
    inspection = inspect_checkpoint(str(tmp_path / "backup"), sinks=("none",))
    assert {one.code: one.severity for one in inspection.findings} == {"COPIED": Severity.INFO}
    assert inspection.verdict is Verdict.SAFE


def test_a_copy_that_a_stage_would_be_started_on_is_one(tmp_path: Path) -> None:
    copy = make_checkpoint(tmp_path / "orders")
    newest = copy / "offsets" / "4"
    newest.write_text(re.sub(r'"batchTimestampMs":\d+', '"batchTimestampMs":1700000000000', newest.read_text()))
    stage = StageDeclaration("orders", "orders", str(copy), (SourceDeclaration("kafka", "orders"),), ())
    found = {one.code: one.severity for one in diagnose_checkpoint(read_checkpoint(str(copy)), stage)}
    assert found["COPIED"] is Severity.ATTENTION


@pytest.mark.parametrize("name", ["an order", "it's", "$(touch ran)", "`touch ran`", "a\nb"])
def test_what_inspect_prints_of_somebody_elses_checkpoint_can_be_typed(tmp_path: Path, name: str) -> None:
    """By a shell, in that folder: the same exit code, because it is the same question; and nothing else was run."""
    import os
    import subprocess
    import sys

    root = make_checkpoint(tmp_path / name, committed=range(5))
    (root / "offsets" / "3").unlink()
    table = table_of(tmp_path / f"table of {name}", *((QUERY_ID, batch) for batch in range(5)))
    first = surestart("inspect", str(root), "--sink", str(table))
    lines = [line.strip().removeprefix("Next: ") for line in first.stdout.splitlines() if line.startswith("  Next: ")]
    assert first.returncode == 3
    assert lines
    script = f"surestart() {{ '{sys.executable}' -m surestart \"$@\"; }}\n{lines[0]}"
    again = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, env=os.environ, check=False
    )
    assert (again.returncode, again.stdout) == (3, first.stdout), again.stderr
    assert not (tmp_path / "ran").exists()


def test_no_command_is_cut_however_long_its_path_is(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(5):
        folder = folder / ("a long name " * 20).strip()
    root = make_checkpoint(folder / "orders")
    (root / "offsets" / "3").unlink()
    told = surestart("inspect", str(root), "--sink", "none", "--json").stdout
    commands = [one["next"] for one in json.loads(told)["findings"]]
    lines = surestart("inspect", str(root), "--sink", "none").stdout.splitlines()
    assert commands == [line.removeprefix("  Next: ") for line in lines if line.startswith("  Next: ")]
    assert commands
    assert all(words_of(without_comment(one))[2] == str(root) for one in commands)


@pytest.mark.parametrize("name", ["root", "it's a root"])
def test_a_checkpoint_that_a_stage_ran_in_is_spoken_of_as_that_stage(tmp_path: Path, name: str) -> None:
    """Told to move it aside by hand, its operator would do what `surestart plan` does with an undo."""
    root = lay_out(tmp_path / name)
    shown = inspect_of(root, "deserialize")
    assert f"surestart inspect {word(str(checkpoint(root, 'deserialize')))}" in shown
    runs(root, pipeline="sensor")
    (checkpoint(root, "deserialize") / "offsets" / "3").unlink()
    shown = inspect_of(root, "deserialize")
    named = f"-e local --root {word(str(root))}"
    assert f"  Next: surestart plan replay deserialize {named} --from-output -o plan.json\n" in shown


def inspect_of(root: Path, stage: str) -> str:
    return surestart("inspect", str(checkpoint(root, stage))).stdout
