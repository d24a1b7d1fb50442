"""The examples: three lines at most, and each stopped, damaged, judged as declared and started again for real.

An unsafe start is refused with nothing written; a safe one is made, and the rows are recounted in plain Python.
"""

from __future__ import annotations

import difflib
import json
import runpy
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from examples import scene as examples_scene
from pyspark.errors import StreamingQueryException

import surestart
from surestart.cli.main import main
from surestart.errors import EXIT_CANNOT_TELL, EXIT_REFUSED
from surestart.facts.delta.pinned import read_table_rows
from tests.servers.kafka_broker import kafka_broker

EXAMPLES = Path(examples_scene.__file__).parent
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/plain.py"))


@dataclass
class Example:
    """One example in a folder of its own. checkpoint, table: of the stream that is damaged."""

    name: str
    root: Path
    capsys: Any

    @property
    def here(self) -> Path:
        return self.root / self.name

    @property
    def checkpoint(self) -> Path:
        return self.here / ("checkpoints/silver" if self.name == "two_streams" else "checkpoint")

    @property
    def tables(self) -> list[Path]:
        return sorted(log.parent for log in self.here.glob("*/_delta_log") if "surestart" not in log.parts)

    @property
    def table(self) -> Path:
        written = {"delta_to_merge": "customers", "two_streams": "silver", "several_sinks": "good"}
        return self.here / written.get(self.name, "") if self.name in written else self.tables[0]

    def play(self, which: str) -> str:
        self.capsys.readouterr()
        runpy.run_module(f"examples.{self.name}.{which}", run_name="__main__")
        return self.capsys.readouterr().out

    def declare(self) -> Path:
        text = (EXAMPLES / self.name / "surestart.toml").read_text()
        path = self.root / "surestart.toml"
        text = text.replace("/tmp/surestart-examples", str(self.root))
        text = text.replace('kafka = "orders"', f'kafka = "{self.topic}"')
        path.write_text(text.replace("127.0.0.1:9092", examples_scene.BOOTSTRAP))
        return path

    @property
    def topic(self) -> str:
        """One broker serves all of these tests: each has a topic of its own."""
        return f"orders-{self.root.name}"

    def bytes(self) -> dict[str, bytes]:
        """Of checkpoints and tables."""
        folders = [self.checkpoint, *self.tables]
        return {str(path): path.read_bytes() for one in folders for path in one.rglob("*") if path.is_file()}

    def rows(self, table: str, *columns: str) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row[column] for column in columns) for row in read_table_rows(str(self.here / table)))

    @property
    def made(self) -> int:
        """How many orders there are, as whoever makes them has noted."""
        (note,) = {path.read_text() for path in self.here.rglob("_count")}
        return int(note)


@pytest.fixture
def example(
    request: pytest.FixtureRequest, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> Example:
    monkeypatch.setattr(examples_scene, "FOLDER", tmp_path)
    found = Example(request.param, tmp_path, capsys)
    if request.param == "kafka_to_delta":
        monkeypatch.setattr(examples_scene, "BOOTSTRAP", request.getfixturevalue("bootstrap"))
        monkeypatch.setattr("sys.argv", ["plain.py", found.topic])
    monkeypatch.setenv("SURESTART_STREAMS", str(found.declare()))
    return found


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with kafka_broker() as broker:
        yield broker.bootstrap


def expect_each(example: Example) -> None:
    """The rows as plain Python has them, from the number of orders alone."""
    orders = [examples_scene.order(number) for number in range(example.made)]
    ids = Counter((one["id"],) for one in orders)
    if example.name == "kafka_to_delta":
        assert example.rows("orders", "id") == ids
    elif example.name == "delta_to_merge":
        newest = {one["customer"]: one for one in orders}
        assert example.rows("customers", "customer", "id", "amount") == Counter(
            (one["customer"], one["id"], one["amount"]) for one in newest.values()
        )
    elif example.name == "windowed_aggregation":
        closed = (example.made - 31) // 60
        amounts = [sum(one["amount"] for one in orders[60 * n : 60 * n + 60]) for n in range(closed)]
        found = example.rows("minutes", "minute", "orders", "amount")
        assert sorted((row[1], row[2]) for row in found.elements()) == sorted((60, amount) for amount in amounts)
        assert len({row[0] for row in found}) == closed
    elif example.name == "stream_stream_join":
        assert example.rows("paid", "id") == ids
    elif example.name == "two_streams":
        assert example.rows("bronze", "id") == ids
        assert example.rows("silver", "id") == Counter((one["id"],) for one in orders if one["amount"] > 3)
    else:
        assert example.rows("good", "id") == Counter((one["id"],) for one in orders if one["amount"])
        assert example.rows("rejected", "id") == Counter((one["id"],) for one in orders if not one["amount"])


def newest_of(checkpoint: Path) -> int:
    return max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())


def remove(checkpoint: Path, log: str, batch: int) -> None:
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / log / name).unlink(missing_ok=True)


def in_flight(example: Example) -> None:
    """Killed between the sink's commit and the checkpoint's."""
    remove(example.checkpoint, "commits", newest_of(example.checkpoint))


