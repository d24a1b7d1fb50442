"""What the next batch wants to read, and whether it is there: Delta logs and folders on disk, Kafka as values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from surestart.declaration import SourceDeclaration
from surestart.facts.checkpoint.positions import DeltaPosition, FilesPosition
from surestart.facts.checkpoint.snapshot import CheckpointSource, read_checkpoint
from surestart.facts.delta import Commit
from surestart.facts.delta.commit import FileChanges
from surestart.facts.delta.commit_notes import note_of
from surestart.facts.delta.schema_change import changed_columns
from surestart.facts.delta.unread_commits import PassedCommits, TableReading
from surestart.facts.evidence.source_evidence import (
    DeltaSourceEvidence,
    NextRead,
    read_delta_source,
    read_file_source,
    read_listed_paths,
)
from surestart.facts.storage.open_storage import open_storage
from surestart.verdict.ask_kafka import find_kafka_expiry
from surestart.verdict.delta_source_findings import find_delta_source, open_where_not_said
from surestart.verdict.kafka_findings import Sample, confirm_by_resampling
from surestart.verdict.source_findings import find_file_source
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands
from tests.deltalog.handmade import SCHEMA, add, commit_file, create, info, remove, write_commit, write_table
from tests.diagnosis.stage_values import DAY, NOW, write_checkpoint

COMMANDS = Commands("ingest", "prod")
COMMITTED_AT = 1_700_000_000_000


def judge(
    table: Path,
    version: int,
    *,
    index: int = -1,
    table_id: str = "T",
    initial: bool = False,
    options: tuple[tuple[str, str], ...] = (),
    now: int = COMMITTED_AT + DAY,
    reading: TableReading | None = None,
) -> tuple[Finding, ...]:
    position = DeltaPosition(table_id, version, index, initial)
    span = NextRead(CheckpointSource("0", "delta", None, position), replayed=False)
    source = SourceDeclaration("delta", str(table), str(table), options)
    return find_delta_source(source, span, read_delta_source(str(table), position), COMMANDS, now, reading)


def codes(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    return tuple(finding.code for finding in findings)


def test_a_source_with_new_appends_has_no_finding(tmp_path: Path) -> None:
    assert judge(write_table(tmp_path / "t", 5), 3) == ()


def test_a_stream_at_the_tables_end_has_no_finding(tmp_path: Path) -> None:
    assert judge(write_table(tmp_path / "t", 5), 6) == ()


def test_a_file_of_an_unread_commit_that_was_rewritten_and_vacuumed_is_gone(tmp_path: Path) -> None:
    """A stream that stood still while its table was tidied up: Spark reads the commit's own file, not the new one."""
    table = write_table(tmp_path / "t", 3)
    for version, name in ((4, "early.parquet"), (5, "part a%20b.parquet")):
        write_commit(table, version, info("WRITE"), add(name.replace(" ", "%20").replace("%20b", "%2520b")))
        (table / name).touch()
    removed = [{"remove": {"path": "early.parquet", "dataChange": False}}, remove("part%20a%2520b.parquet")]
    removed[1]["remove"]["dataChange"] = False
    write_commit(table, 6, info("OPTIMIZE"), *removed, {"add": {**add("new.parquet")["add"], "dataChange": False}})
    assert judge(table, 4) == ()

    (table / "early.parquet").unlink()
    found = judge(table, 4)
    assert (codes(found), found[0].severity) == (("SOURCE_FILES_GONE",), Severity.UNSAFE)
    assert "version 4" in found[0].evidence
    # It has read that one: the next file is there.
    assert judge(table, 5) == ()
    (table / "part a%20b.parquet").unlink()
    assert codes(judge(table, 5)) == ("SOURCE_FILES_GONE",)
    assert judge(table, 6) == ()
    # A file in the place of a folder, such as one that nobody may look into, is no answer.
    (table / "part a%20b.parquet").mkdir()
    assert codes(judge(table, 5)) == ("SOURCE_NOT_READ",)


def test_another_table_under_the_same_name_is_refused(tmp_path: Path) -> None:
    found = judge(write_table(tmp_path / "t", 5), 3, table_id="old")

    assert codes(found) == ("SOURCE_TABLE_REPLACED",)
    assert found[0].severity is Severity.UNSAFE


