"""A test for each finding code that a checkpoint alone can give: the damage, the code, how bad it is."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from surestart.declaration import SourceDeclaration, StageDeclaration
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.remedies.planning.rewind_table import batches_with_state
from surestart.verdict.next_start import Outcome
from surestart.verdict.restart import predict_next_start
from surestart.verdict.shapes import diagnose_checkpoint
from surestart.words.finding import Finding, Severity
from tests.checkpoint.checkpoint_maker import (
    TABLE_ID,
    add_crcs,
    commit_text,
    compact,
    delta,
    files,
    kafka,
    make_checkpoint,
    make_state,
    offsets_text,
    rate,
)
from tests.checkpoint.memory_storage import MemoryStorage
from tests.diagnosis.stage_values import stage
from tests.diagnosis.test_read_twice import joined_with_itself
from tests.state.spark_row import lz4_blocks

DOCS = Path(__file__).parents[2] / "docs" / "findings.md"
ROOMS = Path(__file__).parents[2] / "src/surestart/verdict"
UNSAFE, ATTENTION, INFO, CANNOT_TELL = Severity.UNSAFE, Severity.ATTENTION, Severity.INFO, Severity.CANNOT_TELL


def with_control(text: str) -> str:
    info = compact({"operationType": "REPARTITION", "operationInfo": "{}"})
    return text.replace("{", f'{{"controlBatchInfo":{info},', 1)


def change(path: str, edit: Callable[[str], str]) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        (root / path).write_text(edit((root / path).read_text()))

    return do


def put(path: str, content: str | bytes) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode() if isinstance(content, str) else content)

    return do


def drop(*paths: str) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        for path in paths:
            shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()

    return do


def both(*steps: Callable[[Path], object]) -> Callable[[Path], None]:
    def do(root: Path) -> None:
        for step in steps:
            step(root)

    return do


def stateful(versions: range = range(1, 6), **more: object) -> Callable[[Path], None]:
    return lambda root: make_state(root, versions, **more)  # type: ignore[arg-type]


def state_of_format_2(root: Path) -> None:
    """Two partitions, each with changelogs from version 1 on: every one names the ids of those before it."""
    for store, own in enumerate(("a1", "a2")):
        for version in range(1, 6):
            before = [{"version": number, "checkpointUniqueId": own} for number in range(version - 1, 0, -1)]
            said = compact(before).encode()
            content = lz4_blocks(b"\0\2v4" + len(said).to_bytes(2) + said)
            put(f"state/0/{store}/{version}_{own}.changelog", content)(root)


def position(text: str, batch: int = 4) -> Callable[[Path], None]:
    return put(f"offsets/{batch}", offsets_text(text))


SCHEMA_LOG = "sources/0/_schema_log_" + TABLE_ID
MOVED = "v1\n" + compact({"tableId": TABLE_ID, "sourceMetadataPath": "/the/old/place/sources/0"})
TRANSFORM = "v2\n" + compact(
    {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"},
        "stateStoreInfo": [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": ["/the/old/place/x"]}],
    }
)
DRAFT = "offsets/.5.9e3b0cd7-9b7c-4b0e-8b7a-0b6f0b0e8f3{}.tmp"

# (source, damage) -> the codes that must appear with this severity, and no worse one beside them.
CASES: dict[str, tuple[Callable[[int], str], Callable[[Path], object], str, Severity]] = {
    "in flight": (kafka, drop("commits/4"), "IN_FLIGHT", INFO),
    "metadata empty": (kafka, put("metadata", ""), "METADATA_TORN", UNSAFE),
    "metadata of something else": (kafka, put("metadata", '{"id":"hello"}'), "METADATA_TORN", UNSAFE),
    "metadata goes on": (kafka, change("metadata", lambda text: text + "x"), "METADATA_APPENDED", ATTENTION),
    "metadata deleted": (kafka, drop("metadata"), "METADATA_MISSING", ATTENTION),
    "metadata deleted in flight": (kafka, drop("metadata", "commits/4"), "METADATA_MISSING", UNSAFE),
    "offsets empty": (kafka, put("offsets/4", ""), "OFFSETS_TORN", UNSAFE),
    "offsets cut": (kafka, change("offsets/4", lambda text: text[:-5]), "OFFSETS_TORN", UNSAFE),
    "offsets without sources": (kafka, put("offsets/3", offsets_text()), "OFFSETS_TORN", UNSAFE),
    "offsets without settings": (kafka, put("offsets/4", "v1\n\n" + kafka(4)), "OFFSETS_TORN", UNSAFE),
    "an older one empty": (kafka, put("offsets/1", ""), "OFFSETS_TORN", ATTENTION),
    "offsets go on": (kafka, change("offsets/4", lambda text: text + "garbage"), "OFFSETS_APPENDED", ATTENTION),
    "commit empty": (kafka, put("commits/4", ""), "COMMITS_TORN", UNSAFE),
    "an older commit empty": (kafka, put("commits/2", ""), "COMMITS_TORN", ATTENTION),
    "commit goes on": (kafka, change("commits/4", lambda text: text + "xx"), "COMMITS_APPENDED", ATTENTION),
    "commit cut to v1": (kafka, put("commits/4", "v1"), "COMMIT_CUT_TO_VERSION", ATTENTION),
    "checksum stale": (
        kafka,
        both(add_crcs, change("commits/4", lambda text: text.replace("0", "9"))),
        "CHECKSUM_STALE",
        UNSAFE,
    ),
    "version 9": (kafka, change("offsets/4", lambda text: text.replace("v1", "v9")), "LOG_VERSION", UNSAFE),
    "version 2 for an older Spark": (kafka, put("offsets/4", "v2\n{}\n0:" + kafka(4)), "LOG_VERSION", UNSAFE),
    "state format v2": (
        kafka,
        both(
            put("commits/4", commit_text(2, stateUniqueIds={"0": [["a1"], ["a2"]]})),
            state_of_format_2,
        ),
        "STATE_FORMAT_V2",
        INFO,
    ),
    "control batch": (kafka, change("offsets/3", with_control), "CONTROL_BATCH", INFO),
    "control batch in flight": (
        kafka,
        both(change("offsets/4", with_control), drop("commits/4")),
        "CONTROL_BATCH_PENDING",
        CANNOT_TELL,
    ),
    "hole": (kafka, drop("offsets/3"), "OFFSETS_HOLE", UNSAFE),
    "a continuous trigger's": (
        kafka,
        both(*(put(f"offsets/{batch}", f"v1\n\n{kafka(batch)}") for batch in range(5))),
        "START_NOT_KNOWN",
        CANNOT_TELL,
    ),
    "one such entry among others": (kafka, put("offsets/4", f"v1\n\n{kafka(4)}"), "OFFSETS_TORN", UNSAFE),
    "the same hole in both logs": (kafka, drop("offsets/3", "commits/3"), "OFFSETS_HOLE", CANNOT_TELL),
    "an older hole in both logs": (kafka, drop("offsets/2", "commits/2"), "OFFSETS_HOLE", ATTENTION),
    "an older hole": (kafka, drop("offsets/2"), "OFFSETS_HOLE", ATTENTION),
    "one offset file left": (kafka, drop(*(f"offsets/{n}" for n in range(4))), "OFFSETS_HOLE", UNSAFE),
    "commits hole": (kafka, drop("commits/2"), "COMMITS_HOLE", ATTENTION),
    "commits behind by two": (kafka, drop("commits/3", "commits/4"), "COMMITS_BEHIND", ATTENTION),
    "commit ahead": (kafka, drop("offsets/4"), "COMMIT_AHEAD", UNSAFE),
    "offsets deleted": (kafka, drop("offsets"), "OFFSETS_DELETED", UNSAFE),
    "commits deleted": (kafka, drop("commits"), "COMMITS_DELETED", ATTENTION),
    "both deleted, list kept": (files, drop("offsets", "commits"), "LOGS_DELETED", UNSAFE),
    "both and metadata deleted, list kept": (files, drop("offsets", "commits", "metadata"), "LOGS_DELETED", UNSAFE),
    "both deleted, state kept": (kafka, both(stateful(), drop("offsets", "commits")), "LOGS_DELETED", UNSAFE),
    "both deleted, Kafka": (kafka, drop("offsets", "commits"), "LOGS_EMPTY", CANNOT_TELL),
    "all but metadata deleted": (kafka, drop("offsets", "commits", "sources"), "NEVER_STARTED", CANNOT_TELL),
    "empty folder": (kafka, drop("offsets", "commits", "sources", "metadata"), "NEVER_STARTED", ATTENTION),
    "rewound, files": (
        files,
        drop("offsets/4", "offsets/3", "commits/4", "commits/3"),
        "REWOUND",
        UNSAFE,
    ),
    "rewound by one, state": (kafka, both(stateful(), drop("offsets/4", "commits/4")), "REWOUND", UNSAFE),
    "deleted by hand on a disk": (
        kafka,
        both(add_crcs, drop("offsets/4", "commits/4")),
        "CHECKSUM_WITHOUT_FILE",
        ATTENTION,
    ),
    "copied": (kafka, put("offsets/4", offsets_text(kafka(4), timestamp_ms=1_700_000_000_000)), "COPIED", INFO),
    "moved, with schema tracking": (delta, put(f"{SCHEMA_LOG}/0", MOVED), "SCHEMA_LOG_MOVED", UNSAFE),
    "moved, with absolute state schemas": (
        kafka,
        both(stateful(), put("state/0/_metadata/v2/0", TRANSFORM)),
        "STATE_SCHEMA_MOVED",
        ATTENTION,
    ),
    "two drafts of one batch": (
        kafka,
        both(put(DRAFT.format(1), ""), put(DRAFT.format(2), "")),
        "TWO_WRITERS",
        ATTENTION,
    ),
    "a draft of a batch that is there": (
        kafka,
        put(DRAFT.format(1).replace(".5.", ".4."), ""),
        "TWO_WRITERS",
        ATTENTION,
    ),
    "planned before its predecessor": (
        kafka,
        both(position(kafka(3), 3), put("offsets/4", offsets_text(kafka(4), timestamp_ms=1_700_000_000_000))),
        "TWO_WRITERS",
        ATTENTION,
    ),
    "a dead writer's draft": (kafka, put(DRAFT.format(1), ""), "LEFTOVERS", INFO),
    "strange files": (kafka, put("notes.txt", "x"), "STRANGE_FILES", ATTENTION),
    "a name that Java takes for a number": (kafka, put("offsets/+9", "x"), "NAME_MISREAD", UNSAFE),
    "an older such name": (kafka, put("offsets/002", "x"), "NAME_MISREAD", ATTENTION),
    "a folder in a log": (kafka, lambda root: (root / "commits/5").mkdir(), "FOLDER_IN_LOG", UNSAFE),
    "a table's folder": (kafka, put("_delta_log/00000000000000000000.json", "{}"), "CHECKPOINT_IN_TABLE", ATTENTION),
    "foreign offsets": (kafka, position(files(4)), "FOREIGN_ENTRY", UNSAFE),
    "foreign topics": (kafka, position(compact({"payments": {"0": 5}})), "FOREIGN_ENTRY", UNSAFE),
    "another table": (delta, position(delta(4).replace("1111", "9999")), "FOREIGN_ENTRY", UNSAFE),
    "another number of sources": (kafka, put("offsets/4", offsets_text(kafka(4), kafka(4))), "FOREIGN_ENTRY", UNSAFE),
    "position lost": (kafka, position("-"), "POSITION_VOID", UNSAFE),
    "position moved back": (kafka, position(kafka(1)), "POSITION_BACKWARD", UNSAFE),
    "a number cut off": (rate, position("14"), "POSITION_BACKWARD", UNSAFE),
    "a table's version moved back": (delta, position(delta(1)), "POSITION_BACKWARD", UNSAFE),
    "an older position moved back": (kafka, position(kafka(0), 2), "POSITION_BACKWARD", ATTENTION),
    "position impossible": (kafka, position(compact({"orders": {"0": -7, "1": 60}})), "POSITION_INVALID", UNSAFE),
    "file list deleted": (files, drop("sources"), "FILE_LIST_DAMAGED", UNSAFE),
    "file list behind": (files, drop("sources/0/4"), "FILE_LIST_DAMAGED", UNSAFE),
    "file list with a hole": (files, drop("sources/0/2"), "FILE_LIST_DAMAGED", UNSAFE),
    "file list cut": (files, change("sources/0/3", lambda text: text[:-9]), "FILE_LIST_DAMAGED", UNSAFE),
    "file list cut to v1": (files, put("sources/0/3", "v1"), "FILE_LIST_DAMAGED", UNSAFE),
    "rate's start time empty": (rate, put("sources/0/0", ""), "SOURCE_NOTES_DAMAGED", UNSAFE),
    "Kafka's initial offsets torn": (kafka, put("sources/0/0", b"\x00v1\n{"), "KAFKA_INITIAL_OFFSETS", ATTENTION),
    "Kafka's initial offsets gone, batch 0 in flight": (
        kafka,
        both(drop("sources", "commits"), drop(*(f"offsets/{n}" for n in range(1, 5)))),
        "KAFKA_INITIAL_OFFSETS",
        UNSAFE,
    ),
    "Auto Loader": (
        lambda batch: f'{{"seqNum":{10 + batch},"sourceVersion":1}}',
        put("sources/0/rocksdb/000001.sst", "x"),
        "AUTO_LOADER_OPAQUE",
        INFO,
    ),
    "state version gone": (kafka, both(stateful(), drop("state/0/1/5.delta")), "STATE_MISSING", UNSAFE),
    "state partition gone": (kafka, both(stateful(), drop("state/0/1")), "STATE_MISSING", UNSAFE),
    "state version of the batch in flight gone": (
        kafka,
        both(stateful(), drop("commits/4", "state/0/1/4.delta")),
        "STATE_MISSING",
        UNSAFE,
    ),
    "state file empty": (kafka, both(stateful(), put("state/0/1/5.delta", "")), "STATE_DAMAGED", ATTENTION),
    "unreadable": (
        kafka,
        both(drop("offsets/2"), lambda root: (root / "offsets/2").symlink_to("/etc/passwd")),
        "CHECKPOINT_UNREADABLE",
        CANNOT_TELL,
    ),
}
# Beside these a worse finding stands, whose case is its own.
WORSE_BESIDE = {"state file empty", "deleted by hand on a disk", "copied"}


@pytest.mark.parametrize("name", CASES)
def test_a_shape_has_its_finding(tmp_path: Path, name: str) -> None:
    source, damage, code, severity = CASES[name]
    root = make_checkpoint(tmp_path / "sensor-raw-ingest", source=source)
    damage(root)
    findings = diagnose_checkpoint(read_checkpoint(str(root)))
    assert (code, severity) in {(finding.code, finding.severity) for finding in findings}
    if name not in WORSE_BESIDE and severity in (INFO, ATTENTION):
        assert {finding.severity for finding in findings} <= {INFO, severity}
    for finding in findings:
        check_words(finding)


def check_words(finding: Finding) -> None:
    assert finding.evidence
    assert finding.meaning
    assert finding.next
    assert finding.do_not or finding.severity is INFO
    assert re.match(r"(surestart |spark-sql )", str(finding.next)), str(finding.next)


@pytest.mark.parametrize("source", [kafka, files, delta, rate])
@pytest.mark.parametrize("batches", [1, 2, 5, 40, 130])
def test_a_healthy_checkpoint_has_no_finding(tmp_path: Path, source: Callable[[int], str], batches: int) -> None:
    root = make_checkpoint(tmp_path, planned=range(batches), committed=range(batches), source=source)
    make_state(root, range(1, batches + 1))
    add_crcs(root)
    assert diagnose_checkpoint(read_checkpoint(str(root))) == ()


def test_a_checkpoint_before_its_first_batch_is_no_alarm(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path, planned=(), committed=())
    (root / "sources/0/0").unlink()
    (root / "sources/0").rmdir()
    assert [finding.severity for finding in diagnose_checkpoint(read_checkpoint(str(root)))] == [INFO]


def test_an_absent_checkpoint_and_a_folder_that_is_none(tmp_path: Path) -> None:
    (absent,) = diagnose_checkpoint(read_checkpoint(str(tmp_path / "no-such")))
    assert (absent.code, absent.severity) == ("CHECKPOINT_ABSENT", ATTENTION)
    (tmp_path / "sensor-raw-ingest").mkdir()
    (other,) = diagnose_checkpoint(read_checkpoint(str(tmp_path)))
    assert (other.code, other.severity) == ("NOT_A_CHECKPOINT", CANNOT_TELL)


def declaration(*kinds: str, state: tuple[str, ...] = ()) -> StageDeclaration:
    sources = tuple(SourceDeclaration(kind, "orders") for kind in kinds)
    return StageDeclaration("raw-ingest", "sensor-raw-ingest", "/ck", sources, (), state=state)


def test_the_declared_sources_are_compared_with_the_checkpoints(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(make_checkpoint(tmp_path)))
    assert diagnose_checkpoint(checkpoint, declaration("kafka")) == ()
    for kinds, code in ((("kafka", "kafka"), "SOURCE_COUNT_CHANGED"), (("files",), "SOURCE_KIND_CHANGED")):
        findings = diagnose_checkpoint(checkpoint, declaration(*kinds))
        assert (code, UNSAFE) in {(finding.code, finding.severity) for finding in findings}


def test_declared_state_that_is_gone_is_missed(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(make_checkpoint(tmp_path)))
    codes = {finding.code for finding in diagnose_checkpoint(checkpoint, declaration("kafka", state=("dedup by id",)))}
    assert "STATE_MISSING" in codes


def test_a_failing_start_never_goes_without_an_unsafe_finding(tmp_path: Path) -> None:
    """Also where no rule has a name for it."""
    root = make_checkpoint(tmp_path)
    (root / "sources").rename(tmp_path / "away")
    (root / "sources").write_text("a file")
    findings = diagnose_checkpoint(read_checkpoint(str(root)))
    assert ("START_FAILS", UNSAFE) in {(finding.code, finding.severity) for finding in findings}


def old_state(root: Path, present: tuple[int, ...], key: str | None) -> Path:
    """State as Spark 3.5 writes it, of a query with two partitions: no operator metadata, a schema in partition 0."""
    make_checkpoint(root)
    for partition in present:
        home = root / f"state/0/{partition}"
        (home / "_metadata").mkdir(parents=True)
        for version in range(1, 6):
            (home / f"{version}.delta").write_bytes(b"state of some length")
    if key is not None:
        columns = [{"name": "k", "type": key, "nullable": True, "metadata": {}}] if key else []
        fields = compact({"type": "struct", "fields": columns})
        value = '{"type":"struct","fields":[]}'
        chunks = [b"\x00\x00\x00\x01" + len(text).to_bytes(2, "big") + text.encode() for text in (fields, value)]
        (root / "state/0/0/_metadata/schema").write_bytes(b"\x00\x02v2" + b"".join(chunks))
    return root


@pytest.mark.parametrize(
    ("present", "key", "found"),
    [
        ((0, 1), "string", set()),
        ((0,), "string", {("STATE_MISSING", UNSAFE)}),
        ((1,), "string", {("STATE_MISSING", UNSAFE)}),
        ((0,), "", set()),  # a global aggregation
        ((0,), "void", set()),  # a limit
        ((0,), None, {("STATE_PARTITIONS_UNCLEAR", CANNOT_TELL)}),
    ],
)
def test_a_partition_that_is_gone_is_missed_where_no_operator_says_how_many_there_are(
    tmp_path: Path, present: tuple[int, ...], key: str | None, found: set[tuple[str, Severity]]
) -> None:
    """Seen on Spark 3.5.9: one of two partitions deleted, and the start fails."""
    root = old_state(tmp_path / "ck", present, None if 0 not in present else key)
    findings = diagnose_checkpoint(read_checkpoint(str(root)), spark="3.5")
    assert {
        (finding.code, finding.severity) for finding in findings if finding.severity in (UNSAFE, CANNOT_TELL)
    } == found


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (b"\x00\x02v2\x00\x00\x00\x01\x05", {("STATE_MISSING", UNSAFE)}),
        (b"", {("STATE_MISSING", UNSAFE)}),
        (b"\x00\x02v9 and more", {("CHECKPOINT_UNREADABLE", CANNOT_TELL)}),
    ],
)
def test_a_schema_that_no_start_can_read_is_no_mere_note(
    tmp_path: Path, schema: bytes, found: set[tuple[str, Severity]]
) -> None:
    """Seen on 4.1.4: cut or empty, every start fails before its first row; without any schema it starts."""
    root = old_state(tmp_path / "ck", (0, 1), "string")
    (root / "state/0/0/_metadata/schema").write_bytes(schema)
    findings = diagnose_checkpoint(read_checkpoint(str(root)), spark="4.1")
    assert {
        (finding.code, finding.severity) for finding in findings if finding.severity in (UNSAFE, CANNOT_TELL)
    } == found


def test_what_depends_on_the_file_manager_is_said_of_both(tmp_path: Path) -> None:
    """Measured on 3.5 and 4.2: Spark's default reads a log without its checksum and trips over one that is left."""
    stale = make_checkpoint(tmp_path / "stale")
    add_crcs(stale)
    (stale / "metadata").write_text((stale / "metadata").read_text() + "\n")
    start = predict_next_start(read_checkpoint(str(stale)), "3.5")
    assert (start.outcome, start.otherwise and start.otherwise.sentence) == (Outcome.FAILS, "starts batch 5")
    assert "; with Spark's default file manager: starts batch 5" in start.sentence

    left = make_checkpoint(tmp_path / "left")
    add_crcs(left)
    (left / "commits/4").unlink()
    start = predict_next_start(read_checkpoint(str(left)), "4.2")
    assert (start.outcome, start.batch) == (Outcome.REPLAYS, 4)
    assert start.otherwise is not None
    assert start.otherwise.sentence.startswith("fails: Multiple streaming queries are concurrently using")


