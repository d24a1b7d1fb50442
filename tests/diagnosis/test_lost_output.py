"""Rows that were taken out of a table again: which of its commits did it, and which only look like it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Verdict
from tests.checkpoint.checkpoint_maker import QUERY_ID, kafka, make_checkpoint, offsets_text
from tests.deltalog.handmade import Action, add, create, info, remove, txn, write_commit

ALL = [remove(f"f{version}") for version in range(1, 6)]


def restore(version: int) -> Action:
    return info("RESTORE", operationParameters={"version": str(version), "timestamp": None})


def overwrite(**more: object) -> Action:
    return info("WRITE", operationParameters={"mode": "Overwrite", "partitionBy": '["day"]', **more})


def judge(root: Path, *behind: list[Action], properties: Mapping[str, str] | None = None) -> Verdict:
    """Of a stream whose five batches are versions 1..5 of its table; behind: the commits after them."""
    write_commit(root / "out", 0, *create(properties))
    for version in range(1, 6):
        body = (info("STREAMING UPDATE"), txn(QUERY_ID, version - 1), add(f"f{version}"))
        write_commit(root / "out", version, *body)
    for version, actions in enumerate(behind, start=6):
        write_commit(root / "out", version, *actions)
    checkpoint = make_checkpoint(root / "ck")
    return inspect_checkpoint(str(checkpoint), sinks=(f"delta-builtin:{root / 'out'}",)).verdict


def test_a_restore_that_another_one_took_back_has_taken_nothing(tmp_path: Path) -> None:
    assert judge(tmp_path / "a", [restore(3)]) is Verdict.UNSAFE
    assert judge(tmp_path / "b", [restore(3)], [restore(5)]) is Verdict.SAFE
    assert judge(tmp_path / "c", [restore(3)], [restore(4)]) is Verdict.UNSAFE
    assert judge(tmp_path / "d", [restore(3)], [restore(5)], [restore(2)]) is Verdict.UNSAFE
    assert judge(tmp_path / "e", [info("TRUNCATE"), *ALL], [restore(5)]) is Verdict.SAFE


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({}, Verdict.UNSAFE),
        ({"predicate": "(day = 1)"}, Verdict.SAFE),
        ({"predicate": "true"}, Verdict.UNSAFE),
        ({"isDynamicPartitionOverwrite": True}, Verdict.SAFE),
        ({"replaceUsingCols": "(id)"}, Verdict.SAFE),
        ({"replaceOnCond": "t.id = s.id"}, Verdict.SAFE),
        ({"isDynamicPartitionOverwrite": False}, Verdict.UNSAFE),
    ],
)
def test_an_overwrite_of_a_part_leaves_the_rest(tmp_path: Path, more: dict[str, object], verdict: Verdict) -> None:
    assert judge(tmp_path, [overwrite(**more), remove("other"), add("new")]) is verdict


@pytest.mark.parametrize("named", ["REFRESH", "MANUAL UPDATE", "SOMETHING NEW", None])
def test_an_operation_that_is_not_known_is_judged_by_its_files(tmp_path: Path, named: str | None) -> None:
    how = [info(named)] if named else []
    assert judge(tmp_path / "a", [*how, *ALL]) is Verdict.CANNOT_TELL
    assert judge(tmp_path / "b", [*how, remove("f1", dataChange=False)]) is Verdict.SAFE
    assert judge(tmp_path / "c", [*how, remove("f1"), add("g1")]) is Verdict.SAFE
    assert judge(tmp_path / "d", [*how, add("g1")]) is Verdict.SAFE


def test_the_empty_commit_by_which_databricks_begins_a_run_is_no_batch(tmp_path: Path) -> None:
    began = info("STREAMING UPDATE", operationParameters={"queryId": QUERY_ID, "epochId": "-1"})
    assert judge(tmp_path, [began, txn(QUERY_ID, -1)]) is Verdict.SAFE


def test_a_table_that_forgets_at_once_is_told_before_a_crash(tmp_path: Path) -> None:
    forgets = {"delta.setTransactionRetentionDuration": "interval 0 hours"}
    assert judge(tmp_path, properties=forgets) is Verdict.ATTENTION


BEGAN = 1_790_000_000_000
MINUTE = 60_000


def judge_unsigned(root: Path, writes: int, committed: int, *behind: list[Action], **said: object) -> Verdict:
    """Of a function that writes one commit without an id in each of its batches 0..5, a minute apart; behind: commits
    after them, in the time of the newest."""
    commits = [create(), *([info("WRITE", operationParameters=said), add(f"f{batch}")] for batch in range(writes))]
    for version, actions in enumerate([*commits, *behind]):
        at = BEGAN + min(version - 1, 5) * MINUTE + 100 + version
        for action in actions:
            action.get("commitInfo", {})["timestamp"] = at
        write_commit(root / "out", version, *actions)
    checkpoint = make_checkpoint(root / "ck", committed=range(committed))
    for batch in range(6):
        (checkpoint / f"offsets/{batch}").write_text(offsets_text(kafka(batch), timestamp_ms=BEGAN + batch * MINUTE))
    return inspect_checkpoint(str(checkpoint), sinks=(str(root / "out"),)).verdict


def test_a_batch_in_flight_that_a_restore_took_out_is_written_once(tmp_path: Path) -> None:
    """What SINK_HOLDS_BATCH_UNSIGNED advises, done: the next look must not lead in a circle."""
    assert judge_unsigned(tmp_path / "a", 6, 5, mode="Append") is Verdict.UNSAFE
    assert judge_unsigned(tmp_path / "b", 6, 5, [restore(5), remove("f5")], mode="Append") is Verdict.SAFE
    back = [restore(5), remove("f5")], [restore(6), add("f5")]
    assert judge_unsigned(tmp_path / "c", 6, 5, *back, mode="Append") is Verdict.UNSAFE
    assert judge_unsigned(tmp_path / "d", 6, 6, *back, mode="Append") is Verdict.SAFE
    assert judge_unsigned(tmp_path / "e", 6, 6, *back[:1], mode="Append") is Verdict.UNSAFE


def test_a_function_that_overwrites_loses_nothing_by_it(tmp_path: Path) -> None:
    for name, committed in (("at rest", 6), ("in flight", 5)):
        assert judge_unsigned(tmp_path / name, 6, committed, mode="Overwrite") is Verdict.SAFE
    part = {"mode": "Overwrite", "isDynamicPartitionOverwrite": True}
    assert judge_unsigned(tmp_path / "part", 6, 5, **part) is Verdict.SAFE
    # Rewound by three batches: cut in another way they would replace partitions with less than was in them.
    assert judge_unsigned(tmp_path / "rewound", 9, 6, **part) is Verdict.CANNOT_TELL


def restore_by_time(**metrics: str) -> Action:
    said = {"version": None, "timestamp": "2026-11-20 05:00:00.0"}
    return info("RESTORE", operationParameters=said, operationMetrics=metrics)


def test_a_restore_by_time_does_not_say_what_it_kept(tmp_path: Path) -> None:
    """Rows deleted by mistake and brought back by the time before: every batch is in its place."""
    deleted = [info("DELETE", operationParameters={"predicate": '["(id > 3)"]'}), remove("f4"), add("g4")]
    assert judge(tmp_path / "a", deleted, [restore_by_time(), remove("g4"), add("f4")]) is Verdict.CANNOT_TELL
    assert judge(tmp_path / "b", [restore_by_time(), remove("f4"), remove("f5")]) is Verdict.CANNOT_TELL
    # It went back to what the table was.
    assert judge(tmp_path / "c", [restore_by_time(numRemovedFiles="0")]) is Verdict.SAFE


@pytest.mark.parametrize("predicate", ['["true"]', '["TRUE"]', '["(1 = 1)"]', "[\"('a' = 'a')\"]", "[]"])
def test_a_condition_that_is_always_true_is_none(tmp_path: Path, predicate: str) -> None:
    said = info("DELETE", operationParameters={"predicate": predicate})
    assert judge(tmp_path / "a", [said, *ALL]) is Verdict.UNSAFE
    assert judge(tmp_path / "b", [overwrite(predicate=predicate), *ALL, add("new")]) is Verdict.UNSAFE


@pytest.mark.parametrize(
    "predicate", ["[\"(kind = 'kind')\"]", '["(id = 1)"]', '["(a = a_)"]', '["(a = a AND b = 2)"]']
)
def test_a_condition_on_rows_is_housekeeping(tmp_path: Path, predicate: str) -> None:
    said = info("DELETE", operationParameters={"predicate": predicate})
    assert judge(tmp_path, [said, remove("f1"), add("g1")]) is Verdict.SAFE


def test_a_merge_on_a_million_brackets_is_survived(tmp_path: Path) -> None:
    said = {"predicate": "[" * 30_000, "matchedPredicates": "[" * 30_000}
    assert judge(tmp_path, [info("MERGE", operationParameters=said), add("g1")]) is Verdict.SAFE
