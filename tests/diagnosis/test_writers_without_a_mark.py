"""Who wrote what nobody signed: other query ids, constant ids, and commits that are known by their times alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from surestart.declaration import SinkDeclaration
from surestart.errors import UsageError
from surestart.facts.delta import Commit
from surestart.facts.evidence.sink_evidence import SinkEvidence
from surestart.facts.evidence.sink_names import read_sink_name, with_said
from surestart.typed import surestart
from surestart.verdict.acceptance import NextBatch, SinkAcceptance, diagnose_acceptance, settle_suspicions
from surestart.words.finding import Acceptance, Finding, Severity
from tests.diagnosis.stage_values import FORMER_ID, NOW, QUERY_ID, stage, table

ACCEPTS, SKIPS = Acceptance.ACCEPTS, Acceptance.SKIPS
DUPLICATES, CANNOT_TELL = Acceptance.DUPLICATES, Acceptance.CANNOT_TELL
MINUTE = 60_000
BEGIN = NOW - 100 * MINUTE
FUNCTION = SinkDeclaration("foreach-batch", "/t", "/t", identity="unknown")
BUILTIN = SinkDeclaration("delta-builtin", "/t", "/t")
MERGED = {
    "predicate": '["(id#1L = id#2L)"]',
    "matchedPredicates": '[{"actionType":"update"}]',
    "notMatchedPredicates": '[{"actionType":"insert"}]',
}
REWOUND = Finding("REWOUND", Severity.UNSAFE, "e", "m", surestart("doctor", "orders"), "d")
INSERTED = {**MERGED, "matchedPredicates": "[]"}


def planned(last: int) -> dict[int, int]:
    """A batch a minute."""
    return {batch: BEGIN + batch * MINUTE for batch in range(last + 1)}


def write(version: int, batch: float, operation: str = "WRITE", **parameters: str) -> Commit:
    """An unsigned commit, half a minute after its batch was planned."""
    return Commit(version, int(BEGIN + batch * MINUTE + MINUTE / 2), operation, parameters)


def streamed(version: int, batch: int, query_id: str, at: float | None = None) -> Commit:
    """As Delta's own sink commits."""
    when = int(BEGIN + (batch if at is None else at) * MINUTE + MINUTE / 2)
    parameters = {"queryId": query_id, "epochId": str(batch)}
    return Commit(version, when, "STREAMING UPDATE", parameters, transactions=((query_id, batch),))


def ask(
    commits: list[Commit], batch: int, *, replayed: bool = False, sink: SinkDeclaration = FUNCTION, **more: object
) -> SinkAcceptance:
    last = batch if replayed else batch - 1
    next_batch = NextBatch(batch, QUERY_ID, replayed, **{"planned_at": planned(last), **more})  # type: ignore[arg-type]
    evidence: SinkEvidence = table(commits=tuple(commits), has_rows=True)
    (answer,) = diagnose_acceptance(stage(sink), next_batch, {sink.target: evidence}, NOW)
    return answer


def codes(answer: SinkAcceptance) -> tuple[str, ...]:
    return tuple(finding.code for finding in answer.findings)


APPENDS = [write(batch, batch) for batch in range(5)]
MERGES = [write(0, 0, "CREATE TABLE"), *(write(batch + 1, batch, "MERGE", **MERGED) for batch in range(5))]


def test_a_function_that_appends_is_harmless_at_rest_and_doubles_what_is_in_flight() -> None:
    assert (ask(APPENDS, 5).acceptance, codes(ask(APPENDS, 5))) == (ACCEPTS, ())
    written, unwritten = ask(APPENDS, 4, replayed=True), ask(APPENDS[:4], 4, replayed=True)
    assert (written.acceptance, codes(written)) == (DUPLICATES, ("SINK_HOLDS_BATCH_UNSIGNED",))
    assert (unwritten.acceptance, codes(unwritten)) == (ACCEPTS, ())


def test_a_merge_by_declared_keys_is_harmless_at_rest_and_in_flight_and_else_cannot_be_told_in_flight() -> None:
    keyed = replace(FUNCTION, keys=("id",))

    assert ask(MERGES, 5).acceptance is ACCEPTS
    assert codes(ask(MERGES, 4, replayed=True)) == ("SINK_MERGE_UNCLEAR",)
    said = ask(MERGES, 4, replayed=True, sink=keyed)
    assert (said.acceptance, codes(said), said.settles) == (ACCEPTS, ("SINK_REPLAY_MERGED",), True)
    # Rewound: batches 3 and 4 are there and come again.
    assert ask(MERGES, 3, sink=keyed).settles