def rewound(example: Example) -> None:
    # Two batches: the newest may be one without rows, which a stateful query makes to close windows.
    for _ in range(2):
        newest = newest_of(example.checkpoint)
        for log in ("offsets", "commits"):
            remove(example.checkpoint, log, newest)


def deleted(example: Example) -> None:
    shutil.rmtree(example.checkpoint)


def of_another(example: Example) -> None:
    """Somebody has put the checkpoint of another query in its place: as whole, with another id."""
    metadata = example.checkpoint / "metadata"
    metadata.write_text(json.dumps({"id": "00000000-0000-4000-8000-000000000000"}))
    (example.checkpoint / ".metadata.crc").unlink(missing_ok=True)


def swapped(example: Example) -> None:
    """The table was made anew under its name."""
    table = str(example.table)
    schema = examples_scene.session().read.format("delta").load(table).schema
    shutil.rmtree(table)
    examples_scene.session().createDataFrame([], schema).write.format("delta").save(table)


SHAPES: tuple[tuple[Callable[[Example], None], bool], ...] = (
    (in_flight, True),
    (rewound, False),
    (deleted, False),
    (of_another, False),
    (swapped, False),
)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_guarded_by_three_lines_at_most(name: str) -> None:
    plain, guarded = ((EXAMPLES / name / which).read_text().splitlines() for which in ("plain.py", "guarded.py"))
    changed = [line for line in difflib.ndiff(plain, guarded) if line.startswith("+ ")]
    assert 1 <= len(changed) <= 3
    assert "surestart" not in "\n".join(plain)
    assert f"`{name}`" in (EXAMPLES / "README.md").read_text()


def check(example: Example, damage: Callable[[Example], None], safe: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a topic that a plain start has read from, nobody knows whether it is still the same one.
    first = "guarded" if example.name == "kafka_to_delta" else "plain"
    for which in (first, "guarded", "guarded"):
        said = example.play(which)
    assert said.startswith(f"{example.name}: ")
    expect_each(example)
    adopted = example.root / "adopted.toml"
    main(["adopt", "--checkpoints", str(example.root), "-o", str(adopted)])
    damage(example)
    doctor = main(["doctor", "--streams", str(example.root / "surestart.toml"), "--no-color"])
    # With nothing added by hand: what stays a question may be "cannot tell", and nothing else.
    by_adoption = main(["doctor", "--streams", str(adopted), "--no-color"])
    if safe:
        assert EXIT_REFUSED not in (doctor, by_adoption)
        example.play("guarded")
        expect_each(example)
        return
    assert doctor == EXIT_REFUSED
    assert by_adoption in (EXIT_REFUSED, EXIT_CANNOT_TELL)
    before = {path: data for path, data in example.bytes().items() if "/bronze/" not in path}
    # What comes before the guarded start in the script is not the stream's: its input.
    inputs = {str(example.here / "orders")} if example.name == "delta_to_merge" else {str(example.here / "bronze")}
    with pytest.raises(surestart.Refused):
        example.play("guarded")
    after = example.bytes()
    assert {path: data for path, data in after.items() if not any(path.startswith(one) for one in inputs)} == {
        path: data for path, data in before.items() if not any(path.startswith(one) for one in inputs)
    }
    # Another id alone is refused by the history, which cannot know that all else is the stream's own. And each batch of
    # the merged orders has every customer, so that any later one makes that table right by chance.
    if damage is not of_another and (damage is rewound or example.name != "delta_to_merge"):
        assert harmed(example, monkeypatch), "a false unsafe: without the guard all went well"


def harmed(example: Example, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the refused start, made all the same, loses rows, doubles them or fails."""
    monkeypatch.setattr(surestart, "start", lambda writer, name, *place: writer.start(*place))
    try:
        example.play("guarded")
        expect_each(example)
    except (AssertionError, StreamingQueryException):
        return True
    return False


@pytest.mark.parametrize("example", ["several_sinks"], indirect=True)
@pytest.mark.parametrize(("damage", "safe"), [(in_flight, True), (deleted, False)], ids=["in flight", "deleted"])
def test_an_example_is_damaged_and_started_again(
    example: Example, damage: Callable[[Example], None], safe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(example, damage, safe, monkeypatch)


@pytest.mark.chaos
@pytest.mark.parametrize("example", ["kafka_to_delta"], indirect=True)
def test_a_topic_that_a_plain_start_has_read_from_is_asked_about(example: Example) -> None:
    example.play("plain")
    before = example.bytes()
    with pytest.raises(surestart.CannotTell) as said:
        example.play("guarded")
    assert said.value.code == "KAFKA_TOPIC_NOT_RECORDED"
    assert "accept=['KAFKA_TOPIC_NOT_RECORDED']" in str(said.value.next)
    assert example.bytes() == before


@pytest.mark.chaos
@pytest.mark.parametrize("example", NAMES, indirect=True)
@pytest.mark.parametrize(("damage", "safe"), SHAPES, ids=[shape.__name__ for shape, _ in SHAPES])
def test_each_example_is_damaged_and_started_again(
    example: Example, damage: Callable[[Example], None], safe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(example, damage, safe, monkeypatch)