def test_a_source_table_that_is_gone_is_refused(tmp_path: Path) -> None:
    assert codes(judge(tmp_path / "t", 3)) == ("SOURCE_MISSING",)


def test_commits_that_vanished_behind_the_position_are_refused_and_counted(tmp_path: Path) -> None:
    found = judge(write_table(tmp_path / "t", 5), 9)

    assert codes(found) == ("SOURCE_COMMITS_VANISHED",)
    assert "Commits 6..8" in found[0].meaning


def cleaned(tmp_path: Path) -> Path:
    """Versions 0..3 cleaned up: a table whose checkpoint stands at version 4."""
    import zipfile

    from tests.deltalog.make_tables import ARCHIVE

    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("classic/")])
    table = tmp_path / "classic"
    newest = max(int(file.name[:20]) for file in (table / "_delta_log").glob("0*.checkpoint.parquet"))
    for version in range(newest):
        commit_file(table, version).unlink()
    return table


def test_history_that_was_cleaned_up_before_it_was_read_is_refused_and_counted(tmp_path: Path) -> None:
    table = cleaned(tmp_path)
    table_id = json.loads(commit_table_id(table))
    found = judge(table, 1, table_id=table_id)

    assert codes(found) == ("SOURCE_HISTORY_GONE",)
    assert "commits are gone" in found[0].evidence
    assert str(found[0].next) == "surestart plan replay ingest -e prod --from-output -o plan.json"


def commit_table_id(table: Path) -> str:
    from surestart.facts.delta import read_delta_log

    return json.dumps(read_delta_log(str(table)).table_id)


def rewritten(tmp_path: Path) -> Path:
    table = write_table(tmp_path / "t", 3)
    write_commit(table, 4, info("MERGE"), remove("f1.parquet"), add("g.parquet"))
    return table


def test_an_unread_commit_that_rewrote_rows_stops_the_stream(tmp_path: Path) -> None:
    found = judge(rewritten(tmp_path), 3)

    assert codes(found) == ("SOURCE_REWRITTEN",)
    assert "version 4 (MERGE, 2023-11-14 22:13 UTC)" in found[0].evidence


def test_a_commit_that_was_read_already_stops_nothing(tmp_path: Path) -> None:
    table = rewritten(tmp_path)

    assert judge(table, 5) == ()
    assert judge(table, 4, index=0) == ()
    assert judge(table, 4, index=-1, initial=True) == ()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((("skipChangeCommits", "true"),), ("SOURCE_CHANGES_SKIPPED",)),
        ((("ignoreChanges", "true"),), ("SOURCE_CHANGES_REPEATED",)),
        ((("ignoreDeletes", "true"),), ("SOURCE_REWRITTEN",)),
        ((("readChangeFeed", "true"),), ()),
    ],
)
def test_the_stages_options_decide_what_a_rewriting_commit_does(
    tmp_path: Path, options: tuple[tuple[str, str], ...], expected: tuple[str, ...]
) -> None:
    assert codes(judge(rewritten(tmp_path), 3, options=options)) == expected


def test_what_the_reader_of_somebody_elses_stream_passes_is_not_known_until_it_is_said(tmp_path: Path) -> None:
    """A checkpoint keeps no option: a stream with skipChangeCommits looks like one that stops."""
    table = rewritten(tmp_path)
    for options, severities in (
        ((), [Severity.CANNOT_TELL]),
        ((("maxFilesPerTrigger", "1"),), [Severity.CANNOT_TELL]),
        ((("skipChangeCommits", "false"),), [Severity.UNSAFE]),
        ((("skipChangeCommits", "true"),), [Severity.ATTENTION]),
        ((("readChangeFeed", "true"),), []),
    ):
        source = SourceDeclaration("delta", str(table), str(table), options)
        found = tuple(open_where_not_said(source, judge(table, 3, options=options), COMMANDS))
        assert [one.severity for one in found] == severities
    gone = judge(tmp_path / "gone", 3)
    assert tuple(open_where_not_said(source, gone, COMMANDS)) == gone


