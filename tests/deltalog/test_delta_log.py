"""Reading `_delta_log` without Spark: what is there, what is missing, and what a hostile log may not do."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from surestart.errors import CannotTell
from surestart.facts.delta import (
    CommitMark,
    Transaction,
    read_active_files,
    read_delta_log,
    read_history,
    read_table_rows,
)
from surestart.facts.delta.commit import read_mark
from surestart.facts.delta.listing import NoDeltaLog
from surestart.facts.delta.log import duration
from surestart.facts.storage.open_storage import LocalStorage
from tests.deltalog.handmade import (
    add,
    commit_file,
    create,
    info,
    remove,
    txn,
    write_commit,
    write_table,
)


def test_a_short_log_is_read_whole(tmp_path: Path) -> None:
    log = read_delta_log(str(write_table(tmp_path / "t", 5, {"delta.logRetentionDuration": "interval 3 days"})))

    assert (log.table_id, log.latest_version, log.earliest_commit, log.earliest_version) == ("T", 5, 0, 0)
    assert log.transactions == {"q": Transaction(4, 1)}
    assert [commit.batch_id for commit in log.commits] == [None, 0, 1, 2, 3, 4]
    assert log.log_retention == 3 * 86_400_000
    assert log.transaction_retention is None


def test_the_last_transaction_of_a_writer_counts_also_when_it_is_lower(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 3)
    write_commit(table, 4, info("WRITE"), txn("q", 0))

    assert read_delta_log(str(table)).transactions["q"].version == 0


def test_a_log_as_of_a_version_knows_nothing_later(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 5)

    log = read_delta_log(str(table), version=2)

    assert (log.latest_version, log.transactions["q"].version) == (2, 1)
    assert len(read_active_files(str(table), version=2)) == 2


def test_a_place_without_a_table_is_told_from_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    (tmp_path / "file").write_text("")

    for name in ("nowhere", "empty"):
        with pytest.raises(NoDeltaLog):
            read_delta_log(str(tmp_path / name))
    # Taken for no journal and no history it would let a start pass that they bar.
    with pytest.raises(CannotTell) as unread:
        read_delta_log(str(tmp_path / "file"))
    assert unread.value.code == "DeltaLogUnreadable"


def test_commits_that_are_gone_without_a_checkpoint_are_not_guessed(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 5)
    commit_file(table, 2).unlink()

    with pytest.raises(CannotTell, match="cannot be rebuilt"):
        read_delta_log(str(table))


@pytest.mark.parametrize(
    "line",
    [
        '{"txn":{"appId":"q","version":',
        "not json at all",
        '{"txn":' + "[" * 100_000,
        '{"txn":{"version":' + "9" * 10_000 + "}}",
        '{"txn":7}',
        "\x00\x00\x00\x00",
    ],
    ids=["cut off", "text", "deep", "huge number", "no object", "zeros"],
)
def test_a_damaged_line_is_named_and_nothing_is_made_up(tmp_path: Path, line: str) -> None:
    table = write_table(tmp_path / "t", 2)
    with commit_file(table, 2).open("a") as file:
        file.write(line + "\n")

    with pytest.raises(CannotTell, match=r"00000000000000000002.json line 4"):
        read_delta_log(str(table))


def test_lines_that_nobody_asked_for_are_not_parsed_but_for_the_last(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 1)
    with commit_file(table, 1).open("a") as file:
        file.write('{"add":{"path":' + "[" * 1000 + "\n" + '{"domainMetadata":nonsense\n{"add":{}}\n')

    assert read_delta_log(str(table)).transactions["q"].version == 0


def test_other_files_in_the_log_folder_are_passed_over(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 2)
    folder = table / "_delta_log"
    for name in ("00000000000000000009.json.tmp", "9.json", ".00000000000000000009.json.crc", "_last_checkpoint"):
        (folder / name).write_text("{}")
    (folder / "00000000000000000000.00000000000000000002.compacted.json").write_text("{}")
    (folder / "_staged_commits").mkdir()

    log = read_delta_log(str(table))

    assert log.latest_version == 2
    assert not log.catalog_managed


@pytest.mark.parametrize(
    "hint",
    ['{"version":2,"size":3,"parts":2}', '{"version":2', '{"vers', "", "no JSON", "[9]", '{"version":"x"}', "{}"],
)
def test_a_hint_that_is_torn_or_names_a_checkpoint_that_is_not_there_is_passed_over(tmp_path: Path, hint: str) -> None:
    """As Delta does: the listing decides."""
    table = write_table(tmp_path / "t", 5)
    (table / "_delta_log/_last_checkpoint").write_text(hint)

    log = read_delta_log(str(table))

    assert (log.latest_version, log.transactions["q"].version) == (5, 4)


SIX = f"{6:020d}"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("_last_checkpoint", '{"version":6,"size":3}'),
        ("_last_checkpoint", '{"size":3,"version":6}'),
        ("_last_checkpoint", '{"version":6,"si'),
        (f"{SIX}.crc", "{}"),
        (f"{0:020d}.{SIX}.compacted.json", "{}"),
        (f"{SIX}.checkpoint.0000000001.0000000002.parquet", ""),
    ],
)
def test_a_log_that_ends_before_what_it_names_is_not_older_without_a_word(
    tmp_path: Path, name: str, content: str
) -> None:
    table = write_table(tmp_path / "t", 6)
    (table / "_delta_log" / name).write_text(content)
    assert read_delta_log(str(table)).latest_version == 6

    commit_file(table, 6).unlink()
    with pytest.raises(CannotTell, match="names version 6 and has no commit and no whole checkpoint after 5"):
        read_delta_log(str(table))


def test_a_hint_that_did_not_arrive_whole_is_not_a_torn_one(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 5)
    (table / "_delta_log/_last_checkpoint").write_text('{"version":6,"size":3}')

    class Half(LocalStorage):
        def read_file(self, path: str, limit: int) -> bytes:
            data = super().read_file(path, limit)
            return data[: len(data) // 2 - 2] if path.endswith("_last_checkpoint") else data

    with pytest.raises(CannotTell, match="gave 9 bytes of 22"):
        read_delta_log(str(table), Half(str(table)))


@pytest.mark.parametrize("lacking", ["protocol", "metaData"])
def test_a_piece_of_a_checkpoint_is_not_a_table_without_transactions(tmp_path: Path, lacking: str) -> None:
    """What comes behind it says the rest, and nothing of who wrote before."""
    table = write_table(tmp_path / "t", 3)
    whole = [*create()[1:], txn("q", 1)]
    name = f"{2:020d}.checkpoint.12345678-0000-4000-8000-000000000000.json"
    piece = [action for action in whole[:2] if lacking not in action]
    (table / "_delta_log" / name).write_text("".join(json.dumps(action) + "\n" for action in piece))
    write_commit(table, 3, *create())
    # The commits say it as long as they are there.
    assert read_delta_log(str(table)).transactions["q"].version == 1

    for version in range(3):
        commit_file(table, version).unlink()
    with pytest.raises(CannotTell, match=f"has no {lacking}"):
        read_delta_log(str(table))


def test_a_catalog_managed_table_says_that_newer_commits_may_be_elsewhere(tmp_path: Path) -> None:
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["catalogManaged"]}
    write_commit(tmp_path / "t", 0, *create()[:1], {"protocol": {**features, "writerFeatures": []}}, *create()[2:])

    assert read_delta_log(str(tmp_path / "t")).catalog_managed


def test_our_mark_is_read_and_other_peoples_user_metadata_is_not_taken_for_it() -> None:
    mark = CommitMark("sensor-ingest", "id-1", 7, "ingest", "late-1")

    assert read_mark(mark.as_json()) == mark
    assert mark.app_id == "id-1:late-1"
    for text in ("", "nightly fix", '{"surestart": 1}', '{"surestart": {"query_id": 5, "batch_id": 1}}', "[" * 9_000):
        assert read_mark(text) is None


def test_active_files_follow_adds_and_removes_and_deletion_vectors(tmp_path: Path) -> None:
    table = tmp_path / "t"
    vector = {"storageType": "u", "pathOrInlineDv": "ab", "offset": 1, "sizeInBytes": 34, "cardinality": 3}
    write_commit(table, 0, *create(), add("a%20b.parquet"), add("c.parquet"), add("d.parquet"))
    write_commit(table, 1, info("DELETE"), remove("c.parquet"))
    write_commit(table, 2, info("DELETE"), add("d.parquet", deletionVector=vector), remove("d.parquet"))

    files = read_active_files(str(table))

    assert [(file.path, file.rows, file.deleted_rows) for file in files] == [
        ("a b.parquet", 10, 0),
        ("d.parquet", 10, 3),
    ]


def test_a_file_with_a_deletion_vector_is_not_miscounted(tmp_path: Path) -> None:
    table = tmp_path / "t"
    vector = {"storageType": "u", "pathOrInlineDv": "ab", "offset": 1, "sizeInBytes": 34, "cardinality": 3}
    write_commit(table, 0, *create(), add("d.parquet", deletionVector=vector))

    with pytest.raises(CannotTell, match="deletion vector"):
        list(read_table_rows(str(table), ["id"]))


def test_history_counts_only_files_that_change_data(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 2)
    write_commit(table, 3, info("OPTIMIZE"), add("x", dataChange=False), remove("f1.parquet", dataChange=False))
    write_commit(table, 4, info("MERGE"), add("y"), remove("f2.parquet"))

    commits = read_history(str(table), with_files=True)

    changes = [commit.changes for commit in commits]
    assert [(change.added, change.removed) for change in changes if change] == [(0, 0), (1, 0), (1, 0), (0, 0), (1, 1)]
    assert [commit.version for commit in read_history(str(table), since=1, until=3, limit=2)] == [2, 3]


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 30 days", 30 * 86_400_000),
        ("2 hours 30 minutes", 9_000_000),
        ("interval 1 week", 7 * 86_400_000),
        ("INTERVAL 1 MILLISECOND", 1),
        ("", None),
        ("soon", None),
        ("interval days", None),
        ("interval 1 month", None),
    ],
)
def test_durations_are_read_as_delta_writes_them(text: str, milliseconds: int | None) -> None:
    assert duration(text) == milliseconds


def test_five_thousand_commits_open_within_a_second_or_two_even_without_a_checkpoint(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 5_000)

    began = time.process_time()
    log = read_delta_log(str(table))

    assert log.transactions["q"].version == 4_999
    assert time.process_time() - began < 2.0


def test_reading_a_log_imports_neither_spark_nor_pandas(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 3)
    script = (
        "import sys; from surestart.facts.delta import read_delta_log;"
        f"read_delta_log({str(table)!r}); print(sorted({{'pyspark', 'pyarrow', 'pandas'}} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "[]"


def test_without_pyarrow_a_log_whose_commits_are_all_there_is_read_all_the_same(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 500)
    checkpoint = table / "_delta_log" / "00000000000000000490.checkpoint.parquet"
    checkpoint.write_bytes(b"PAR1 not really PAR1")

    answer = read_without_pyarrow(table)

    assert answer == "499"


def test_without_pyarrow_a_log_that_needs_its_checkpoint_says_so(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t", 500)
    (table / "_delta_log" / "00000000000000000490.checkpoint.parquet").write_bytes(b"PAR1 not really PAR1")
    commit_file(table, 0).unlink()

    assert read_without_pyarrow(table) == "PyarrowMissing"


def read_without_pyarrow(table: Path) -> str:
    """What a Python without pyarrow makes of the table: the last batch of `q`, or the error's code."""
    script = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from surestart.facts.delta import read_delta_log\nfrom surestart.errors import CannotTell\n"
        f"try: print(read_delta_log({str(table)!r}).transactions['q'].version)\n"
        "except CannotTell as error: print(error.code)\n"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_a_torn_checkpoint_is_passed_over_while_the_commits_are_there_and_named_when_they_are_not(
    tmp_path: Path,
) -> None:
    table = write_table(tmp_path / "t", 500)
    (table / "_delta_log" / "00000000000000000490.checkpoint.parquet").write_bytes(b"PAR1" + b"\x00" * 100)

    assert read_delta_log(str(table)).transactions["q"].version == 499
    commit_file(table, 0).unlink()
    with pytest.raises(CannotTell, match="pyarrow can read"):
        read_delta_log(str(table))


def test_a_link_out_of_the_table_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(txn("stolen", 1)) + "\n")
    table = write_table(tmp_path / "t", 1)
    commit_file(table, 2).symlink_to(secret)

    with pytest.raises(CannotTell):
        read_delta_log(str(table))
