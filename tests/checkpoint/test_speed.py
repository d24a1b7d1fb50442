"""The memory of an inspection, whatever it is given. Its time is measured in `make bench`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.checkpoint.checkpoint_maker import commit_text, files, make_checkpoint, offsets_text

MEASURED = """
import sys
from surestart.cli.main import main
code = main(["inspect", sys.argv[1], "--sink", "none"])
# Not ru_maxrss: a child starts with its parent's peak, and pytest's is a Spark driver's.
peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
sys.stderr.write(peak)
sys.exit(code)
"""


def inspect(root: Path) -> int:
    """Peak kB of a whole `surestart inspect`. Its time is measured in `make bench`: this machine may be busy."""
    done = subprocess.run([sys.executable, "-c", MEASURED, str(root)], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return int(done.stderr)


def test_a_hundred_thousand_log_files(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck", planned=(), committed=())
    offsets, commit = offsets_text('{"orders":{"0":1}}'), commit_text()
    (tmp_path / "offsets").write_text(offsets)
    (tmp_path / "commit").write_text(commit)
    for batch in range(50_000):
        # Hard links: a hundred thousand names in a second, each of them a file to the reader.
        (root / "offsets" / str(batch)).hardlink_to(tmp_path / "offsets")
        (root / "commits" / str(batch)).hardlink_to(tmp_path / "commit")
    kilobytes = inspect(root)
    assert kilobytes < 300_000


def test_a_list_of_a_million_files(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck", planned=range(10), committed=range(10), source=files)
    line = '\n{"path":"file:///landing/dt=2026-01-01/part-%08d-9b51437aa2c6f53efd7e.json","timestamp":1,"batchId":9}'
    with (root / "sources/0/9.compact").open("w") as log:
        log.write("v1")
        for thousand in range(1_000):
            log.write("".join(line % (thousand * 1_000 + number) for number in range(1_000)))
    kilobytes = inspect(root)
    assert kilobytes < 300_000
