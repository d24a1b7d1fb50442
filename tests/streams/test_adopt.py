"""`surestart adopt`: over a lake of two hundred checkpoints every true pair is found, and no false one."""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surestart.cli.main import main
from surestart.remedies.basis import cut_checkpoint
from surestart.remedies.basis.move_aside import RETIRED
from surestart.remedies.steps import move
from surestart.streams.adopt.adopt import Adoption, adopt
from surestart.streams.adopt.found import ANOTHER_ID, NO_CHECKPOINT, NOT_CARRIED, NOT_READ, TWO_CHECKPOINTS
from surestart.streams.adopt.write_stream import add_to_file
from surestart.streams.project_file import read_project_file
from tests.deltalog.handmade import info, txn
from tests.streams.lake import Lake, make_lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_lake(tmp_path_factory.mktemp("lake") / "root")


@pytest.fixture(scope="module")
def adoption(lake: Lake) -> Adoption:
    return adopt([str(lake.root)])


def test_the_lake_is_as_large_as_it_is_called(lake: Lake, adoption: Adoption) -> None:
    assert len(lake.sinks) >= 200
    assert adoption.tables >= 150
    assert adoption.checkpoints == len(lake.sinks)


def test_every_true_pair_is_found_and_no_false_one(lake: Lake, adoption: Adoption) -> None:
    found = {
        one.joined.checkpoint.location: {sink.table.location for sink in one.joined.sinks} for one in adoption.adopted
    }

    assert found == {path: tables for path, tables in lake.sinks.items() if path not in lake.not_carried}
    assert sum(map(len, found.values())) > 120


def test_a_table_is_shared_where_two_took_turns_and_nowhere_else(lake: Lake, adoption: Adoption) -> None:
    shared = {
        (one.joined.checkpoint.location, sink.table.location)
        for one in adoption.adopted
        for sink in one.joined.sinks
        if sink.shared
    }

    assert shared == lake.shared


def test_every_source_is_found(lake: Lake, adoption: Adoption) -> None:
    found = {
        one.joined.checkpoint.location: (source.source.kind, source.location or source.source.subject)
        for one in adoption.adopted
        for source in one.joined.sources
    }

    assert found == {path: source for path, source in lake.sources.items() if path not in lake.not_carried}


def test_what_is_not_whole_is_named(lake: Lake, adoption: Adoption) -> None:
    gone = {note.places[0] for note in adoption.notes if note.kind == NO_CHECKPOINT}
    two = [note for note in adoption.notes if note.kind == TWO_CHECKPOINTS]
    unread = [note for note in adoption.notes if note.kind == NOT_READ]
    not_carried = {note.places[0] for note in adoption.notes if note.kind == NOT_CARRIED}

    assert gone == set(lake.gone)
    # Many streams of one name, each with a checkpoint of its own.
    assert not [note for note in adoption.notes if note.kind == ANOTHER_ID]
    assert len(two) == 16
    assert [note.places[0] for note in unread] == [str(lake.root / "decoys" / name) for name in ("nowhere", "out")]
    assert all("leads out of the root" in note.says for note in unread)
    assert not_carried == lake.not_carried


