"""`surestart inspect --all ROOT`: every checkpoint in one table, the worst first, judged as `inspect` judges each."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from surestart.cli.main import main
from surestart.facts.storage.open_storage import open_unbounded
from surestart.facts.storage.storage import FolderEntry, Storage
from surestart.verdict import inspect_all as module
from surestart.verdict.fleet_row import FleetRow
from surestart.verdict.inspect_all import FleetQuestion, inspect_all
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Verdict
from tests.checkpoint.checkpoint_maker import make_checkpoint, make_state
from tests.checkpoint.memory_storage import MemoryStorage

REPORT = Path(__file__).parents[2] / "src/surestart/report"
NONE = FleetQuestion(("none",))


def make(folder: Path, query_id: str = "") -> Path:
    return make_checkpoint(folder, query_id=query_id or str(uuid.uuid4()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """whole, behind (in flight), torn (its newest offsets are cut) and rewound (its state goes further)."""
    for name in ("whole", "team/behind", "torn", "rewound"):
        make(tmp_path / "root" / name)
    (tmp_path / "root/team/behind/commits/4").unlink()
    (tmp_path / "root/torn/offsets/4").write_text("v1")
    make_state(tmp_path / "root/rewound", range(1, 9))
    return tmp_path / "root"


def test_the_worst_come_first_and_the_exit_code_is_the_worst(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["inspect", "--all", str(root), "--sink", "none"])
    lines = capsys.readouterr().out.splitlines()

    assert code == 3
    table = [line.split()[0] for line in lines if " SAFE " in line or " UNSAFE " in line or " ATTENTION " in line]
    assert table[:2] == ["rewound", "torn"]
    assert table[2:] == ["team/behind", "whole"] or table[2:] == ["whole", "team/behind"]
    assert "4 checkpoints: 2 unsafe" in "\n".join(lines)
    assert all(len(line) <= 80 or line.lstrip().startswith("Next") for line in lines)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_long_name_is_never_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    names = [f"bronze/regional/{region}/orders_of_the_day/_checkpoint" for region in ("amer", "emea")]
    for name in (*names, "short"):
        make(tmp_path / name)
    monkeypatch.setenv("COLUMNS", columns)

    main(["inspect", "--all", str(tmp_path), "--sink", "none"])
    lines = capsys.readouterr().out.splitlines()

    wide = columns == "120"
    for name in names:
        (at,) = [number for number, line in enumerate(lines) if line.startswith(name)]
        assert " SAFE " in lines[at if wide else at + 1]
    table = [line for line in lines if " SAFE " in line]
    assert len({line.index("SAFE") for line in table}) == 1
    assert all(len(line) <= int(columns) for line in table)


def test_without_a_sink_none_is_called_safe_and_what_the_checkpoint_says_stands_beside(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(root / "torn")
    shutil.rmtree(root / "rewound")

    assert main(["inspect", "--all", str(root)]) == 4
    said = capsys.readouterr().out

    assert "2 cannot tell; the sinks of 2 were not asked" in said
    assert "unasked, whole" in said
    assert "SAFE" not in said
    assert main(["inspect", "--all", str(root), "--sink", "none"]) == 0


def test_each_is_judged_as_inspect_judges_it(root: Path) -> None:
    rows = inspect_all(str(root), NONE)

    assert len(rows) == 4
    for row in rows:
        alone = inspect_checkpoint(row.location, sinks=("none",))
        assert (row.verdict, row.sentence[6:9]) == (alone.verdict, alone.start.spark)
        assert [one.code for one in row.findings] == [one.code for one in alone.findings][: len(row.findings)]


def test_many_are_read_by_processes_and_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        make(tmp_path / f"c{number}")
    (tmp_path / "c3/offsets/4").unlink()
    alone = inspect_all(str(tmp_path), NONE)
    monkeypatch.setattr(module, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(module, "AT_ONCE", 2)

    heard: list[str] = []
    by_two = inspect_all(str(tmp_path), NONE, processes=2, say=heard.append)

    assert by_two == alone
    assert heard[0] == "1 folders, 0 checkpoints so far"
    assert heard[-1] == "7 of 7 checkpoints read"


def test_what_was_not_looked_into_is_a_row_and_makes_the_answer_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "root/a")
    make(tmp_path / "outside")
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")

    assert main(["inspect", "--all", str(tmp_path / "root"), "--sink", "none"]) == 4
    said = capsys.readouterr().out

    assert "PLACE_NOT_LOOKED_AT" in said
    assert "not looked at" in said


def test_an_empty_root_is_not_safe_and_a_missing_one_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["inspect", "--all", str(tmp_path / "empty"), "--sink", "none"]) == 4
    assert "no checkpoint was found here" in capsys.readouterr().out
    assert main(["inspect", "--all", str(tmp_path / "empty"), "--sink", "none", "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["verdict"] == "cannot tell"
    assert main(["inspect", "--all", str(tmp_path / "missing")]) == 4
    assert "RootNotListed" in capsys.readouterr().err


def test_copies_of_a_query_and_a_checkpoint_inside_another_are_seen_by_looking_at_all(tmp_path: Path) -> None:
    query = str(uuid.uuid4())
    for name in ("a", "b"):
        make(tmp_path / name, query)
    make(tmp_path / "a/inner")

    codes = {row.name: [one.code for one in row.findings] for row in inspect_all(str(tmp_path), NONE)}

    assert "QUERY_ID_TWICE" in codes["a"]
    assert "QUERY_ID_TWICE" in codes["b"]
    assert "CHECKPOINT_INSIDE_ANOTHER" in codes["a/inner"]


def test_a_sink_of_one_is_not_taken_for_all(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--all", str(root), "--sink", "/some/table"]) == 2
    assert "SinkOfOneForAll" in capsys.readouterr().err
    assert main(["inspect", "--all", str(root), "--shared"]) == 2


def test_the_json_is_as_its_schema_says_and_each_stream_is_on_the_page(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(root / "<script>alert(1)</script>")
    make(root / os.fsdecode(b"\xff"))
    page = tmp_path / "fleet.html"

    main(["inspect", "--all", str(root), "--json", "--html", str(page)])
    answer = json.loads(capsys.readouterr().out)

    schemas = [json.loads((REPORT / name).read_text()) for name in ("inspect.schema.json", "fleet.schema.json")]
    registry: Registry = Registry().with_resources((one["$id"], Resource.from_contents(one)) for one in schemas)
    Draft202012Validator(schemas[1], registry=registry).validate(answer)
    assert answer["counts"] == {"unsafe": 2, "cannot tell": 4}
    html = page.read_text()
    assert html.count('id="stream-') == 2 * 6 + 6
    assert html.count('href="#stream-') == 6
    assert "<script>alert" not in html


class Counted(MemoryStorage):
    """A store over a network: what is asked of it is counted."""

    kind = "fsspec"
    asked = 0

    def list_folder(self, path: str) -> Iterator[FolderEntry]:
        self.asked += 1
        return super().list_folder(path)

    def read_file(self, path: str, limit: int) -> bytes:
        self.asked += 1
        return super().read_file(path, limit)


def test_over_a_network_the_requests_grow_with_the_checkpoints_and_not_with_their_batches(tmp_path: Path) -> None:
    def requests(count: int, batches: int) -> int:
        folder = tmp_path / f"{count}-{batches}"
        for number in range(count):
            make_checkpoint(
                folder / f"c{number}", planned=range(batches), committed=range(batches), query_id=str(uuid.uuid4())
            )
        storage: Storage = Counted.of(folder)
        rows = inspect_all("s3://bucket/root", NONE, storage=storage)
        assert {row.verdict for row in rows} == {Verdict.SAFE}
        return storage.asked  # type: ignore[attr-defined, no-any-return]

    ten, twenty = requests(10, 12), requests(20, 12)
    assert twenty < 2.1 * ten
    assert requests(10, 60) == ten
    assert ten <= 40 * 10


def test_a_process_that_was_ended_leaves_its_checkpoints_open_and_not_out(tmp_path: Path) -> None:
    places = [module.FoundPlace(f"c{number}") for number in range(3)]

    def ended(part: list[tuple[str, str]]) -> list[FleetRow]:
        raise BrokenProcessPool("killed for its memory")

    with ThreadPoolExecutor(1) as pool:
        rows = list(module._in_parts(pool, open_unbounded(str(tmp_path)), places, ended))

    assert [row.name for row in rows] == ["c0", "c1", "c2"]
    assert {row.verdict for row in rows} == {Verdict.CANNOT_TELL}
