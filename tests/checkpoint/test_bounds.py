"""Whatever lies in a checkpoint or in a table's log: within 300 MB, and what was not read is never safe.

The time is measured by `python -m benchmarks hostile`; here counts stand for it, which no busy machine changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surestart.errors import CannotTell
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.checkpoint.state_versions import find_missing_state
from surestart.facts.delta import read_active_files, read_delta_log, read_history
from surestart.facts.storage.read_budget import BYTES, NAMES, VALUES, BoundedStorage, ReadBudget
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Verdict
from tests.checkpoint.checkpoint_maker import files, make_checkpoint, make_state, rate
from tests.checkpoint.memory_storage import MemoryStorage
from tests.deltalog.handmade import write_table
from tests.hostile_places import LARGE, PLACES, Place

MEASURED = """
import sys
from surestart.cli.main import main
code = main(["inspect", *sys.argv[1:]])
# Not ru_maxrss: a child starts with its parent's peak, and pytest's is a Spark driver's.
peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
sys.stderr.write(f"peak {peak}")
sys.exit(code)
"""


def check(place: Place, folder: Path) -> None:
    command = [sys.executable, "-c", MEASURED, *place.build(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in place.codes, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stderr.startswith("peak "), done.stderr
    assert int(done.stderr.split()[1]) < 300_000


# A checkpoint and a table that are refused, and one of each that is read.
QUICK = ("checksums of single bytes", "5,000 state partitions", "a line of lists", "20,000 commits")
LONG = pytest.mark.long(instead="test_within_300_mb_and_with_an_answer")


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=LONG) for name in PLACES])
def test_within_300_mb_and_with_an_answer(name: str, tmp_path: Path) -> None:
    check(PLACES[name], tmp_path)


@pytest.mark.chaos
@pytest.mark.parametrize("name", LARGE)
def test_the_largest_within_300_mb(name: str, tmp_path: Path) -> None:
    check(LARGE[name], tmp_path)


def test_every_byte_name_and_value_is_charged(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck", planned=range(30), committed=range(30))
    storage = BoundedStorage(MemoryStorage.of(root))
    read_checkpoint(str(root), storage)
    logs = [*root.glob("offsets/*"), *root.glob("commits/*")]
    assert BYTES - storage.budget.bytes >= sum(path.stat().st_size for path in logs)
    assert NAMES - storage.budget.names >= 2 * len(logs)
    assert VALUES - storage.budget.values >= 2 * len(logs)


class Counted(dict[Any, Any]):
    """How many keys were looked at in turn."""

    looked = 0

    def __iter__(self) -> Iterator[Any]:
        for key in super().__iter__():
            self.looked += 1
            yield key


def test_what_state_lacks_is_found_in_one_pass(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "ck")
    make_state(tmp_path / "ck", [5], partitions=300, suffix="snapshot")
    checkpoint = read_checkpoint(str(tmp_path / "ck"))
    (operator,) = checkpoint.state.operators
    stores = Counted(operator.stores)
    counted = replace(checkpoint.state, operators=(replace(operator, stores=stores),))
    assert find_missing_state(replace(checkpoint, state=counted), 5) is None
    assert 0 < stores.looked <= 2 * 300


RANK = {Verdict.SAFE: 0, Verdict.ATTENTION: 1, Verdict.CANNOT_TELL: 2, Verdict.UNSAFE: 3}
SHAPES = ("healthy", "files", "rate", "state", "in flight", "hole", "torn", "rewound", "backward")


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MemoryStorage]:
    made = {}
    for name in SHAPES:
        root = tmp_path_factory.mktemp("shapes") / "ck"
        source = {"files": files, "rewound": files, "rate": rate}.get(name)
        how = {"source": source} if source else {}
        make_checkpoint(root, planned=range(12), committed=range(11 if name == "in flight" else 12), **how)
        if name == "state":
            make_state(root, range(1, 13), partitions=3)
        if name == "hole":
            (root / "offsets/10").unlink()
        if name == "torn":
            (root / "commits/11").write_text("")
        if name == "rewound":
            for batch in (9, 10, 11):
                (root / f"offsets/{batch}").unlink()
                (root / f"commits/{batch}").unlink()
        if name == "backward":
            (root / "offsets/10").write_bytes((root / "offsets/2").read_bytes())
        made[name] = MemoryStorage.of(root)
    return made


@given(
    st.sampled_from(SHAPES),
    st.integers(0, 6_000),
    st.integers(0, 140),
    st.integers(0, 2_000),
)
@settings(max_examples=600, deadline=None)
def test_a_smaller_budget_never_gives_a_safer_verdict(
    shapes: dict[str, MemoryStorage], name: str, data: int, names: int, values: int
) -> None:
    whole = inspect_checkpoint("/memory", sinks=("none",), storage=shapes[name]).verdict
    small = BoundedStorage(shapes[name], ReadBudget(data, names, values))
    found = inspect_checkpoint("/memory", sinks=("none",), storage=small).verdict
    assert found == whole or found is Verdict.CANNOT_TELL or RANK[found] > RANK[whole], (found, whole)


@given(st.integers(0, 3_000), st.integers(0, 60), st.integers(0, 400))
@settings(max_examples=200, deadline=None)
def test_a_log_is_read_to_its_end_or_not_at_all(table: MemoryStorage, data: int, names: int, values: int) -> None:
    for read in (read_delta_log, read_history, read_active_files):
        budget = ReadBudget(data, names, values)
        try:
            found = read("/memory", storage=BoundedStorage(table, budget))
        except CannotTell:
            continue
        assert found == read("/memory", storage=table)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MemoryStorage:
    return MemoryStorage.of(write_table(tmp_path_factory.mktemp("table"), 6))
