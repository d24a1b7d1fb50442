"""Reading writes nothing: every shape there is, read with every change to the file system recorded and compared."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoint.checkpoint_maker import (
    add_crcs,
    commit_text,
    delta,
    files,
    kafka,
    make_checkpoint,
    make_state,
    offsets_text,
    rate,
)

# An audit hook sees every call that could change a file, from Python code and from the libraries below it.
RECORDED = """
import os, sys
WATCHED = os.path.realpath(sys.argv[1])
changes = []
CHANGING = {"os.remove", "os.rename",
            "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.utime", "os.truncate", "os.link",
            "os.symlink", "os.setxattr", "shutil.rmtree", "shutil.move", "shutil.copyfile", "tempfile.mkstemp"}
def record(event, args):
    if event == "open":
        path, mode, flags = args
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        if writes and isinstance(path, (str, bytes)) and os.path.realpath(os.fsdecode(path)).startswith(WATCHED):
            changes.append((event, path, flags))
    elif event in CHANGING:
        changes.append((event, *map(str, args)))
sys.addaudithook(record)
from surestart.cli.main import main
for folder in sorted(os.listdir(WATCHED)):
    for more in (["--sink", "none"], ["--json"], ["--sink", os.path.join(WATCHED, "no-such-table")]):
        code = main(["inspect", os.path.join(WATCHED, folder), *more])
        assert code in (0, 1, 3, 4), (folder, more, code)
open(os.path.join(WATCHED, "..", "probe"), "w").close()
assert not changes, changes
open(os.path.join(WATCHED, "probe"), "w").close()
assert len(changes) == 1, "the recorder records nothing"
os.remove(os.path.join(WATCHED, "probe"))
"""


def corpus(root: Path) -> None:
    """A checkpoint of each kind and each damage."""
    for name, source in (("kafka", kafka), ("files", files), ("delta", delta), ("rate", rate)):
        make_checkpoint(root / name, source=source)
        make_checkpoint(root / f"{name}-in-flight", source=source, committed=range(4))
        make_checkpoint(root / f"{name}-long", source=source, planned=range(130), committed=range(130))
        add_crcs(make_checkpoint(root / f"{name}-crc", source=source))
    for suffix in ("delta", "zip", "changelog"):
        make_state(make_checkpoint(root / f"state-{suffix}"), range(1, 6), suffix=suffix)
    for path in ("metadata", "offsets/4", "offsets/3", "commits/4", "sources/0/0"):
        for length in (0, 2, 20):
            case = make_checkpoint(root / f"torn-{path.replace('/', '-')}-{length}")
            (case / path).write_bytes((case / path).read_bytes()[:length])
    make_checkpoint(root / "ahead", planned=range(3))
    make_checkpoint(root / "no-id", query_id=None)
    (make_checkpoint(root / "v2") / "offsets/4").write_text(offsets_text("clicks:1\n", version=2))
    (make_checkpoint(root / "commit-v3") / "commits/4").write_text(commit_text(3))
    (root / "empty").mkdir()
    (root / "file").write_text("no folder")


def fingerprint(root: Path) -> dict[str, tuple[int, int, str]]:
    """Every file's and folder's mode, time of change and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(root))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def test_an_inspection_of_everything_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "corpus"
    corpus(root)
    assert len(list(root.iterdir())) > 35
    before = fingerprint(root)
    done = subprocess.run(
        [sys.executable, "-c", RECORDED, str(root)], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    after = {path: value for path, value in fingerprint(root).items() if path != "probe"}
    assert after == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads and writes through every permission")
def test_a_folder_without_write_permission_is_read(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck")
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = subprocess.run([sys.executable, "-m", "surestart", "inspect", str(root), "--sink", "none"], check=False)
    assert done.returncode == 0