@pytest.mark.parametrize(
    ("operations", "acceptance"),
    [
        (("DELETE", "WRITE"), CANNOT_TELL),
        # Killed between the two: nothing is there that could be doubled.
        (("DELETE",), CANNOT_TELL),
        (("WRITE", "DELETE"), DUPLICATES),
        (("WRITE",), DUPLICATES),
    ],
)
def test_a_function_that_deletes_before_it_writes_may_delete_what_it_writes_again(
    operations: tuple[str, ...], acceptance: Acceptance
) -> None:
    usual = operations if len(operations) > 1 else ("DELETE", "WRITE") if "DELETE" in operations else operations
    commits = [
        write(batch * 2 + place, batch + place / 10, operation, predicate='["(id = 9)"]')
        for batch in range(5)
        for place, operation in enumerate(usual if batch < 4 else operations)
    ]
    alone = replace(FUNCTION, shared=False)

    assert ask(commits, 4, replayed=True, sink=alone).acceptance is acceptance
    assert ask(commits, 4, replayed=True).acceptance is not ACCEPTS
    assert ask(commits, 4, replayed=True, sink=replace(alone, keys=("id",))).settles


def overwritten(version: int, batch: float) -> Commit:
    """As replaceWhere writes, or partitionOverwriteMode dynamic: a part of the table."""
    return write(version, batch, mode="Overwrite", predicate='["(day = 1)"]')


REPLACING = {
    "a part is overwritten": [overwritten(batch, batch) for batch in range(5)],
    "a part is deleted and appended": [
        write(batch * 2 + place, batch + place / 10, operation, predicate='["(day = 1)"]')
        for batch in range(5)
        for place, operation in enumerate(("DELETE", "WRITE"))
    ],
}


@pytest.mark.parametrize("name", REPLACING)
def test_batches_that_replace_what_they_wrote_may_come_again(name: str) -> None:
    """After a rewind, and from the beginning: rows take the place of those that are there, if the batches are cut
    alike. That is for their owner to say."""
    for sink in (FUNCTION, replace(FUNCTION, shared=False)):
        rewound = ask(REPLACING[name], 3, sink=sink, rewound=True)
        assert (codes(rewound), rewound.findings[0].severity) == (("SINK_WRITTEN_SINCE",), Severity.CANNOT_TELL)
        (settled,) = settle_suspicions([REWOUND], [rewound], can_start=True, stateful=False)
        assert settled.severity is Severity.CANNOT_TELL
        # Its state is a copy of what later batches have seen, whatever the sink does.
        (stateful,) = settle_suspicions([REWOUND], [rewound], can_start=True, stateful=True)
        assert stateful.severity is Severity.UNSAFE
        evidence = table(commits=tuple(REPLACING[name]), has_rows=True)
        (anew,) = diagnose_acceptance(stage(sink), NextBatch(0, None), {"/t": evidence}, NOW)
        assert (codes(anew), anew.acceptance) == (("SINK_FRESH_START_UNCLEAR",), CANNOT_TELL)
        assert ask(REPLACING[name], 5, sink=sink).settles


def test_rows_that_are_appended_and_once_deleted_are_doubled_by_a_rewind() -> None:
    once = [*APPENDS[:3], write(3, 2.9, "DELETE", predicate='["(id = 9)"]'), write(4, 3), write(5, 4)]
    alone = replace(FUNCTION, shared=False)

    assert ask(once, 3, sink=alone, rewound=True).acceptance is DUPLICATES
    behind = [
        write(batch * 2 + place, batch + place / 10, operation, predicate='["(id = 9)"]')
        for batch in range(5)
        for place, operation in enumerate(("WRITE", "DELETE"))
    ]
    assert ask(behind, 3, sink=alone, rewound=True).acceptance is DUPLICATES
    (anew,) = diagnose_acceptance(
        stage(alone), NextBatch(0, None), {"/t": table(commits=tuple(once), has_rows=True)}, NOW
    )
    assert anew.acceptance is DUPLICATES


