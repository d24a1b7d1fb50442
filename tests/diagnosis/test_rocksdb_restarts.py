"""What Spark does with RocksDB state whose files are gone, beside what was said of it before: real restarts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.verdict.next_start import Outcome
from surestart.verdict.restart import predict_next_start
from tests.checkpoint.make_rocksdb import DAMAGES, KINDS


@pytest.mark.chaos
def test_what_is_said_of_rocksdb_state_is_what_happens(tmp_path: Path) -> None:
    # A process of its own: when the maintenance thread begins, it takes its pace from the first query of its JVM.
    command = [sys.executable, "-m", "tests.checkpoint.make_rocksdb", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    outcomes = json.loads(done.stdout.splitlines()[-1])

    said = {name: predict_next_start(read_checkpoint(str(tmp_path / name))).outcome for name in outcomes}

    assert len(outcomes) == len(KINDS) * len(DAMAGES)
    assert {name for name, error in outcomes.items() if error} == {
        name for name, outcome in said.items() if outcome is Outcome.FAILS
    }
    of_state = {
        name: error for name, error in outcomes.items() if error and "schema" not in name and "commit" not in name
    }
    assert all(error.startswith("CANNOT_LOAD_STATE_STORE") for error in of_state.values())
