"""Names and values that only a person, or Java, takes for something: no traceback, and never a safer verdict."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surestart.cli.main import main
from surestart.facts.checkpoint.log_folder import is_batch_name, number_as_java_reads
from surestart.report.html.page import render
from surestart.report.json.inspection import inspection_json
from surestart.report.text.inspection import render_inspection
from surestart.sinks.delta.transaction import read_local_query_id
from surestart.verdict.inspection import Inspection, inspect_checkpoint
from surestart.words.finding import Verdict
from tests.checkpoint.checkpoint_maker import QUERY_ID, files, make_checkpoint, make_state, offsets_text
from tests.checkpoint.memory_storage import MemoryStorage

# Digits of Arabic, Devanagari and Thai, full-width and mathematical ones, superscripts; signs, zeros, exponents.
ODD = (
    *("07", "007", "00", "+7", "-7", "-0", " 7", "7 ", "7\n", "7_0", "1e3", "0x7", "7.0", "٧", "७", "๗", "７", "𝟕"),
    *("1٧", "²", "①", "9" * 18, "9" * 19, "9" * 20, "9" * 255, "1" * 254, "\x1b[2J", "\u202e7", "\udcff7", "n" * 255),
    *("…", "7.tmp", ".7.crc", ".7", "1" + "0" * 18, "0" * 29 + "7", "+" + "0" * 25 + "7"),
)


def shown(inspection: Inspection) -> Verdict:
    assert render_inspection(inspection)
    json.loads(inspection_json(inspection))
    assert render(inspection)
    return inspection.verdict


@pytest.mark.parametrize("name", ODD)
def test_a_number_is_what_spark_writes(name: str) -> None:
    assert is_batch_name(name) == (re.fullmatch("9{18}", name) is not None)
    taken = number_as_java_reads(name)
    assert taken is None or int(name) == taken


# Java reads any number of zeros, and numbers of up to 9 * 10^18; Spark looks for the batch before such a one.
LONG_NUMBERS = ("0" * 29 + "9", "+" + "0" * 25 + "9", "1" + "0" * 18)


@pytest.mark.parametrize("name", LONG_NUMBERS)
@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_long_number_that_java_reads_is_a_batch(log: str, name: str, tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck")
    (root / log / name).write_bytes((root / log / "4").read_bytes())
    assert main(["inspect", str(root), "--sink", "none"]) == 3


@pytest.mark.parametrize("end", ["07", "07.compact", "٧", "+7", "0" * 29 + "7"])
def test_an_entry_of_the_file_list_that_only_java_can_read(end: str, tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck", source=files, planned=range(8), committed=range(8))
    (root / "sources/0/7").rename(root / f"sources/0/{end}")
    assert main(["inspect", str(root), "--sink", "none"]) in (3, 4)
    (root / "sources/0/7").write_bytes((root / f"sources/0/{end}").read_bytes())
    assert main(["inspect", str(root), "--sink", "none"]) == 4


HOMES = (
    *("", "offsets/", "commits/", "sources/", "sources/0/", "state/", "state/0/", "state/0/0/"),
    "state/0/_metadata/v2/",
)


@given(
    st.sampled_from((files, None)),
    st.lists(
        st.tuples(
            st.sampled_from(HOMES),
            st.sampled_from(ODD),
            st.sampled_from(("", ".compact", ".delta", ".zip", ".crc", ".tmp", "/0", "/7.delta")),
            st.sampled_from((b"", b"v1\n{}", b"v1\n{}\n{}", b"\x00v1\n{}", b"\xff")),
        ),
        min_size=1,
        max_size=4,
    ),
)
@settings(max_examples=400, deadline=None)
def test_any_names_anywhere(
    made: dict[object, MemoryStorage], source: object, names: list[tuple[str, str, str, bytes]]
) -> None:
    storage = made[source]
    for home, name, end, data in names:
        path = f"{home}{name}{end}"
        if not any(path.startswith(f"{file}/") for file in storage.files):
            storage = storage.with_file(path, data)
    shown(inspect_checkpoint("/memory", sinks=("none",), storage=storage))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[object, MemoryStorage]:
    found: dict[object, MemoryStorage] = {}
    for source in (files, None):
        root = tmp_path_factory.mktemp("names") / "ck"
        make_checkpoint(root, planned=range(3), committed=range(3), **({"source": files} if source else {}))
        make_state(root, range(1, 4))
        found[source] = MemoryStorage.of(root)
    return found


HUGE = st.sampled_from((2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**18, 10**4000, -(10**4000)))
ODD_TEXT = st.sampled_from(ODD)
SINGLE = st.none() | st.booleans() | HUGE | st.integers() | st.sampled_from((1e308, -0.0, 0.5)) | st.text(max_size=20)
JSON = st.recursive(
    SINGLE | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10) | ODD_TEXT, inner, max_size=4),
    max_leaves=15,
)
# Every field that is read anywhere, so that each of them meets every kind of value.
KEYS = (
    *("logOffset", "reservoirId", "reservoirVersion", "index", "sourceVersion", "isStartingVersion", "seqNum"),
    *("orders", "batchWatermarkMs", "batchTimestampMs", "conf", "nextBatchWatermarkMs", "stateUniqueIds"),
    *("sinkMetadataMap", "0", "operatorInfo", "operatorName", "stateStoreInfo", "storeName", "numPartitions"),
    *("stateSchemaFilePaths", "id", "path", "timestamp", "batchId", "tableId", "sourceMetadataPath"),
    "controlBatchInfo",
)
TEXT = st.builds(
    lambda value, infinite: json.dumps(value).replace("0.5", "1e999") if infinite else json.dumps(value),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6) | JSON,
    st.booleans(),
)
PLACES = (
    *("metadata", "offsets/2", "offsets/1", "commits/2", "commits/1", "sources/0/2", "sources/0/0"),
    *("sources/0/9.compact", "state/0/_metadata/metadata", "state/0/_metadata/v2/1"),
    *("sources/0/_schema_log_x/0", "_schema_log_y/0"),
)


@given(
    st.sampled_from((files, None)),
    st.lists(st.tuples(st.sampled_from(PLACES), st.lists(TEXT, min_size=1, max_size=3)), min_size=1, max_size=4),
)
@settings(max_examples=400, deadline=None)
def test_any_values_anywhere(
    made: dict[object, MemoryStorage], source: object, values: list[tuple[str, list[str]]]
) -> None:
    storage = made[source]
    for path, lines in values:
        storage = storage.with_file(path, "\n".join(lines if path == "metadata" else ["v1", *lines]).encode())
    shown(inspect_checkpoint("/memory", sinks=("none",), storage=storage))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        '{"a":' * 500_000,
        '{"logOffset":' + "9" * 5_000 + "}",
        '{"logOffset":1e999}',
        '{"orders":{"٧":1}}',
        '{"orders":{"0":1e999}}',
        '{"orders":{"999999999":99999999999999999999}}',
        f'{{"id":"{QUERY_ID}","id":[]}}',
        # One more than this is longer than Python prints.
        '{"orders":{"0":' + "9" * 4_300 + "}}",
        '{"logOffset":-' + "9" * 4_300 + "}",
    ],
    ids=lambda text: text[:20],
)
def test_offsets_that_no_source_writes(text: str, tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck")
    (root / "offsets/4").write_text(offsets_text(text))
    assert shown(inspect_checkpoint(str(root), sinks=("none",))) in (Verdict.UNSAFE, Verdict.CANNOT_TELL)


@pytest.mark.parametrize("path", ["metadata", "offsets/4", "commits/4", "sources/0/0", "state/0/_metadata/metadata"])
def test_a_link_to_nothing(path: str, tmp_path: Path) -> None:
    """Listed, and not to be opened; as is a file that a running query removes at that moment."""
    root = make_checkpoint(tmp_path / "ck")
    make_state(root, [5])
    (root / path).unlink()
    (root / path).symlink_to("nothing")
    assert main(["inspect", str(root), "--sink", "none"]) in (3, 4)


def _instead(path: str, put: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        place = root / path
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        put(place)

    return change


def _notes(partitions: int) -> str:
    stores = [{"storeName": "default", "numPartitions": partitions}]
    return "v1\n" + json.dumps({"operatorInfo": {"operatorName": "dedupe"}, "stateStoreInfo": stores})


NO_STATE: dict[str, Callable[[Path], object]] = {
    "state is a file": _instead("state", Path.touch),
    "state is a pipe": _instead("state", os.mkfifo),
    "state leads nowhere": _instead("state", lambda path: path.symlink_to("nothing")),
    "an operator is a file": _instead("state/0", Path.touch),
    "the first operator is gone": lambda root: (root / "state/0").rename(root / "state/1"),
    "a snapshot is a folder": _instead("state/0/0/5.snapshot", Path.mkdir),
    "a snapshot is a pipe": _instead("state/0/0/5.snapshot", os.mkfifo),
    "no partition is declared": lambda root: (root / "state/0/_metadata/metadata").write_text(_notes(0)),
    "fewer than none": lambda root: (root / "state/0/_metadata/metadata").write_text(_notes(-5)),
}


@pytest.mark.parametrize("name", NO_STATE)
def test_state_that_is_not_what_it_is_called(name: str, tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck")
    make_state(root, [5], suffix="snapshot")
    assert main(["inspect", str(root), "--sink", "none"]) == 0
    NO_STATE[name](root)
    if "partition" in name or "fewer" in name:
        shutil.rmtree(root / "state/0/1")
    assert main(["inspect", str(root), "--sink", "none"]) in (3, 4)


def test_a_file_list_that_cannot_be_opened_or_names_no_file(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck", source=files)
    whole = (root / "sources/0/4").read_bytes()
    (root / "sources/0/4").write_text('v1\n{"path":5,"timestamp":1,"batchId":"4"}')
    assert main(["inspect", str(root), "--sink", "none"]) == 3
    (root / "sources/0/4").write_bytes(whole)
    os.mkfifo(root / "sources/0/9.compact")
    assert main(["inspect", str(root), "--sink", "none"]) == 4


@pytest.mark.parametrize("length", [300, 3_000])
def test_a_path_that_no_file_system_takes(length: int) -> None:
    assert main(["inspect", "/x" * length, "--sink", "none"]) in (1, 4)
    assert main(["inspect", "x" * length, "--sink", "none"]) in (1, 4)


@pytest.mark.parametrize("place", ["state/0/0", "state/0/0/SSTs", "state/0/0/a-store"])
def test_state_that_lies_elsewhere_was_not_looked_at(place: str, tmp_path: Path) -> None:
    """A partition on another disk is no missing one: Spark follows the link."""
    root = make_checkpoint(tmp_path / "ck")
    make_state(root, [5], suffix="snapshot")
    (root / "state/0/0/SSTs").mkdir()
    (root / "state/0/0/a-store").mkdir()
    (root / place).rename(tmp_path / "elsewhere")
    (root / place).symlink_to(tmp_path / "elsewhere")
    assert main(["inspect", str(root), "--sink", "none"]) == 4


def test_a_query_id_in_capital_letters_is_the_one_that_the_sink_knows(tmp_path: Path) -> None:
    """Spark makes a UUID of it, and writes that in small letters everywhere."""
    root = make_checkpoint(tmp_path / "ck", query_id=QUERY_ID.upper())
    assert inspect_checkpoint(str(root), sinks=("none",)).checkpoint.query_id == QUERY_ID
    assert read_local_query_id(str(root)) == QUERY_ID
