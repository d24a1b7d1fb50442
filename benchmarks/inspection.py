"""`python -m benchmarks inspection`: how long `surestart inspect` takes, beside Spark's own reader of a checkpoint.

Own time: processor seconds after the interpreter's start, imports included. In all: from the shell's point of view.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5
PROGRAM = """
import sys, time
begin = time.process_time()
from surestart.cli.main import main
code = main(["inspect", sys.argv[1], "--sink", "none"])
spent = time.process_time() - begin
peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
sys.stderr.write(f"{spent:.3f} {peak}")
sys.exit(code)
"""
# The question that Spark answers itself, as far as it can: it starts a JVM and tells of stateful operators only.
SPARK = """
import sys
from surestart.spark.session import local_session
spark = local_session("state-metadata")
spark.read.format("state-metadata").load(sys.argv[1]).collect()
spark.stop()
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for name, make, own_bar, total_bar in (
            ("100 batches, one source", _normal, 0.150, 0.5),
            ("100,000 log files", _many_batches, 5.0, None),
            ("file list of 1,000,000 lines", _long_list, 5.0, None),
        ):
            root = Path(folder) / name.replace(" ", "-")
            make(root)
            _inspect(root, Path(folder))  # fills the cache of compiled modules, as an installation does
            measured = [_inspect(root, Path(folder)) for _ in range(ROUNDS)]
            own, total = (statistics.median(each[index] for each in measured) for index in (0, 1))
            peak = max(each[2] for each in measured)
            met = own < own_bar and (total_bar is None or total < total_bar) and peak < 300
            rows.append((name, f"{own:.3f} s", f"{total:.2f} s", f"{peak:.0f} MB", "yes" if met else "NO"))
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", SPARK, str(Path(folder) / "100-batches,-one-source")],
            capture_output=True,
            text=True,
            check=False,
        )
        answer = "" if done.returncode == 0 else " (failed)"
        rows.append((f"Spark's state-metadata reader{answer}", "", f"{time.perf_counter() - begin:.2f} s", "", ""))
    for row in (("surestart inspect", "own time", "in all", "peak", "bar met"), *rows):
        print(f"{row[0]:<40} {row[1]:>10} {row[2]:>10} {row[3]:>10} {row[4]:>8}")
    return 1 if any(row[4] == "NO" for row in rows) else 0


def _inspect(root: Path, work: Path) -> tuple[float, float, float]:
    # As `make` has it: where an image forbids Python to write compiled modules, every call would compile them anew.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(work / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", PROGRAM, str(root)]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    total = time.perf_counter() - begin
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout + done.stderr)
    own, kilobytes = done.stderr.split()
    return float(own), total, int(kilobytes) / 1024


_METADATA = '{"id":"6e1f1d2c-8f0a-4f0e-9a37-3d1f0b6f7c11"}'
_OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1734074067729,"conf":{"spark.sql.shuffle.partitions":"2"}}\n'
_COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


def _skeleton(root: Path) -> None:
    for name in ("offsets", "commits", "sources/0"):
        (root / name).mkdir(parents=True)
    (root / "metadata").write_text(_METADATA)


def _normal(root: Path) -> None:
    _skeleton(root)
    for batch in range(100):
        (root / "offsets" / str(batch)).write_text(_OFFSETS + f'{{"orders":{{"0":{batch * 10}}}}}')
        (root / "commits" / str(batch)).write_text(_COMMIT)
    (root / "sources/0/0").write_bytes(b'\x00v1\n{"orders":{"0":0}}')


def _many_batches(root: Path) -> None:
    _normal(root)
    for batch in range(100, 50_000):
        (root / "offsets" / str(batch)).hardlink_to(root / "offsets/99")
        (root / "commits" / str(batch)).hardlink_to(root / "commits/99")


def _long_list(root: Path) -> None:
    _skeleton(root)
    for batch in range(10):
        (root / "offsets" / str(batch)).write_text(_OFFSETS + f'{{"logOffset":{batch}}}')
        (root / "commits" / str(batch)).write_text(_COMMIT)
    line = '\n{"path":"file:///landing/part-%08d.json","timestamp":1,"batchId":9}'
    with (root / "sources/0/9.compact").open("w") as log:
        log.write("v1")
        for number in range(1_000_000):
            log.write(line % number)


if __name__ == "__main__":
    sys.exit(main())