class Called:
    """The command line, and what it has said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.out = self.err = ""

    def __call__(self, *words: object) -> int:
        code = main(["adopt", *map(str, words)])
        self.out, self.err = self.capsys.readouterr()
        return code


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str]) -> Called:
    return Called(capsys)


def test_what_is_written_is_read_back_and_a_second_run_changes_nothing(
    lake: Lake, tmp_path: Path, called: Called
) -> None:
    path = tmp_path / "surestart.toml"
    code = called("--checkpoints", lake.root, "-o", path)
    written = path.read_bytes()
    project = read_project_file(path)

    # Folders that could not be looked into: nobody may take the list for complete.
    assert code == 4
    assert {stream.checkpoint for stream in project.streams} == lake.sinks.keys() - lake.not_carried
    assert {stream.checkpoint: {sink.path for sink in stream.sinks} for stream in project.streams} == {
        path: tables for path, tables in lake.sinks.items() if path not in lake.not_carried
    }
    assert {
        (stream.checkpoint, sink.path) for stream in project.streams for sink in stream.sinks if sink.shared
    } == lake.shared

    before = path.stat().st_mtime_ns
    called("--tables", f"{lake.root}/", "--checkpoints", f"file://{lake.root}", "-o", path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (written, before)
    assert "Nothing to add" in called.out


def test_hand_edits_comments_and_order_stay_byte_for_byte(lake: Lake, tmp_path: Path, called: Called) -> None:
    path = tmp_path / "surestart.toml"
    mine = lake.root / "chk" / "to-kafka-3"
    by_hand = (
        f"# mine\r\nhistory = '/ops/h'   # kept\r\n\r\n[stream.base]\r\ncheckpoint = 'file:{mine}/'\r\n"
        "sink = { kafka = 'out' }  # said by me"
    ).encode()
    path.write_bytes(by_hand)
    path.chmod(0o640)

    called("--checkpoints", lake.root / "chk", "--tables", lake.root / "tables", "-o", path)
    project = read_project_file(path)

    assert path.read_bytes().startswith(by_hand)
    assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")
    assert path.stat().st_mode & 0o777 == 0o640
    assert [stream.checkpoint for stream in project.streams].count(str(mine)) == 0
    assert project.streams[0].sinks[0].kind == "kafka"


def test_a_new_stream_is_added_behind_the_others(tmp_path: Path, called: Called) -> None:
    root, path = tmp_path / "root", tmp_path / "surestart.toml"
    lake = small_lake(root)
    lake.stream("chk/one", lake.table("t/one"))
    assert called("--checkpoints", root, "-o", path) == 0
    first = path.read_bytes()
    lake.stream("chk/two", lake.table("t/two"))
    called("--checkpoints", root, "-o", path)

    assert path.read_bytes().startswith(first)
    assert [stream.name for stream in read_project_file(path).streams] == ["one", "two"]


def test_a_known_stream_whose_sink_shows_by_now_is_told(tmp_path: Path, called: Called) -> None:
    root, path = tmp_path / "root", tmp_path / "surestart.toml"
    lake = small_lake(root)
    chk = lake.stream("chk/one", lake.table("t/one"))
    called("--checkpoints", root / "chk", "-o", path)
    assert "# sink = ?" in path.read_text()
    before = path.read_bytes()

    assert called("--checkpoints", root, "-o", path) == 1
    assert path.read_bytes() == before
    assert f"one has no sink, and writes {root}/t/one" in called.out
    assert chk in called.out


def test_a_checkpoint_that_was_moved_between_two_runs_is_named_with_the_stream_that_it_is_now(
    tmp_path: Path, called: Called
) -> None:
    root, path = tmp_path / "root", tmp_path / "surestart.toml"
    lake = small_lake(root)
    lake.stream("chk/one", lake.table("t/one"))
    lake.stream("chk/two", lake.table("t/two"))
    called("--checkpoints", root, "-o", path)
    (root / "chk/one").rename(root / "chk/moved")

    assert called("--checkpoints", root, "-o", path) == 1
    said = " ".join(called.out.split())
    assert "declared checkpoint that is gone: 1" in said
    assert f"one is declared there: a start begins anew; its table is written by moved at {root}/chk/moved" in said
    assert [stream.name for stream in read_project_file(path).streams] == ["one", "two", "moved"]

    # Where a folder was not looked into, the checkpoint may be there.
    (root / "out").symlink_to(tmp_path)
    called("--checkpoints", root, "-o", path)
    assert "declared checkpoint that is gone" not in called.out


def test_a_folder_whose_name_has_written_under_another_id_is_named(tmp_path: Path) -> None:
    lake = small_lake(tmp_path / "root")
    table, former = lake.table("t/one"), lake.query_id()
    lake.batch(table, former, 3, "noted")
    lake.checkpoint("chk/q", 0, source="kafka")
    found = adopt([str(lake.root)])

    assert [note.places[1] for note in found.notes if note.kind == ANOTHER_ID] == [table]
    assert found.adopted[0].joined.sinks == ()
    assert "under another id" in found.adopted[0].told


@pytest.mark.parametrize("text", ["not toml", "stream = 3", "[stream.a]\nsink = {}", "\ufeff[stream.a]"])
def test_a_file_that_is_not_understood_is_not_written_over(tmp_path: Path, called: Called, text: str) -> None:
    path = tmp_path / "surestart.toml"
    path.write_text(text)

    assert called("--checkpoints", tmp_path, "-o", path) == 2
    assert path.read_text() == text
    assert "ProjectFileNotUnderstood" in called.err


def test_a_file_that_cannot_be_added_to_is_refused(tmp_path: Path, called: Called) -> None:
    lake = small_lake(tmp_path / "root")
    lake.stream("chk/one", lake.table("t/one"))
    path = tmp_path / "surestart.toml"
    path.write_text('stream = { a = { checkpoint = "/c" } }')

    assert called("--checkpoints", tmp_path, "-o", path) == 3
    assert path.read_text() == 'stream = { a = { checkpoint = "/c" } }'
    assert "ProjectFileClosed" in called.err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["root", "surestart.toml"]


def test_a_dry_run_writes_nothing_and_names_the_command_that_does(tmp_path: Path, called: Called) -> None:
    lake = small_lake(tmp_path / "root")
    lake.stream("chk/one", lake.table("t/one"))
    path = tmp_path / "it's mine.toml"
    called("--checkpoints", tmp_path / "root", "--tables", tmp_path / "root", "-o", path, "--dry-run")

    assert not path.exists()
    assert "[stream.one]" in called.out
    assert f"Next: surestart adopt --checkpoints {tmp_path / 'root'} --tables {tmp_path / 'root'} -o" in called.out


def test_json_says_it_all_and_progress_goes_to_stderr(lake: Lake, tmp_path: Path, called: Called) -> None:
    called("--checkpoints", lake.root / "chk", "--tables", lake.root / "tables", "--json", "-o", tmp_path / "s.toml")
    said = json.loads(called.out)

    assert said["schema_version"] == 1
    assert len(said["streams"]) > 100
    assert {note["kind"] for note in said["notes"]} >= {NO_CHECKPOINT, TWO_CHECKPOINTS}
    assert "reading " in called.err


def test_a_folder_that_is_not_there_is_no_empty_one(tmp_path: Path, called: Called) -> None:
    assert called("--checkpoints", tmp_path / "nothing", "-o", tmp_path / "s.toml") == 4
    assert "FileNotFoundError" in called.out
    assert called("-o", tmp_path / "s.toml") == 2


@pytest.mark.parametrize("root", ["", " ", "file:", "file:data", "~nobody-has-this-name/data"])
def test_a_root_that_names_no_folder_is_not_the_one_that_one_works_in(
    tmp_path: Path, called: Called, root: str
) -> None:
    assert called(f"--checkpoints={root}", "-o", tmp_path / "s.toml") == 2
    assert not (tmp_path / "s.toml").exists()


def test_what_a_remedy_keeps_or_makes_beside_a_checkpoint_is_no_stream(tmp_path: Path, called: Called) -> None:
    """A move that stands half-way has a whole copy, under the same query id."""
    lake = small_lake(tmp_path / "root")
    lake.stream("chk/one", lake.table("t/one"))
    for folder in (RETIRED, move.SCRATCH, cut_checkpoint.SCRATCH):
        shutil.copytree(tmp_path / "root/chk/one", tmp_path / "root/chk" / folder / "one" / "abcd")
    path = tmp_path / "s.toml"
    called("--checkpoints", tmp_path / "root", "-o", path)
    assert [one.name for one in read_project_file(path).streams] == ["one"]


def test_a_table_that_cannot_be_read_is_named_and_no_sink_is_guessed(tmp_path: Path, called: Called) -> None:
    lake = small_lake(tmp_path / "root")
    table = Path(lake.table("t/one"))
    lake.stream("chk/one", str(table))
    (table / "_delta_log" / f"{2:020d}.json").write_text('{"txn": torn')
    path = tmp_path / "s.toml"

    assert called("--checkpoints", tmp_path / "root", "-o", path) == 4
    assert read_project_file(path).streams[0].sinks == ()
    assert "not read: 1" in called.out


@pytest.mark.parametrize("unread", ["metadata", "offsets", "offsets/3"])
def test_a_checkpoint_that_cannot_be_read_is_named_and_its_query_is_not_called_unknown_to_the_tables(
    tmp_path: Path, called: Called, unread: str
) -> None:
    """A folder in a file's place, and a file in a folder's, are refused to everybody, root included."""
    lake = small_lake(tmp_path / "root")
    lake.stream("chk/one", lake.table("t/one"))
    place, path = tmp_path / "root/chk/one" / unread, tmp_path / "s.toml"
    was_folder = place.is_dir()
    shutil.move(place, tmp_path / "aside")
    place.touch() if was_folder else place.mkdir()

    assert called("--checkpoints", tmp_path / "root", "-o", path) == 4
    assert "1 checkpoint, 1 table;" in called.out
    assert "1 stream added to" in called.out
    assert "not read: 1" in called.out
    assert ("its query id is not known: metadata: " in path.read_text()) == (unread == "metadata")
    assert "no batch was planned yet" not in path.read_text()


# What remedies keep beside a checkpoint, and the logs of tables, into which no listing goes.
NO_STREAM_IS_CALLED = ("_retired", "_moving", "_rewind", "_delta_log", "_spark_metadata")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5, unique=True))
def test_whatever_folders_are_called_the_file_is_read_back(names: list[str], tmp_path: Path) -> None:
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    lake, path = small_lake(root / "root"), root / "surestart.toml"
    made = set()
    for number, name in enumerate(names):
        folder = name.replace("/", "|").replace("\0", "|").encode("utf-8", "replace").decode()
        if folder not in (".", "..", *NO_STREAM_IS_CALLED) and not (lake.root / "c" / folder).exists():
            made.add(lake.stream(f"c/{folder}", lake.table(f"t/{number} {folder}"[:60]), last=1))
    adoption = adopt([str(lake.root)])
    if adoption.adopted:
        add_to_file(path, adoption.text, tuple(one.name for one in adoption.adopted))
    project = read_project_file(path) if made else None

    assert {stream.checkpoint for stream in (project.streams if project else ())} == made
    assert {sink.path for stream in (project.streams if project else ()) for sink in stream.sinks} == {
        sink for chk in made for sink in lake.sinks[chk]
    }
    assert adopt([str(lake.root)], project).adopted == ()


def small_lake(root: Path) -> Lake:
    return Lake(root, random.Random(1))


@pytest.mark.parametrize("moved", [False, True])
def test_a_clone_brings_batches_that_the_stream_did_not_write_there(tmp_path: Path, moved: bool) -> None:
    """A backup that stays behind would make a healthy stream unsafe; so would the table that it has left."""
    lake = Lake(tmp_path, random.Random(1))
    table = lake.table("t")
    _, query_id = lake.checkpoint("chk", 3, source="kafka")
    for number in range(2):
        lake.batch(table, query_id, number)
    clone = lake.table("clone")
    lake.commit(clone, info("CLONE"), txn(query_id, 1))
    for number in range(2, 4):
        lake.batch(clone if moved else table, query_id, number)

    (one,) = adopt([str(tmp_path)]).adopted

    assert [sink.table.location for sink in one.joined.sinks] == [clone if moved else table]
    assert "CLONE" in one.joined.asks[0]


def test_where_nothing_was_found_the_next_command_is_what_helps(
    tmp_path: Path, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`surestart doctor` would know of no stream, and say to adopt some."""
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert called("--checkpoints", "s3://bucket/chk", "-o", tmp_path / "s.toml") == 4
    assert "Next: " in called.out
    assert "-m pip install fsspec s3fs" in called.out

    called("--checkpoints", tmp_path, "-o", tmp_path / "s.toml")
    assert "Next: surestart adopt --help" in called.out