def test_state_too_wide_to_list_over_a_network_is_not_called_complete(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    make_state(root, range(1, 6), partitions=1_100)
    far = MemoryStorage.of(root)
    assert diagnose_checkpoint(read_checkpoint("/far", far)) == ()
    far.kind = "fsspec"
    findings = diagnose_checkpoint(read_checkpoint("/far", far))
    assert [(finding.code, finding.severity) for finding in findings] == [("STATE_NOT_LISTED", CANNOT_TELL)]


def codes_in_the_source() -> set[str]:
    mine = (
        "shapes.py",
        "shape_damage.py",
        "shape_gaps.py",
        "shape_sources.py",
        "shape_positions.py",
        "shape_traces.py",
        "inspection.py",
    )
    text = "".join((ROOMS / name).read_text() for name in mine)
    return set(re.findall(r'"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+)"', text)) - {"CONCURRENT_STREAM_LOG_UPDATE"}


def test_every_code_has_its_test() -> None:
    here = Path(__file__).read_text() + (Path(__file__).parent / "test_inspect.py").read_text()
    untested = {code for code in codes_in_the_source() if code not in here}
    assert not untested, untested


def test_every_code_has_its_section_in_the_docs() -> None:
    sections = set(re.findall(r"^### `?([A-Z_0-9]+)`?", DOCS.read_text(), re.M))
    assert codes_in_the_source() <= sections, sorted(codes_in_the_source() - sections)


def test_state_that_was_deleted_whole_leaves_a_trace_in_the_folders_own_time(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck")
    newest = max(path.stat().st_mtime for path in root.rglob("*"))

    def codes(changed: float, declaration: StageDeclaration | None = None) -> dict[str, Severity]:
        os.utime(root, (changed, changed))
        return {one.code: one.severity for one in diagnose_checkpoint(read_checkpoint(str(root)), declaration)}

    assert codes(newest + 5)["TAKEN_FROM_CHECKPOINT"] is CANNOT_TELL
    # A stream that others run is declared, and its state need not be: Spark before 4.0 wrote no names of operators.
    declared = stage()
    assert "TAKEN_FROM_CHECKPOINT" not in codes(newest + 5, declared)
    assert codes(newest + 5, replace(declared, foreign=True))["TAKEN_FROM_CHECKPOINT"] is CANNOT_TELL
    assert "TAKEN_FROM_CHECKPOINT" not in codes(newest + 5, replace(declared, foreign=True, state=("dedupe",)))
    assert "TAKEN_FROM_CHECKPOINT" not in codes(newest)
    # With its state in place, whatever was taken was not that.
    make_state(root, range(1, 6))
    assert "TAKEN_FROM_CHECKPOINT" not in codes(newest + 500)


def test_a_state_folder_that_holds_nothing_is_no_query_without_state(tmp_path: Path) -> None:
    """Seen on 3.5 to 4.2: a query without state never makes the folder."""
    root = make_checkpoint(tmp_path / "ck")
    (root / "state").mkdir()
    found = {one.code: one.severity for one in diagnose_checkpoint(read_checkpoint(str(root)))}
    assert found == {"STATE_EMPTY": CANNOT_TELL}
    assert batches_with_state(read_checkpoint(str(root)), range(5)) == ()
    # Where it is known that the query keeps state, it is gone.
    found = {
        one.code: one.severity
        for one in diagnose_checkpoint(read_checkpoint(str(root)), declaration("kafka", state=("dedup by id",)))
    }
    assert found["STATE_MISSING"] is UNSAFE
    # The first batch makes the folder before it makes what is in it.
    begun = make_checkpoint(tmp_path / "begun", planned=(0,), committed=())
    (begun / "state").mkdir()
    assert [one.code for one in diagnose_checkpoint(read_checkpoint(str(begun)))] == ["IN_FLIGHT"]


def test_a_start_that_nobody_knows_is_not_safe(tmp_path: Path) -> None:
    found = diagnose_checkpoint(read_checkpoint(str(joined_with_itself(tmp_path))))
    assert [(one.code, one.severity) for one in found] == [("START_NOT_KNOWN", Severity.CANNOT_TELL)]
