"""A checkpoint is untrusted input: markup, escape codes, `../`, gigabytes and endless nesting are shown inert and "
"bounded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surestart.facts.checkpoint.batch_logs import parse_commit_log, parse_offset_log
from surestart.facts.checkpoint.log_file import FormatError
from surestart.report.json.inspection import inspection_json
from surestart.report.text.inspection import render_inspection
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.inert import inert
from tests.checkpoint.checkpoint_maker import QUERY_ID, commit_text, compact, make_checkpoint, make_state, offsets_text

TRICKS = (
    "\x1b[2J\x1b[1;1H\x1b]0;owned\x07",
    "<script>alert(1)</script>",
    "../../../../etc/passwd",
    "safe\u202egnp.exe",
    "zero\u200bwidth",
    "line\nfeed\r\nand\ttab\x00nul",
    "surrogate \ud800 half",
    "\u2028separator",
    "x" * 5_000_000,
)


def hostile(root: Path, text: str) -> Path:
    """The text wherever a checkpoint has room for it: topic, settings, file and folder names, state, file list."""
    topic = compact({text: {"0": 1}})
    make_checkpoint(root, source=lambda batch: topic)
    latest = offsets_text(topic, confs={text: text, "spark.sql.shuffle.partitions": text})
    (root / "offsets/4").write_text(latest, encoding="utf-8", errors="surrogatepass")
    (root / "sources/0/0").write_text("v1\n" + compact({"path": text, "timestamp": 1, "batchId": 0}))
    make_state(root, range(1, 6), name=text)
    short = "".join(letter for letter in text[:60] if letter not in "/\x00\ud800")
    for name in (short, f"offsets/{short}", f"sources/{short}"):
        (root / name).mkdir(exist_ok=True)
    (root / "commits/4").write_text(commit_text() + text[:200].replace("\ud800", ""))
    return root


@pytest.mark.parametrize("text", TRICKS, ids=lambda text: inert(text, 12))
def test_text_and_json_stay_inert_and_short(tmp_path: Path, text: str) -> None:
    inspection = inspect_checkpoint(str(hostile(tmp_path / "ck", text)), sinks=("none",))
    shown = render_inspection(inspection)
    for character in shown.replace("\n", ""):
        assert unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"), hex(ord(character))
    assert max(len(line) for line in shown.splitlines() if not line.startswith("  Next: ")) <= 80
    assert len(shown) < 20_000
    document = inspection_json(inspection)
    assert document.isascii()
    assert "\x1b" not in document
    assert len(document) < 60_000
    assert json.loads(document)["verdict"] != "safe"


def test_names_from_the_checkpoint_never_become_paths(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck", source=lambda batch: compact({"../../../etc/passwd": {"0": 1}}))
    (root / "state/0/_metadata").mkdir(parents=True)
    (root / "state/0/_metadata/metadata").symlink_to("/etc/passwd")
    (root / "sources/0/0").symlink_to("/etc/passwd")
    assert "root:" not in inspection_json(inspect_checkpoint(str(root)))


def test_bytes_that_are_no_text_in_a_file_name(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe")).touch()
    assert inspection_json(inspect_checkpoint(str(root))).isascii()


@pytest.mark.parametrize("path", ["metadata", "offsets/4", "commits/4", "sources/0/0"])
def test_a_sparse_gigabyte_is_not_read_into_memory(tmp_path: Path, path: str) -> None:
    root = make_checkpoint(tmp_path / "ck")
    with (root / path).open("r+b") as file:
        file.truncate(1 << 30)
    code = (
        "import sys; from surestart.cli.main import main; "
        f"code = main(['inspect', {str(root)!r}, '--sink', 'none']); "
        # Not ru_maxrss: a child starts with its parent's peak, and pytest's is a Spark driver's.
        "peak = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0]; "
        "sys.stderr.write(peak); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (3, 4), done.stdout + done.stderr
    assert int(done.stderr) < 120_000


def test_a_million_names_in_a_folder_are_counted_and_not_shown(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck")
    for number in range(5_000):
        (root / "offsets" / f"junk-{number}").touch()
        (root / "offsets" / f".{number}.x.tmp").touch()
    inspection = inspect_checkpoint(str(root))
    assert inspection.checkpoint.offsets_folder.stray_count == 5_000
    assert inspection.checkpoint.leftover_count == 5_000
    assert len(render_inspection(inspection)) < 5_000


def test_a_deep_tree_under_state_is_not_walked_for_ever(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck")
    make_state(root, range(1, 6))
    deep = root / "state/0/0"
    for _ in range(40):
        deep = deep / "0"
    deep.mkdir(parents=True)
    assert inspect_checkpoint(str(root)).checkpoint.state.operators[0].partitions == 2


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_bytes_parse_or_are_named(data: bytes) -> None:
    for parse in (parse_offset_log, parse_commit_log):
        for prefix in (b"", b"v1\n", b"v2\n{}\n"):
            with suppress(FormatError):
                assert parse(1, prefix + data).batch == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, JSON, JSON)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_anywhere_is_survived(tmp_path: Path, offset: object, metadata: object, commit: object) -> None:
    root = tmp_path / "ck"
    make_checkpoint(root, planned=range(2), committed=range(2))
    (root / "metadata").write_text(json.dumps({"id": QUERY_ID, "more": metadata}))
    (root / "offsets/1").write_text(f"v1\n{json.dumps(metadata)}\n{json.dumps(offset)}")
    (root / "commits/1").write_text(f"v1\n{json.dumps(commit)}")
    (root / "state/0/_metadata").mkdir(parents=True, exist_ok=True)
    (root / "state/0/_metadata/metadata").write_text(
        f"v1\n{json.dumps({'operatorInfo': offset, 'stateStoreInfo': commit})}"
    )
    inspection = inspect_checkpoint(str(root), sinks=("none",))
    json.loads(inspection_json(inspection))
    render_inspection(inspection)
