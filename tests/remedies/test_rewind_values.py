"""What a rewind reckons from a table's log, a checkpoint and the journal, as values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import environment_from_settings
from surestart.errors import CannotTell, Refused
from surestart.facts.delta.commit import Commit, CommitMark, FileChanges, build_commit
from surestart.facts.delta.commit_notes import MARKER, REWIND, note_of
from surestart.facts.evidence.sink_evidence import without_undone
from surestart.journal.journal import BEGUN, DONE, FINISHED, RELEASED, UNDOING, UNDONE, WITHDRAWN, Journal, JournalEntry
from surestart.journal.stage_start import former_ids
from surestart.journal.taken_back import read_taken_back
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.planning.rewind_table import refuse_other_writers, version_of_batch

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
DIGEST, STEP = "d" * 64, "restore:sensor_raw"
ENVIRONMENT = environment_from_settings("local", "sensor", {"root": "/data"}, environ={})
LINK = read_chain(ENVIRONMENT, build_stages({})).link("raw-ingest")
TABLE = LINK.outputs[0].table
APPEND = FileChanges(added=1)


def commit(version: int, operation: str = "WRITE", changes: FileChanges = APPEND, **more: Any) -> Commit:
    return Commit(version, version * 1000, operation, changes=changes, **more)


def batch(version: int, number: int, query_id: str = ONE) -> Commit:
    mark = CommitMark("sensor-raw-ingest", query_id, number, "raw-ingest")
    return commit(version, mark=mark, transactions=((query_id, number),))


def marker(version: int, name: str, to: int) -> Commit:
    return commit(version, user_metadata=note_of(DIGEST, f"{MARKER}{name}", to))


def restore(version: int, to: int) -> Commit:
    return commit(version, "RESTORE", FileChanges(removed=1), parameters={"version": str(to)})


def pair(version: int, number: int, query_id: str) -> Commit:
    mark = CommitMark("sensor-raw-ingest", query_id, number, "raw-ingest")
    note = json.dumps({**json.loads(mark.as_json()), **json.loads(note_of(DIGEST, f"pair:{STEP}"))})
    actions = [
        ("commitInfo", {"operation": "WRITE", "userMetadata": note}),
        ("txn", {"appId": query_id, "version": number}),
    ]
    return build_commit(version, actions, with_files=True)


# Batches 0 to 3, back to batch 1, and batch 2 under the new id.
LOG = (commit(0, "CREATE TABLE", FileChanges()), *(batch(number + 1, number) for number in range(4)))
REWOUND = (*LOG, marker(5, REWIND + STEP, 2), restore(6, 2), pair(7, 1, TWO), batch(8, 2, TWO))
UNDONE_LOG = (*REWOUND, marker(9, STEP, 4), restore(10, 4))


def versions(commits: tuple[Commit, ...]) -> list[int]:
    return [one.version for one in commits]


def test_what_a_rewind_took_back_does_not_stand_and_stands_again_once_it_is_undone() -> None:
    assert versions(without_undone(REWOUND)) == [0, 1, 2, 7, 8]
    assert versions(without_undone(UNDONE_LOG)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("number", "version"), [(-1, 0), (0, 1), (1, 2), (2, 3), (3, 4)])
def test_the_version_that_held_a_batch_is_the_one_before_the_next(number: int, version: int) -> None:
    assert version_of_batch(ENVIRONMENT, LINK, TABLE, LOG, (ONE,), number) == version


@pytest.mark.parametrize(("number", "version"), [(0, 1), (1, 7), (2, 8)])
def test_of_a_rewound_table_it_is_found_under_both_ids(number: int, version: int) -> None:
    assert version_of_batch(ENVIRONMENT, LINK, TABLE, without_undone(REWOUND), (TWO, ONE), number) == version


def test_maintenance_behind_the_batch_stays() -> None:
    log = (*LOG[:3], commit(3, "OPTIMIZE", FileChanges()), batch(4, 2))
    assert version_of_batch(ENVIRONMENT, LINK, TABLE, log, (ONE,), 1) == 3


@pytest.mark.parametrize("log", [LOG[3:], (LOG[0],)], ids=["cleaned up", "of nobody"])
def test_a_log_that_does_not_reach_back_cannot_tell(log: tuple[Commit, ...]) -> None:
    with pytest.raises(CannotTell) as said:
        version_of_batch(ENVIRONMENT, LINK, TABLE, log, (ONE,), 0)
    assert said.value.code == "CommitGone"


# Of a fork at batch 2, and of a clone by hand that the stream has gone on with from batch 5 on.
FORKED = (commit(0, "CLONE"), pair(1, 2, ONE), batch(2, 3), batch(3, 4))
CLONED = (commit(0, "CLONE"), batch(1, 5), batch(2, 6))
# Others had written there before, and the first batch brought nothing.
SHARED = (commit(0), commit(1), pair(2, 0, ONE), batch(3, 1))


@pytest.mark.parametrize(
    ("log", "oldest", "version"),
    [(FORKED, 2, 1), (CLONED, 4, 0), (LOG, -1, 0), (SHARED, -1, 1), (LOG[3:], 2, 3), ((commit(3), *LOG[4:]), 2, 3)],
    ids=["fork", "clone", "whole", "of others first", "cleaned up", "cleaned up before"],
)
def test_a_log_that_begins_later_tells_of_no_batch_before_its_beginning(
    log: tuple[Commit, ...], oldest: int, version: int
) -> None:
    """Its first version holds the rows of every batch until then: behind an older one they would come twice."""
    assert version_of_batch(ENVIRONMENT, LINK, TABLE, log, (ONE,), oldest) == version
    for number in range(-1, oldest):
        with pytest.raises(CannotTell) as said:
            version_of_batch(ENVIRONMENT, LINK, TABLE, log, (ONE,), number)
        assert said.value.code == "CommitGone"


STRANGE = {
    "an append": commit(6),
    "a deletion": commit(6, "DELETE", FileChanges(removed=1)),
    "another query": batch(6, 9, "33333333-3333-4333-8333-333333333333"),
    "a backfill": commit(6, user_metadata=note_of(DIGEST, "backfill:raw-ingest")),
    "another schema": commit(6, "ADD COLUMNS", FileChanges(), schema_text="{}"),
    "nobody knows": Commit(6, 6000, "WRITE"),
}
OURS = {
    "a later batch": batch(6, 4),
    "OPTIMIZE": commit(6, "OPTIMIZE", FileChanges()),
    "a property": commit(6, "SET TBLPROPERTIES", FileChanges(), schema_text="{}"),
    "a second write of a batch": commit(6, transactions=((f"{ONE}:late-1", 3),)),
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_table_that_somebody_else_has_changed_since_does_not_go_back(case: str) -> None:
    with pytest.raises(Refused) as said:
        refuse_other_writers(ENVIRONMENT, LINK, TABLE, (*LOG, STRANGE[case]), (ONE,), 3, has_positions=True)
    assert said.value.code == "OthersHaveWritten"
    assert "version 6" in said.value.what
    assert "plan replay raw-ingest --from-batch 3" in str(said.value.next)


@pytest.mark.parametrize("case", OURS)
def test_what_the_query_or_maintenance_did_is_no_other_writer(case: str) -> None:
    refuse_other_writers(ENVIRONMENT, LINK, TABLE, (*LOG, OURS[case]), (ONE,), 3, has_positions=True)


def test_what_lies_before_the_version_stays_whoever_wrote_it() -> None:
    refuse_other_writers(ENVIRONMENT, LINK, TABLE, (*LOG, STRANGE["an append"]), (ONE,), 6, has_positions=True)


def journal(*states: str, facts: dict[str, Any] | None = None) -> Journal:
    """The rewind's own step is its second entry; an undone one has that of the undo."""
    entries = []
    for number, state in enumerate(states):
        step, said = ("", {})
        if state == DONE:
            step, said = STEP, facts or {"restored": 2, "version": 6}
        if state == UNDONE:
            step, said = STEP, {"restored": 4, "version": 10}
        entries.append(JournalEntry(DIGEST, number, state, step, remedy="rewind", facts=said))
    return Journal(tuple(entries))