def test_an_unread_delete_stops_the_stream_unless_it_may_be_ignored(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 3)
    write_commit(table, 4, info("DELETE"), remove("f1.parquet"))

    assert codes(judge(table, 3)) == ("SOURCE_ROWS_DELETED",)
    assert judge(table, 3, options=(("ignoreDeletes", "true"),)) == ()


def test_compaction_stops_nothing(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 3)
    write_commit(table, 4, info("OPTIMIZE"), remove("f1.parquet", dataChange=False), add("g", dataChange=False))

    assert judge(table, 3) == ()


def test_a_restore_that_brings_rows_back_is_refused_where_their_removal_was_met(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 3)
    write_commit(table, 4, info("DELETE"), remove("f1.parquet"))
    write_commit(table, 5, info("RESTORE"), add("f1.parquet"))
    ignores = (("ignoreDeletes", "true"),)

    assert codes(judge(table, 3)) == ("SOURCE_ROWS_DELETED", "SOURCE_ROWS_RETURN")
    assert [one.severity for one in judge(table, 3, options=ignores)] == [Severity.UNSAFE]
    assert [one.severity for one in judge(table, 5)] == [Severity.CANNOT_TELL], "the checkpoint may be younger"


DIGEST, STEP = "1" * 64, "clear:t"
PASSING = TableReading(passed=(PassedCommits(3, 6, DIGEST, STEP),))
# Whether the RESTORE itself says whose it is, as where a session takes the setting, or a mark in front of it.
NOTED = pytest.mark.parametrize("noted", [True, False], ids=["its own note", "a mark before it"])


def undone(tmp_path: Path, noted: bool = False) -> Path:
    """Version 4 is a remedy's clearing, 5 the mark, 6 its undo: with a removal in 4 and 6."""
    table = write_table(tmp_path / "t", 3)
    own = {"userMetadata": note_of(DIGEST, f"undo:{STEP}")} if noted else {"operationParameters": {"version": "3"}}
    marker = note_of(DIGEST, f"marker:{STEP}", None if noted else 3)
    write_commit(table, 4, info("WRITE"), remove("f1.parquet"))
    write_commit(table, 5, info("WRITE", userMetadata=marker), add("marker"))
    write_commit(table, 6, info("RESTORE", **own), remove("marker"), add("f1.parquet"))
    return table


@NOTED
def test_what_the_start_passes_over_after_an_undo_is_no_finding_and_what_comes_later_is(
    tmp_path: Path, noted: bool
) -> None:
    table = undone(tmp_path, noted)

    assert codes(judge(table, 3)) == ("SOURCE_REWRITTEN", "SOURCE_ROWS_DELETED"), "nothing passes over it"
    assert judge(table, 3, reading=PASSING) == ()
    another = TableReading(passed=(PassedCommits(3, 6, "2" * 64, STEP),))
    assert len(judge(table, 3, reading=another)) == 2, "it is another table"
    write_commit(table, 7, info("MERGE"), remove("f2.parquet"), add("g.parquet"))
    assert codes(judge(table, 3, reading=PASSING)) == ("SOURCE_REWRITTEN",), "its new rows would be left out"


def test_a_restore_to_another_version_than_the_mark_names_is_somebodys(tmp_path: Path) -> None:
    table = undone(tmp_path)
    write_commit(table, 6, info("RESTORE", operationParameters={"version": "2"}), remove("f2"), add("f1.parquet"))

    assert "SOURCE_REWRITTEN" in codes(judge(table, 3, reading=PASSING))


@NOTED
def test_a_stage_that_has_read_what_was_taken_back_is_refused(tmp_path: Path, noted: bool) -> None:
    """One that passes over it may stand there too; from 6 on the mark is no more to be seen."""
    table = undone(tmp_path, noted)

    for at in (5, 6):
        for has_read, wanted in ((True, ("SOURCE_READ_UNDONE",)), (False, ())):
            assert (
                codes(judge(table, at, reading=TableReading(passed=(PassedCommits(3, 6, DIGEST, STEP, has_read),))))
                == wanted
            )
    another = TableReading(passed=(PassedCommits(3, 6, "2" * 64, STEP, has_read=True),))
    assert "SOURCE_READ_UNDONE" not in codes(judge(table, 5, reading=another))