def test_an_insert_of_new_keys_alone_is_known_to_be_harmless_by_its_commits() -> None:
    inserts = [write(0, 0, "CREATE TABLE"), *(write(batch + 1, batch, "MERGE", **INSERTED) for batch in range(5))]

    assert codes(ask(inserts, 4, replayed=True)) == ("SINK_REPLAY_MERGED",)
    for condition in ("((id#1L = id#2L) OR (id#1L < 7))", "(id#1L = former#2L)", "(id#1L > id#2L)", "true"):
        inserts[3] = write(3, 2, "MERGE", **{**INSERTED, "predicate": json.dumps([condition])})
        assert codes(ask(inserts, 4, replayed=True)) == ("SINK_MERGE_UNCLEAR",)


def test_commits_beyond_the_newest_batch_are_a_rewound_checkpoint_or_another_writer() -> None:
    assert codes(ask(APPENDS, 3)) == ("SINK_WRITTEN_SINCE",)
    # Somebody else has written between our batches before: it may be theirs, or a later batch's.
    beside = [write(batch * 2 + part, batch + part / 5) for batch in range(2) for part in range(2)]
    beside += [write(batch + 2, batch) for batch in range(2, 5)]
    for shared in (None, True):
        sink = replace(FUNCTION, shared=shared)
        assert ask(beside, 5, sink=sink, ended=(NOW, NOW)).settles
        assert ask([*beside, write(7, 4.2)], 5, sink=sink).acceptance is CANNOT_TELL
        # Later batches have run; each of them may have written nothing, as far as anybody knows.
        assert ask([*beside, write(7, 4.2)], 5, sink=sink, rewound=True).acceptance is CANNOT_TELL
    assert ask(APPENDS, 3, rewound=True).acceptance is DUPLICATES


@given(
    counts=st.lists(st.integers(0, 2), min_size=1, max_size=7),
    forgotten=st.integers(0, 6),
    in_flight=st.booleans(),
    rewound=st.booleans(),
    alone=st.sampled_from([False, None]),
)
def test_however_often_a_function_writes_no_batch_that_comes_again_is_safe_and_no_other_unsafe(
    counts: list[int], forgotten: int, in_flight: bool, rewound: bool, alone: bool | None
) -> None:
    """So many batches of its end the checkpoint has forgotten; when the newest of the others ended, its file tells."""
    newest = max(len(counts) - 1 - forgotten, 0)
    written = [(batch, part) for batch, count in enumerate(counts) for part in range(count)]
    assume(written)
    commits = [write(version, batch + part / 10) for version, (batch, part) in enumerate(written)]
    next_batch = newest if in_flight else newest + 1
    ended = BEGIN + newest * MINUTE + 40_000
    answer = ask(
        commits,
        next_batch,
        replayed=in_flight,
        sink=replace(FUNCTION, shared=alone),
        ended=(ended, ended),
        rewound=rewound and next_batch < len(counts),
    )
    harm = any(batch >= next_batch for batch, _ in written)

    assert not (answer.settles and harm)
    assert not (answer.acceptance is DUPLICATES and not harm)


AT_TIMES = [write(version, batch) for version, batch in enumerate((0, 2, 4))]
ENDED = BEGIN + 3 * MINUTE + MINUTE // 2 + 1_000


@pytest.mark.parametrize("alone", [False, None])
@pytest.mark.parametrize("rewound", [False, True])
def test_of_a_function_that_writes_at_times_the_end_of_its_newest_batch_tells_whose_a_commit_is(
    alone: bool | None, rewound: bool
) -> None:
    """Put back to batch 3, which wrote nothing: the one commit since is of batch 4, which comes again."""
    sink = replace(FUNCTION, shared=alone)
    sure = DUPLICATES if alone is False else CANNOT_TELL

    assert ask(AT_TIMES, 4, sink=sink, rewound=rewound, ended=(ENDED, ENDED)).acceptance is sure
    assert ask(AT_TIMES, 4, sink=sink, rewound=rewound, ended=(ENDED, ENDED + 2 * MINUTE)).acceptance is CANNOT_TELL
    assert ask(AT_TIMES, 4, sink=sink, rewound=rewound).acceptance is CANNOT_TELL
    for commits, more in ((AT_TIMES, 0), ([*AT_TIMES, write(3, 4.1)], 6_000)):
        end = ENDED + MINUTE + more
        assert ask(commits, 5, sink=sink, ended=(end, end)).settles
    # Nobody knows when batch 4 ended: it may be the last that wrote, or have written nothing.
    assert ask(AT_TIMES, 5, sink=sink).acceptance is CANNOT_TELL
    # A batch without rows has written nothing before; one that has written every time is believed without times.
    idle = frozenset({1, 3})
    assert ask(AT_TIMES, 4, sink=sink, idle=idle).acceptance is CANNOT_TELL
    assert ask(APPENDS, 5, sink=sink).settles
    assert not ask(APPENDS, 5, sink=sink, ended=(BEGIN, BEGIN)).settles


