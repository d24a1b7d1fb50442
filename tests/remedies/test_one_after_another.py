"""Remedies one after another: after any sequence the stages go on and every row is there once, or a step is refused
beforehand.

    SEQUENCES=7,8 pytest -m chaos tests/remedies/test_one_after_another.py      these seeds
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from surestart.environment import Environment
from tests.foundation.rows import land
from tests.remedies.sequences import STAGES, Act, Lab, chosen_seeds

# What was seen: deserialize stopped at every later start, with DELTA_SOURCE_IGNORE_DELETE, then with
# DELTA_SOURCE_TABLE_IGNORE_CHANGES.
FIRST = "an undone reset of raw-ingest, then an undone replay of deserialize"
SECOND = "an undone replay of raw-ingest, then a replay of merge-gold"
SEEN: dict[str, list[Act]] = {
    FIRST: [
        ("remedy", "reset", "raw-ingest"),
        ("land", 20),
        ("run", *STAGES),
        ("undo", 0),
        ("run", *STAGES),
        ("remedy", "from-batch-1", "deserialize"),
        ("land", 20),
        ("run", *STAGES),
        ("undo", 0),
    ],
    SECOND: [
        ("remedy", "from-output", "raw-ingest"),
        ("undo", 0),
        ("land", 20),
        ("run", *STAGES),
        ("remedy", "from-output", "merge-gold"),
        ("land", 20),
    ],
}


@pytest.fixture
def lab(spark: Any, stood: Environment, tmp_path: Path, classic_only: None) -> Lab:
    return Lab(spark, stood, tmp_path, lambda readings: land(stood, readings, per_file=10))


@pytest.mark.long(
    instead="remedies/test_catalog.py::test_a_commit_that_a_stage_cannot_read_past_is_refused_by_the_tables_history"
)
@pytest.mark.parametrize("name", [FIRST, pytest.param(SECOND, marks=pytest.mark.chaos)])
def test_what_was_seen_to_stop_deserialize_for_ever(lab: Lab, name: str) -> None:
    lab.do(SEEN[name])


# A part of a table, a death on the way, a stage that stays behind, and a fill beside.
SHORT: list[Act] = [
    ("remedy", "from-batch-1", "raw-ingest"),
    ("land", 10),
    ("run", *STAGES[:2]),
    ("kill", "remedy.restore.after_commit:2", "undo", ("undo", 0)),
    ("run", "raw-ingest"),
    ("remedy", "beside", "merge-gold"),
]


@pytest.mark.long(
    instead="remedies/test_commit_once.py::test_an_undo_that_died_between_its_mark_and_its_restore_goes_on"
)
def test_a_short_sequence_ends_exact(lab: Lab) -> None:
    lab.settings = {**lab.settings, "max_table_files_per_trigger": "1"}
    lab.do(SHORT)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", chosen_seeds(20, and_rewinding=5), ids=lambda seed: f"seed{seed}")
def test_any_sequence_ends_exact(lab: Lab, seed: int) -> None:
    # Of half of them a batch ends among the files of a version.
    lab.settings = {**lab.settings, **({"max_table_files_per_trigger": "1"} if seed % 2 else {})}
    lab.do_seed(seed)