def test_a_remedys_begin_is_held_against_the_commits_behind_it(tmp_path: Path) -> None:
    table = undone(tmp_path)
    begun = TableReading((("startingVersion", "4"),))
    span = NextRead(CheckpointSource("0", "delta", None, None), replayed=False)
    source = SourceDeclaration("delta", str(table), str(table))
    evidence = read_delta_source(str(table), None, begin=begun.begin)

    assert codes(find_delta_source(source, span, evidence, COMMANDS, 1_700_000_000_000, begun)) == (
        "SOURCE_REWRITTEN",
        "SOURCE_ROWS_DELETED",
    )


def test_what_was_not_looked_at_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = rewritten(tmp_path)
    monkeypatch.setattr("surestart.facts.evidence.source_evidence.COMMITS", 2)

    (found,) = judge(table, 1)

    assert (found.code, found.severity) == ("SOURCE_NOT_READ_TO_END", Severity.CANNOT_TELL)
    assert "1..4 those after 2" in found.evidence
    assert codes(judge(table, 3)) == ("SOURCE_REWRITTEN",)


def test_a_rewrite_far_behind_the_position_is_found(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 1500)
    write_commit(table, 1501, info("UPDATE"), remove("f1.parquet"), add("g.parquet"))

    assert codes(judge(table, 1)) == ("SOURCE_REWRITTEN",)


def test_history_that_does_not_say_what_it_removed_is_not_taken_for_an_append() -> None:
    commit = Commit(4, COMMITTED_AT, "WRITE", changes=None)
    evidence = DeltaSourceEvidence(table_id="T", latest_version=4, pending=(commit,))
    span = NextRead(CheckpointSource("0", "delta", None, DeltaPosition("T", 4, -1, False)), replayed=False)

    (found,) = find_delta_source(SourceDeclaration("delta", "t"), span, evidence, COMMANDS, 0)

    assert (found.code, found.severity) == ("SOURCE_COMMIT_UNCLEAR", Severity.CANNOT_TELL)


def test_a_changed_schema_whose_former_one_is_gone_cannot_be_judged_where_columns_can_be_renamed() -> None:
    commit = Commit(4, COMMITTED_AT, "ADD COLUMNS", schema_text=SCHEMA, changes=FileChanges())
    evidence = DeltaSourceEvidence(table_id="T", latest_version=4, schema_text=SCHEMA, pending=(commit,))
    span = NextRead(CheckpointSource("0", "delta", None, DeltaPosition("T", 4, -1, False)), replayed=False)
    source = SourceDeclaration("delta", "t")

    (found,) = find_delta_source(source, span, replace(evidence, mapped=True), COMMANDS, 0)
    assert (found.code, found.severity) == ("SOURCE_SCHEMA_UNCLEAR", Severity.CANNOT_TELL)
    assert find_delta_source(source, span, evidence, COMMANDS, 0) == ()


def test_a_field_more_inside_a_struct_is_an_added_column() -> None:
    def schema(*names: str) -> str:
        fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
        inner = {"type": "array", "elementType": {"type": "struct", "fields": fields}, "containsNull": True}
        return json.dumps({"type": "struct", "fields": [{"name": "s", "type": inner, "metadata": {}}]})

    assert changed_columns(schema("a"), schema("a", "b")) == ()
    assert changed_columns(schema("a", "b"), schema("a")) == ("s.b",)


def test_a_renamed_column_is_refused_and_an_added_one_is_not(tmp_path: Path) -> None:
    fields = json.loads(SCHEMA)["fields"]
    more = json.dumps({"type": "struct", "fields": [*fields, {**fields[0], "name": "extra"}]})
    other = json.dumps({"type": "struct", "fields": [{**fields[0], "name": "number"}, fields[1]]})
    for name, schema, expected in (("more", more, ()), ("other", other, ("SOURCE_SCHEMA_CHANGED",))):
        table = write_table(tmp_path / name, 3)
        write_commit(table, 4, info("ALTER"), create(schema=schema)[2])

        assert codes(judge(table, 3)) == expected