def test_times_that_do_not_reach_to_the_newest_batch_tell_nothing_of_it() -> None:
    assert ask(APPENDS[:4], 4, replayed=True, planned_at=planned(3)).acceptance is CANNOT_TELL
    assert ask(APPENDS, 5, planned_at=planned(3)).acceptance is CANNOT_TELL
    assert ask(APPENDS, 5, planned_at={}).acceptance is CANNOT_TELL


def test_a_batch_of_which_nothing_is_seen_is_not_taken_for_written() -> None:
    assert codes(ask(APPENDS[:4], 5)) == ("SINK_BATCH_NOT_SEEN",)
    assert ask(APPENDS[:4], 5, idle=frozenset({4})).acceptance is ACCEPTS


def test_a_table_made_after_the_newest_commit_lacks_what_was_written_before() -> None:
    anew = [Commit(0, NOW, "WRITE", {"mode": "ErrorIfExists"})]
    committed = (BEGIN + 4.5 * MINUTE) / 1000

    answer = ask(anew, 5, committed_at=committed)

    assert codes(answer) == ("SINK_NEVER_SAW_QUERY",)
    assert (answer.findings[0].severity, answer.word) == (Severity.UNSAFE, "ROWS MISSING")


def test_rows_that_were_taken_out_again_are_missing_whoever_signed_them() -> None:
    restored = [*APPENDS, Commit(5, NOW, "RESTORE", {"version": "2"})]

    assert codes(ask(restored, 5)) == ("SINK_RESTORED",)
    assert "3..4" in ask(restored, 5).findings[0].evidence
    # The replay of batch 4 writes it again; batch 3 is lost.
    assert "batches of this query, 3;" in ask(restored, 4, replayed=True).findings[0].evidence


def test_a_table_restored_to_where_its_checkpoint_was_rewound_is_as_if_nothing_had_been() -> None:
    restored = [*APPENDS, Commit(5, NOW, "RESTORE", {"version": "2"})]

    assert ask(restored, 3, rewound=True).settles
    # Restored further than the checkpoint was rewound: batch 2 is in neither.
    assert not ask([*APPENDS, Commit(5, NOW, "RESTORE", {"version": "1"})], 3, rewound=True).settles
    assert codes(ask(APPENDS, 3, rewound=True)) == ("SINK_WRITTEN_SINCE",)
    assert ask(APPENDS, 3, rewound=True).acceptance is DUPLICATES


def test_one_batch_that_was_replayed_before_is_no_sign_of_another_writer() -> None:
    replayed = [APPENDS[0], write(1, 0.3), *(write(batch + 1, batch) for batch in range(1, 5))]

    assert codes(ask(replayed, 3)) == ("SINK_WRITTEN_SINCE",)


@given(
    skew=st.integers(-20 * MINUTE, 20 * MINUTE),
    batch=st.integers(2, 8),
    per_batch=st.integers(1, 2),
)
def test_no_clock_of_another_driver_makes_a_written_batch_look_unwritten(skew: int, batch: int, per_batch: int) -> None:
    """The batch in flight was replayed, and written, by a driver whose clock differs by that much."""
    commits = [
        write(number * per_batch + part, number + part / 10) for number in range(batch) for part in range(per_batch)
    ]
    commits += [
        replace(write(batch * per_batch + part, batch + part / 10), timestamp=BEGIN + batch * MINUTE + 1 + part + skew)
        for part in range(per_batch)
    ]

    assert ask(commits, batch, replayed=True).acceptance in (DUPLICATES, CANNOT_TELL)


def test_a_constant_id_is_found_by_its_times_and_then_judged_by_its_number() -> None:
    def constant(*batches: int) -> list[Commit]:
        return [replace(write(batch, batch), transactions=(("my-app", batch),)) for batch in batches]

    assert ask(constant(0, 1, 2, 3, 4), 5).acceptance is ACCEPTS
    assert ask(constant(0, 1, 2, 3, 4), 4, replayed=True).replay_recognised
    assert codes(ask(constant(0, 1, 2, 3, 4), 3)) == ("SINK_CONSTANT_IDENTITY_SKIPS",)
    first = NextBatch(0, None)
    evidence = table(commits=tuple(constant(0, 1)), has_rows=True)
    named = read_sink_name("foreach-batch+app-id=my-app:/t")
    for sink, expected in ((FUNCTION, CANNOT_TELL), (named, SKIPS), (replace(FUNCTION, shared=False), SKIPS)):
        (answer,) = diagnose_acceptance(stage(sink), first, {"/t": evidence}, NOW)
        assert answer.acceptance is expected