def test_a_stream_below_passes_over_what_a_rewind_took_back_until_it_is_undone() -> None:
    def found(*states: str) -> list[tuple[str, int, int]]:
        return [(one.step, one.before, one.version) for one in read_taken_back([journal(*states)], "sensor_raw")]

    stands = [(f"{REWIND}{STEP}", 2, 6)]
    assert found(BEGUN, DONE) == stands
    assert found(BEGUN, DONE, RELEASED, FINISHED) == stands
    assert found(BEGUN, DONE, FINISHED, UNDOING) == stands
    undone = [(STEP, 4, 10)]
    assert found(BEGUN, DONE, FINISHED, UNDOING, UNDONE) == undone
    assert found(BEGUN, DONE, FINISHED, UNDOING, UNDONE, WITHDRAWN) == undone
    assert read_taken_back([journal(BEGUN, DONE)], "sensor_gold") == ()


def test_the_ids_of_a_query_are_followed_back_through_its_rewinds() -> None:
    def rewind(number: int, former: str, query_id: str) -> Journal:
        facts = {"query_id": query_id, "former": former}
        return Journal(
            (
                JournalEntry(f"{number}" * 64, 0, BEGUN),
                JournalEntry(f"{number}" * 64, 1, DONE, "rewind:raw-ingest", facts=facts),
            )
        )

    journals = [rewind(1, "a", "b"), rewind(2, "b", "c")]
    assert former_ids(journals, "raw-ingest", "c") == ("c", "b", "a")
    assert former_ids(journals, "raw-ingest", "a") == ("a",)
    assert former_ids(journals, "merge-gold", "c") == ("c",)