def test_the_clock_of_the_log_is_said_before_it_runs_out(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 5, {"delta.logRetentionDuration": "interval 10 days"})

    assert judge(table, 3, now=COMMITTED_AT + 5 * DAY) == ()
    found = judge(table, 3, now=COMMITTED_AT + 9 * DAY)
    assert codes(found) == ("SOURCE_HISTORY_EXPIRES",)
    assert "1 d 0 h from now" in found[0].evidence
    assert "which is past" in judge(table, 3, now=COMMITTED_AT + 11 * DAY)[0].evidence


def test_a_damaged_source_log_is_never_safe(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 3)
    commit_file(table, 3).write_text('{"txn":')

    found = judge(table, 3)

    assert codes(found) == ("SOURCE_NOT_READ",)
    assert found[0].severity is Severity.CANNOT_TELL


def landed(tmp_path: Path, files: int = 3) -> tuple[Path, Path]:
    """(landing folder, checkpoint whose batch 0 has read them)."""
    landing = tmp_path / "landing"
    landing.mkdir()
    folder = write_checkpoint(tmp_path / "ck", planned=0, committed=0)
    lines = ["v1"]
    for number in range(files):
        path = landing / f"part {number}.json"
        path.write_text("{}")
        lines.append(json.dumps({"path": path.as_uri(), "timestamp": 1, "batchId": 0}))
    (folder / "sources" / "0").mkdir(parents=True)
    (folder / "sources" / "0" / "0").write_text("\n".join(lines))
    return landing, folder


def judge_files(landing: Path, folder: Path, replayed: bool = False) -> tuple[Finding, ...]:
    checkpoint = read_checkpoint(str(folder))
    span = NextRead(checkpoint.sources[0], replayed)
    evidence = read_file_source(str(landing), span, open_storage(str(folder)))
    return find_file_source(SourceDeclaration("files", str(landing), str(landing)), span, evidence, COMMANDS)


def test_files_that_are_where_they_were_read_have_no_finding(tmp_path: Path) -> None:
    landing, folder = landed(tmp_path)

    assert judge_files(landing, folder) == ()
    assert judge_files(landing, folder, replayed=True) == ()


def test_a_renamed_landing_folder_is_refused(tmp_path: Path) -> None:
    landing, folder = landed(tmp_path)
    landing.rename(tmp_path / "inbox")

    assert codes(judge_files(tmp_path / "inbox", folder)) == ("SOURCE_FOLDER_CHANGED",)
    assert codes(judge_files(landing, folder)) == ("SOURCE_MISSING",)


def test_a_landing_folder_reached_by_a_link_is_the_same_folder(tmp_path: Path) -> None:
    landing, folder = landed(tmp_path)
    (tmp_path / "link").symlink_to(landing)

    assert judge_files(tmp_path / "link", folder) == ()


def test_files_of_the_batch_in_flight_that_are_gone_are_counted(tmp_path: Path) -> None:
    landing, folder = landed(tmp_path)
    (landing / "part 1.json").unlink()

    assert judge_files(landing, folder) == (), "a file that was read already may go"
    found = judge_files(landing, folder, replayed=True)
    assert codes(found) == ("SOURCE_FILES_GONE",)
    assert "1 of the 3 files" in found[0].evidence


def test_entries_of_a_compacted_list_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "ck" / "sources" / "0"
    folder.mkdir(parents=True)
    entries = [{"path": f"file:/landing/{number}", "timestamp": 1, "batchId": number} for number in range(10)]
    (folder / "9.compact").write_text("v1\n" + "\n".join(map(json.dumps, entries)))

    storage = open_storage(str(tmp_path / "ck"))

    assert read_listed_paths(storage, "0", 7, 8) == ["file:/landing/7", "file:/landing/8"]
    with pytest.raises(ValueError, match="entry 10 is missing"):
        read_listed_paths(storage, "0", 10, 10)


def test_a_position_that_is_no_file_list_reads_nothing() -> None:
    span = NextRead(CheckpointSource("0", "files", FilesPosition(3), FilesPosition(5)), replayed=False)

    assert span.listed is None
    assert NextRead(span.source, replayed=True).listed == (4, 5)