@pytest.mark.parametrize("number", [lambda batch: 10 * batch, lambda batch: BEGIN + batch * MINUTE])
@pytest.mark.parametrize("alone", [False, None])
def test_a_constant_id_whose_numbers_are_no_batches_is_not_judged_by_them(
    number: Callable[[int], int], alone: bool | None
) -> None:
    """Ten times the batch, or the time: the next one is higher, and Delta takes it."""
    commits = [replace(write(batch, batch), transactions=(("my-app", number(batch)),)) for batch in range(5)]
    for sink in (replace(FUNCTION, shared=alone), replace(read_sink_name("/t"), shared=alone)):
        assert codes(ask(commits, 4, replayed=True, sink=sink)) == ("SINK_REPLAY_UNRECOGNISABLE",)
        assert codes(ask(commits[:4], 4, replayed=True, sink=sink)) == ()
        assert codes(ask(commits, 5, sink=sink)) == ()
        assert codes(ask(commits, 3, sink=sink)) == ("SINK_WRITTEN_SINCE",)


def test_a_declared_constant_whose_numbers_begin_at_one_is_judged_by_times() -> None:
    """The next batch has a higher number than the newest, although the newest has its own."""
    named = read_sink_name("foreach-batch+app-id=my-app:/t")
    commits = [replace(write(batch, batch), transactions=(("my-app", batch + 1),)) for batch in range(5)]
    end = BEGIN + 4 * MINUTE + 40_000

    assert ask(commits, 5, sink=named, ended=(end, end)).settles
    assert ask(commits, 4, replayed=True, sink=named).acceptance is CANNOT_TELL
    assert not ask(commits, 3, sink=named, ended=(end - MINUTE - MINUTE, end - MINUTE - MINUTE)).settles
    (anew,) = diagnose_acceptance(
        stage(named), NextBatch(0, None), {"/t": table(commits=tuple(commits), has_rows=True)}, NOW
    )
    assert anew.acceptance is SKIPS


def test_what_each_batch_writes_anew_as_a_whole_is_right_after_the_next_one() -> None:
    """An older checkpoint, and rows that somebody has deleted: the next batch takes the place of all."""
    whole = [write(batch, batch, mode="Overwrite", predicate="[]") for batch in range(5)]
    deleted = write(5, 4.2, "DELETE", predicate='["true"]')

    for commits, batch in ((whole, 5), (whole, 3), ([*whole, deleted], 5)):
        assert ask(commits, batch).settles
        assert ask(commits, batch, sink=replace(FUNCTION, shared=False)).settles
    # One that appends as well is not.
    assert not ask([*APPENDS[:2], *whole[2:], deleted], 5).settles


def test_a_table_that_each_batch_writes_anew_is_not_doubled_by_a_new_checkpoint() -> None:
    whole = [replace(one, parameters={**one.parameters, "outputMode": "Complete"}) for one in OURS]
    for commits, code in ((whole, "SINK_REPLACED_BY_EACH_BATCH"), ([*whole, *APPENDS], "SINK_FRESH_START_UNCLEAR")):
        evidence = table(commits=tuple(commits), has_rows=True)
        (answer,) = diagnose_acceptance(stage(BUILTIN), NextBatch(0, None), {"/t": evidence}, NOW)
        assert codes(answer) == (code,)


def test_an_aggregation_may_write_its_whole_result_into_a_table_that_was_made_anew() -> None:
    """In output mode complete it does, from its state, and nothing is lost. The checkpoint does not say its mode."""
    anew = table(commits=(Commit(0, NOW, "CREATE TABLE", {}),), has_rows=False)
    begun = NextBatch(5, QUERY_ID, False, planned_at=planned(4))
    for state, severity in (((), Severity.UNSAFE), (("stateStoreSave",), Severity.CANNOT_TELL)):
        (answer,) = diagnose_acceptance(replace(stage(BUILTIN), state=state), begun, {"/t": anew}, NOW)
        assert [(one.code, one.severity) for one in answer.findings] == [("SINK_NEVER_SAW_QUERY", severity)]


