"""What happened to a table long ago counts as today: its history is read back to the query's last commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from surestart.facts.delta import CommitMark, history_evidence
from surestart.facts.evidence.read_sinks import read_sink
from surestart.facts.evidence.sink_evidence import evidence_from_history
from surestart.verdict.acceptance import NextBatch, diagnose_acceptance
from surestart.words.finding import Acceptance, Severity, verdict_of
from tests.deltalog.handmade import add, commit_file, create, info, txn, write_commit
from tests.diagnosis.stage_values import FORMER_ID, NOW, QUERY, QUERY_ID, stage, table

SINK = stage().sinks[0]
OTHER = "99999999-0000-4000-8000-000000000000"


def written(version: int, batch: int, query_id: str = QUERY_ID, query: str = QUERY) -> list[dict[str, Any]]:
    note = info("WRITE", userMetadata=CommitMark(query, query_id, batch, "ingest").as_json())
    return [note, txn(query_id, batch), add(f"{version}.parquet")]


def long_log(root: Path, event: list[dict[str, Any]] | None, others: int = 320) -> Path:
    """Batches 0..4 of the query in versions 1..5, then the event, then many commits of somebody else."""
    write_commit(root, 0, *create())
    for batch in range(5):
        write_commit(root, batch + 1, *written(batch + 1, batch))
    first = 6
    if event is not None:
        write_commit(root, first, *event)
        first += 1
    for number in range(others):
        write_commit(root, first + number, *written(first + number, number, OTHER, "another-query"))
    return root


def judge(root: Path, batch: int = 5, replayed: bool = False) -> Any:
    evidence = read_sink(SINK.__class__(SINK.kind, str(root), str(root)), count_rows=False, query_id=QUERY_ID)
    declaration = stage(SINK.__class__(SINK.kind, str(root), str(root)))
    return diagnose_acceptance(declaration, NextBatch(batch, QUERY_ID, replayed), {str(root): evidence}, NOW)[0]


RESTORE = [info("RESTORE", operationParameters={"version": "2"})]
CLONE = [info("CLONE", operationParameters={"source": "backup", "sourceVersion": "2"})]


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (RESTORE, "SINK_RESTORED"),
        (CLONE, "SINK_CLEARED"),
        ([info("TRUNCATE")], "SINK_CLEARED"),
        (written(6, 0, FORMER_ID), "SINK_IDENTITY_SUPERSEDED"),
    ],
)
def test_what_happened_before_the_newest_300_commits_is_found(
    tmp_path: Path, event: list[dict[str, Any]], code: str
) -> None:
    answer = judge(long_log(tmp_path / "t", event))

    assert {(finding.code, finding.severity) for finding in answer.findings} == {(code, Severity.UNSAFE)}


def test_a_removed_batch_in_flight_is_found_however_long_ago(tmp_path: Path) -> None:
    assert judge(long_log(tmp_path / "t", RESTORE), 4, replayed=True).acceptance is Acceptance.SKIPS


def test_a_shared_table_where_others_went_on_is_safe(tmp_path: Path) -> None:
    answer = judge(long_log(tmp_path / "t", None))

    assert (answer.acceptance, answer.findings) == (Acceptance.ACCEPTS, ())


def test_a_history_that_was_cleaned_up_behind_the_last_commit_cannot_tell(tmp_path: Path) -> None:
    root = long_log(tmp_path / "t", RESTORE)
    state = [*create()[1:], txn(QUERY_ID, 4), txn(OTHER, 193)]
    name = f"{200:020d}.checkpoint.12345678-0000-4000-8000-000000000000.json"
    (root / "_delta_log" / name).write_text("".join(json.dumps(action) + "\n" for action in state))
    for version in range(200):
        commit_file(root, version).unlink()

    answer = judge(root)

    assert answer.acceptance is Acceptance.CANNOT_TELL
    assert [finding.code for finding in answer.findings] == ["SINK_RECORD_INCOMPLETE"]


def test_commits_that_only_a_catalog_knows_are_not_an_empty_table(tmp_path: Path) -> None:
    staged = tmp_path / "t/_delta_log/_staged_commits"
    staged.mkdir(parents=True)
    write_commit(tmp_path / "made", 0, *create())
    action = "".join(json.dumps(action) + "\n" for action in [*create(), *written(0, 3)])
    (staged / f"{0:020d}.12345678-0000-4000-8000-000000000000.json").write_text(action)

    assert judge(tmp_path / "t", 0).acceptance is Acceptance.CANNOT_TELL
    # Published up to 5, handed to the catalog up to 6: the newest batch is a lower bound.
    root = long_log(tmp_path / "u", None, others=0)
    (root / "_delta_log/_staged_commits").mkdir()
    assert judge(root).acceptance is Acceptance.ACCEPTS
    (root / f"_delta_log/_staged_commits/{6:020d}.12345678-0000-4000-8000-000000000000.json").write_text(action)
    assert judge(root).acceptance is Acceptance.CANNOT_TELL


def test_an_empty_commit_at_the_begin_of_a_run_is_no_batch() -> None:
    """Databricks: epochId -1. A stop right behind it would read as "the table is at batch -1"."""

    def row(version: int, epoch: str) -> dict[str, object]:
        parameters = {"queryId": QUERY_ID, "epochId": epoch}
        return {"version": version, "operation": "STREAMING UPDATE", "operationParameters": parameters}

    begun, resumed = history_evidence([row(0, "-1")]), history_evidence([row(0, "-1"), row(1, "4"), row(2, "-1")])

    assert dict(begun.transactions) == {}
    assert resumed.transactions[QUERY_ID].version == 4
    answer = diagnose_acceptance(stage(), NextBatch(5, QUERY_ID), {"/t": evidence_from_history(resumed)}, NOW)[0]
    assert verdict_of(answer.findings) == "safe"


def test_as_a_remedy_left_it_needs_the_commits_since_the_remedy() -> None:
    newer = tuple(history_evidence([{"version": 400, "operation": "OPTIMIZE"}]).commits)
    evidence = {"/t": table({FORMER_ID: 3}, commits=newer, has_rows=True)}

    answer = diagnose_acceptance(stage(), NextBatch(0, None), evidence, NOW, settled={"/t": 12})[0]

    assert answer.acceptance is not Acceptance.ACCEPTS