LOST = Finding("KAFKA_RECORDS_LOST", Severity.UNSAFE, "3 offsets lost", "m", "n", "d")
OPEN = Finding("KAFKA_TRANSACTION_OPEN", Severity.INFO, "1 offset hidden", "m", "n")


REPLACED = replace(LOST, code="KAFKA_TOPIC_REPLACED")
NO_ANSWER = Sample[str]((Finding("KAFKA_OUT_OF_REACH", Severity.CANNOT_TELL, "no answer", "m", "n"),))


def look(*findings: Finding, parts: tuple[object, ...] = (0, 1, "topic id")) -> Sample[str]:
    return Sample(findings, "answer", frozenset(parts))


def samples(*answers: Sample[str]) -> Callable[[], Sample[str]]:
    given = iter(answers)
    return lambda: next(given)


def test_a_loss_that_heals_within_seconds_is_no_loss() -> None:
    waits: list[float] = []

    assert confirm_by_resampling(samples(look(LOST, OPEN), look(OPEN)), waits.append).findings == (OPEN,)
    assert waits == [2.0]


def test_a_loss_that_every_sample_shows_is_one_and_says_how_often_it_was_seen() -> None:
    found = confirm_by_resampling(samples(look(LOST), look(LOST), look(LOST)), lambda seconds: None).findings

    assert found[0].code == "KAFKA_RECORDS_LOST"
    assert found[0].evidence == "3 offsets lost (the same in 3 samples)"


def test_nothing_wrong_is_asked_twice_at_once() -> None:
    waits: list[float] = []

    assert confirm_by_resampling(samples(look(OPEN), look(OPEN)), waits.append).findings == (OPEN,)
    assert waits == []


@pytest.mark.parametrize("second", [NO_ANSWER, look(), look(LOST), look(parts=()), look(REPLACED)])
@pytest.mark.parametrize("third", [NO_ANSWER, look(parts=(0,)), look(parts=(0, 1)), look(LOST, parts=())])
def test_only_a_sample_that_answered_takes_a_finding_back(second: Sample[str], third: Sample[str]) -> None:
    """Seen: a topic made anew, one time-out in sample 2 or 3, and the gate let the start pass."""
    found = confirm_by_resampling(samples(look(REPLACED, LOST), second, third), lambda seconds: None)

    healed = second == look()
    assert found.unsafe is not healed


def test_a_cluster_that_does_not_answer_is_asked_once() -> None:
    assert confirm_by_resampling(samples(NO_ANSWER), lambda seconds: None) == NO_ANSWER


def test_the_clock_of_a_topic_is_said_before_unread_records_expire() -> None:
    from datetime import UTC, datetime

    from surestart.facts.kafka.evidence import KafkaEvidence, PartitionEvidence

    partitions = (PartitionEvidence(0, 0, 50, 50),)
    evidence = KafkaEvidence("b:9092", "orders", "id", partitions, 4 * DAY, None, "delete", datetime.now(UTC))
    source = SourceDeclaration("kafka", "orders")

    assert find_kafka_expiry(source, evidence, 10, NOW, COMMANDS, NOW + 2 * DAY) == ()
    (found,) = find_kafka_expiry(source, evidence, 10, NOW, COMMANDS, NOW + 3 * DAY + DAY // 2)
    assert found.code == "SOURCE_RETENTION_CLOCK"
    assert "12 h 0 min from now" in found.meaning
    assert find_kafka_expiry(source, evidence, 0, NOW, COMMANDS, NOW + 5 * DAY) == (), "nothing unread, nothing lost"


def test_every_kafka_finding_has_its_section_and_a_test_that_provokes_it() -> None:
    root = Path(__file__).parents[2]
    codes = set(re.findall(r'"(KAFKA_[A-Z_]+)"', (root / "src/surestart/verdict/kafka_findings.py").read_text()))
    sections = set(re.findall(r"^### ([A-Z_]+)$", (root / "docs/findings.md").read_text(), re.M))
    tests = "".join(path.read_text() for path in (root / "tests/kafka").glob("test_*.py"))

    assert len(codes) >= 8
    assert codes - sections == set()
    assert {code for code in codes if f'"{code}"' not in tests} == set()