OURS = [streamed(batch, batch, QUERY_ID) for batch in range(3)]


def test_another_query_id_that_wrote_last_is_another_writer_or_another_self_until_somebody_says() -> None:
    commits = [*OURS, streamed(3, 0, FORMER_ID, at=3)]

    unknown = ask(commits, 3, sink=BUILTIN)
    assert (unknown.acceptance, codes(unknown)) == (CANNOT_TELL, ("SINK_OTHER_WRITER",))
    assert codes(ask(commits, 3, sink=replace(BUILTIN, shared=True))) == ()
    assert codes(ask(commits, 3, sink=replace(BUILTIN, shared=False))) == ("SINK_IDENTITY_SUPERSEDED",)


def test_a_function_that_writes_under_another_query_id_is_no_less_open() -> None:
    pairs = [replace(write(batch, batch), transactions=((QUERY_ID, batch),)) for batch in range(3)]
    theirs = replace(write(3, 3), transactions=((FORMER_ID, 0),))
    nightly = replace(write(3, 3), transactions=(("nightly-job", 0),))

    assert codes(ask([*pairs, theirs], 3)) == ("SINK_OTHER_WRITER",)
    assert codes(ask([*pairs, nightly], 3)) == ()


def test_a_query_that_wrote_between_our_batches_is_another_one() -> None:
    commits = [OURS[0], streamed(1, 0, FORMER_ID, at=0.3), *(replace(one, version=one.version + 1) for one in OURS[1:])]

    commits.append(streamed(4, 1, FORMER_ID, at=3))
    assert codes(ask(commits, 3, sink=BUILTIN)) == ()
    assert codes(ask(commits, 3, sink=replace(BUILTIN, shared=False))) == ("SINK_IDENTITY_SUPERSEDED",)


def test_a_former_self_is_known_by_the_times_of_its_batches_among_other_writers() -> None:
    theirs = "99999999-0000-4000-8000-000000000000"
    commits = [streamed(0, 7, theirs, at=0.1), *(streamed(batch + 1, batch, FORMER_ID) for batch in range(3))]
    commits.append(streamed(4, 8, theirs, at=2.2))

    for sink in (BUILTIN, read_sink_name("/t")):
        renewed = ask(commits, 2, replayed=True, sink=sink)
        assert (renewed.acceptance, codes(renewed)) == (DUPLICATES, ("SINK_IDENTITY_RENEWED",))
        assert FORMER_ID in renewed.findings[0].evidence


@pytest.mark.parametrize(
    ("name", "kind", "target", "identity", "shared", "keys"),
    [
        ("/data/t", "delta", "/data/t", "unknown", None, ()),
        ("s3://bucket/t", "delta", "s3://bucket/t", "unknown", None, ()),
        ("dbfs:/t", "delta", "dbfs:/t", "unknown", None, ()),
        ("main.sensor.gold", "delta", "main.sensor.gold", "unknown", None, ()),
        ("kafka:readings", "kafka", "readings", "none", None, ()),
        ("delta-builtin:/t", "delta-builtin", "/t", "query-id", None, ()),
        ("foreach-batch+shared+keys=a,b:/t", "foreach-batch", "/t", "unknown", True, ("a", "b")),
        ("delta-merge+alone:/t", "delta-merge", "/t", "unknown", False, ()),
        ("postgres:public.gold", "postgres", "public.gold", "query-id", None, ()),
    ],
)
def test_a_sinks_name_says_what_was_said_and_nothing_more(
    name: str, kind: str, target: str, identity: str, shared: bool | None, keys: tuple[str, ...]
) -> None:
    sink = read_sink_name(name)

    assert (sink.kind, sink.target, sink.identity, sink.shared, sink.keys) == (kind, target, identity, shared, keys)


def test_what_is_said_of_all_sinks_is_said_in_each_name() -> None:
    assert with_said("/t", ["shared"]) == "delta+shared:/t"
    assert with_said("parquet:/t", ["alone"]) == "parquet+alone:/t"
    assert read_sink_name(with_said("s3://b/t", ["new"])).new
    assert with_said("none", ["shared"]) == "none"


@pytest.mark.parametrize("name", ["kafak:readings", "delta+mine:/t", "foreach-batch+keys=:/t", "kafka:"])
def test_a_sink_that_is_not_understood_is_refused_and_not_taken_for_a_table(name: str) -> None:
    with pytest.raises(UsageError):
        read_sink_name(name)
