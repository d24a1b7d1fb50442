"""The time and memory of an inspection. The limits are the issue's; the machine may be busy, so the best of three "
"counts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from checkpoint_maker import commit_text, files, make_checkpoint, offsets_text

MEASURED = """
import resource, sys, time
begin = time.process_time()
from surestart.cli import main
code = main(["inspect", sys.argv[1], "--sink", "none"])
spent = time.process_time() - begin
sys.stderr.write(f"{spent:.3f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}")
sys.exit(code)
"""


def best(times: int, measure: Callable[[], tuple[float, float, int]]) -> tuple[float, float, int]:
    found = [measure() for _ in range(times)]
    return min(own for own, _, _ in found), min(total for _, total, _ in found), max(kb for _, _, kb in found)


def inspect(root: Path) -> tuple[float, float, int]:
    """(own processor seconds after the interpreter's start, seconds in all, peak kB)"""
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", MEASURED, str(root)], capture_output=True, text=True, check=False)
    total = time.perf_counter() - begin
    assert done.returncode in (0, 1), done.stdout + done.stderr
    own, kilobytes = done.stderr.split()
    return float(own), total, int(kilobytes)


def calibration() -> float:
    """How much slower than an idle 3 GHz core this machine is right now, at least 1."""
    begin = time.process_time()
    sum(number * number for number in range(1_000_000))
    return max(1.0, (time.process_time() - begin) / 0.05)


def test_a_normal_checkpoint_takes_a_fraction_of_a_second(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck", planned=range(100), committed=range(100))
    slower = calibration()
    own, total, _ = best(3, lambda: inspect(root))
    assert own < 0.150 * slower, f"{own:.3f} s of its own time, machine {slower:.1f} times slower than idle"
    assert total < 0.5 * slower, f"{total:.3f} s in all, machine {slower:.1f} times slower than idle"


def test_a_hundred_thousand_log_files(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck", planned=(), committed=())
    offsets, commit = offsets_text('{"orders":{"0":1}}'), commit_text()
    (tmp_path / "offsets").write_text(offsets)
    (tmp_path / "commit").write_text(commit)
    for batch in range(50_000):
        # Hard links: a hundred thousand names in a second, each of them a file to the reader.
        (root / "offsets" / str(batch)).hardlink_to(tmp_path / "offsets")
        (root / "commits" / str(batch)).hardlink_to(tmp_path / "commit")
    own, _, kilobytes = inspect(root)
    assert own < 5
    assert kilobytes < 300_000


def test_a_list_of_a_million_files(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck", planned=range(10), committed=range(10), source=files)
    line = '\n{"path":"file:///landing/dt=2026-01-01/part-%08d-9b51437aa2c6f53efd7e.json","timestamp":1,"batchId":9}'
    with (root / "sources/0/9.compact").open("w") as log:
        log.write("v1")
        for thousand in range(1_000):
            log.write("".join(line % (thousand * 1_000 + number) for number in range(1_000)))
    own, _, kilobytes = inspect(root)
    assert own < 5
    assert kilobytes < 300_000
