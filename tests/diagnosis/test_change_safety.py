"""What changed between the checkpoint and the code: allowed, unsafe or undefined, by Spark's own rules."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.verdict.change import ChangeClass
from surestart.verdict.change_safety import classify_changes, find_changes
from surestart.words.finding import Severity
from surestart.words.next_commands import Commands
from tests.diagnosis.stage_values import APPEND, FILES, MERGE, stage, write_checkpoint

SPARKS = ("3.5", "4.0", "4.2")
ALLOWED, UNDEFINED, UNSAFE = ChangeClass.ALLOWED, ChangeClass.UNDEFINED, ChangeClass.UNSAFE
CANNOT_TELL = ChangeClass.CANNOT_TELL
POSTGRES = SinkDeclaration("postgres", "sensor_gold", path="$GOLD_URL", keys=("sensor_id",))
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
# What Spark 4.0.5 pins: by these keys the writer's line is known again.
CONFS = {
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": "5",
    "spark.sql.streaming.stateStore.encodingFormat": "unsaferow",
    "spark.sql.streaming.statefulOperator.useStrictDistribution": "true",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "2",
    "spark.sql.streaming.multipleWatermarkPolicy": "min",
    "spark.sql.streaming.aggregation.stateFormatVersion": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.join.stateFormatVersion": "2",
    "spark.sql.streaming.stateStore.compression.codec": "lz4",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "false",
}


def checkpoint(tmp_path: Path, **more: object) -> Checkpoint:
    return read_checkpoint(
        str(write_checkpoint(tmp_path / "ck", planned=2, committed=2, confs=CONFS, **more))  # type: ignore[arg-type]
    )


def registered(**changes: object) -> dict[str, object]:
    """A declaration as the run history gives it back: through JSON."""
    return json.loads(json.dumps(replace(stage(), **changes).as_dict()))  # type: ignore[arg-type,no-any-return]


def test_the_same_code_has_no_change(tmp_path: Path) -> None:
    assert classify_changes(stage(), checkpoint(tmp_path), registered()) == ()


def test_before_the_first_batch_nothing_is_bound(tmp_path: Path) -> None:
    empty = read_checkpoint(str(write_checkpoint(tmp_path / "ck", planned=None, committed=None)))

    assert classify_changes(stage(sources=()), empty, registered(output_mode="update")) == ()


KAFKA = SourceDeclaration("kafka", "orders")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"sources": (FILES, FILES)}, {}, UNSAFE),
        ({"sources": (KAFKA,)}, {}, UNSAFE),
        ({"sources": (replace(FILES, target="/inbox"),)}, {}, UNSAFE),
        ({"sources": (replace(FILES, options=(("maxFilesPerTrigger", "5"),)),)}, {}, ALLOWED),
        ({"sources": (replace(FILES, options=(("pathGlobFilter", "*.json"),)),)}, {}, UNDEFINED),
        ({"sinks": (APPEND, APPEND)}, {}, CANNOT_TELL),
        ({"sinks": (APPEND,)}, {"sinks": (APPEND, POSTGRES)}, UNDEFINED),
        ({"sinks": (replace(APPEND, target="/other", path="/other"),)}, {}, UNDEFINED),
        ({"sinks": (replace(APPEND, kind="delta-builtin"),)}, {}, ALLOWED),
        ({"sinks": (replace(APPEND, kind="parquet"),)}, {}, UNDEFINED),
        ({"sinks": (replace(APPEND, identity="constant"),)}, {}, UNSAFE),
        ({"sinks": (replace(APPEND, step="late"),)}, {}, UNSAFE),
        ({"sinks": (replace(MERGE, keys=("a",)),)}, {"sinks": (replace(MERGE, keys=("b",)),)}, UNDEFINED),
        ({"output_mode": "update"}, {}, UNDEFINED),
        ({"state": ("dedup",)}, {}, CANNOT_TELL),
        ({"checkpoint": "/elsewhere/ck"}, {}, UNDEFINED),
        ({"sinks": (SinkDeclaration("parquet", "/a"),)}, {"sinks": (SinkDeclaration("kafka", "t"),)}, ALLOWED),
        ({"sinks": (SinkDeclaration("kafka", "t"),)}, {"sinks": (SinkDeclaration("parquet", "/a"),)}, UNSAFE),
        ({"sinks": (SinkDeclaration("kafka", "t"),)}, {"sinks": (SinkDeclaration("foreach", "t"),)}, ALLOWED),
        ({"sinks": (SinkDeclaration("parquet", "/a"),)}, {"sinks": (SinkDeclaration("parquet", "/b"),)}, UNSAFE),
        ({"sinks": (SinkDeclaration("kafka", "t"),)}, {"sinks": (SinkDeclaration("kafka", "u"),)}, ALLOWED),
    ],
)
def test_a_change_against_the_last_run_is_classified_by_the_guides_rule(
    tmp_path: Path, before: dict[str, object], after: dict[str, object], expected: ChangeClass
) -> None:
    changes = classify_changes(stage(**after), checkpoint(tmp_path), registered(**before))
    worst = max((change.kind for change in changes), key=[ALLOWED, UNDEFINED, CANNOT_TELL, UNSAFE].index, default=None)

    if "sources" in before and len(before["sources"]) == 2:  # type: ignore[arg-type]
        # The checkpoint itself holds one source, as the code declares: only the history knows two.
        assert changes == ()
    else:
        assert worst is expected
        assert all(change.rule.endswith(".") for change in changes)


def test_a_change_is_named_by_what_changed(tmp_path: Path) -> None:
    before = registered(sources=(KAFKA,), sinks=(replace(APPEND, step="late"),), output_mode="update")

    changes = classify_changes(stage(), checkpoint(tmp_path), before)

    assert [change.what for change in changes] == ["kind of source 0", "identity of sink 0", "output mode"]


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ((MERGE, POSTGRES), (MERGE,), ["postgres sensor_gold ($GOLD_URL)"]),
        ((MERGE, POSTGRES), (POSTGRES,), [f"delta-merge {MERGE.target}"]),
        # Moved in the same step: the merge has another table, and PostgreSQL is what is gone.
        ((MERGE, POSTGRES), (replace(MERGE, target="/b", path="/b"),), ["postgres sensor_gold ($GOLD_URL)"]),
        ((MERGE, POSTGRES), (MERGE, replace(POSTGRES, path="$OTHER_URL")), []),
        ((MERGE,), (MERGE, POSTGRES), []),
        ((POSTGRES, MERGE), (MERGE, POSTGRES), []),
    ],
)
def test_a_sink_that_the_last_run_wrote_to_is_not_left_out_in_silence(
    tmp_path: Path, before: tuple[SinkDeclaration, ...], after: tuple[SinkDeclaration, ...], gone: list[str]
) -> None:
    changes = classify_changes(stage(sinks=after), checkpoint(tmp_path), registered(sinks=before))

    left_out = [change for change in changes if change.kind is CANNOT_TELL]
    assert [change.before for change in left_out] == gone
    assert not [change for change in changes if gone and change.what.startswith("kind of sink")]
    found = find_changes(left_out, Commands("merge-gold"))
    assert [(finding.code, finding.severity) for finding in found] == [("SINK_LEFT_OUT", Severity.CANNOT_TELL)] * len(
        gone
    )


def test_a_sink_is_left_out_by_the_first_batch_of_a_new_checkpoint_too(tmp_path: Path) -> None:
    empty = read_checkpoint(str(write_checkpoint(tmp_path / "ck", planned=None, committed=None)))

    (change,) = classify_changes(stage(sinks=(MERGE,)), empty, registered(sinks=(MERGE, POSTGRES)))

    assert (change.before, change.after) == ("postgres sensor_gold ($GOLD_URL)", MERGE.target)


def test_the_checkpoint_alone_shows_another_number_and_kind_of_sources(tmp_path: Path) -> None:
    held = checkpoint(tmp_path)

    (number,) = classify_changes(stage(sources=(FILES, FILES)), held)
    (kind,) = classify_changes(stage(source=KAFKA), held)

    assert (number.what, number.before, number.after, number.kind) == ("number of sources", "1", "2", UNSAFE)
    assert (kind.what, kind.before, kind.after, kind.kind) == ("kind of source 0", "files", "kafka", UNSAFE)


def test_the_checkpoint_alone_shows_other_topics(tmp_path: Path) -> None:
    held = checkpoint(tmp_path, offset='{"orders":{"0":5}}')

    assert classify_changes(stage(source=KAFKA), held) == ()
    (change,) = classify_changes(stage(source=replace(KAFKA, target="payments")), held)
    assert (change.before, change.after, change.kind) == ("orders", "payments", UNSAFE)


def test_state_that_is_declared_and_not_there_is_unsafe_and_state_that_nobody_declared_is_not(tmp_path: Path) -> None:
    (change,) = classify_changes(stage(state=("dedup",)), checkpoint(tmp_path))
    assert (change.what, change.kind) == ("stateful operations", UNSAFE)

    metadata = tmp_path / "ck" / "state" / "0" / "_metadata"
    metadata.mkdir(parents=True)
    (metadata / "metadata").write_text(
        'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"dedupe"},'
        '"stateStoreInfo":[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}'
    )
    held = read_checkpoint(str(tmp_path / "ck"))
    # Not declared is not none: neither now, nor at the last run.
    assert classify_changes(stage(), held, registered()) == ()
    assert classify_changes(stage(state=("dedup",)), held, registered()) == ()
    (change,) = classify_changes(stage(state=("dedup", "join")), held, registered())
    assert (change.what, change.kind) == ("stateful operations", UNSAFE)
    (change,) = classify_changes(stage(), held, registered(state=("dedup",)))
    assert (change.what, change.kind) == ("declared state", CANNOT_TELL)
    (finding,) = find_changes((change,), Commands("ingest"))
    assert (finding.code, finding.severity) == ("CHANGE_UNCLEAR", Severity.CANNOT_TELL)


def test_a_pinned_setting_is_ignored_except_where_the_line_heeds_it(tmp_path: Path) -> None:
    code = stage(confs=(("spark.sql.shuffle.partitions", "8"), ("spark.sql.ansi.enabled", "true")))
    held = checkpoint(tmp_path)

    (on_4_0,) = classify_changes(code, held, spark="4.0.5")
    (on_4_1,) = [change for change in classify_changes(code, held, spark="4.1") if change.what.startswith("spark.")]

    assert (on_4_0.kind, on_4_0.ignored) == (ALLOWED, True)
    assert (on_4_1.kind, on_4_1.ignored) == (ALLOWED, False)


def test_a_start_option_that_changed_has_no_effect(tmp_path: Path) -> None:
    before = registered(sources=(replace(FILES, options=(("startingVersion", "3"),)),))

    (change,) = classify_changes(stage(), checkpoint(tmp_path), before)

    assert (change.kind, change.ignored) == (ALLOWED, True)


def test_offsets_of_version_2_are_not_for_an_older_spark(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "ck", planned=2, committed=2, confs=CONFS)
    for offsets in (folder / "offsets").iterdir():
        head = offsets.read_text().splitlines()[1]
        offsets.write_text(f'v2\n{head}\n0:{{"logOffset":0}}\n')
    held = read_checkpoint(str(folder))

    found = {spark: classify_changes(stage(), held, spark=spark) for spark in ("4.0", "4.2")}

    assert [(change.what, change.kind) for change in found["4.0"]] == [("Spark version", UNSAFE)]
    assert all(change.kind is ALLOWED for change in found["4.2"])


def test_a_newer_spark_is_allowed_and_an_older_one_is_not_promised(tmp_path: Path) -> None:
    held = checkpoint(tmp_path)

    kinds = {spark: [change.kind for change in classify_changes(stage(), held, spark=spark)] for spark in SPARKS}

    assert kinds == {"3.5": [UNDEFINED], "4.0": [], "4.2": [ALLOWED]}


def test_findings_say_no_more_than_the_class(tmp_path: Path) -> None:
    code = stage(source=KAFKA, confs=(("spark.sql.shuffle.partitions", "8"),), output_mode="update")
    changes = classify_changes(code, checkpoint(tmp_path), registered(), spark="4.0")

    found = {finding.code: finding.severity for finding in find_changes(changes, Commands("ingest"))}

    assert found == {
        "CHANGE_UNSAFE": Severity.UNSAFE,
        "CHANGE_HAS_NO_EFFECT": Severity.INFO,
        "CHANGE_UNDEFINED": Severity.ATTENTION,
    }


@pytest.mark.parametrize("junk", [{}, {"sources": 7, "sinks": [3, {"kind": 1}], "state": None}, {"sources": [[]]}])
def test_a_history_that_is_not_ours_raises_nothing(tmp_path: Path, junk: dict[str, object]) -> None:
    classify_changes(stage(), checkpoint(tmp_path), junk)
