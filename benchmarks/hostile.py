"""What `surestart inspect` costs on places larger than anything Spark writes: `python -m benchmarks.hostile [NAME …]`.

the whole process, its start included     bar: 5 s of processor time, 300 MB
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.hostile_places import LARGE, PLACES

LIMIT_SECONDS, LIMIT_MB = 5.0, 300


def main() -> int:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    met_all = True
    for name, place in {**PLACES, **LARGE}.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            arguments = place.build(Path(folder))
            code, seconds, megabytes = _measure(arguments)
        met = seconds <= LIMIT_SECONDS and megabytes <= LIMIT_MB and code in place.codes
        met_all &= met
        print(f"{name:<40}  {seconds:5.1f} s  {megabytes:5.0f} MB  exit {code}  {'yes' if met else 'NO'}")
    return 0 if met_all else 1


_MEASURED = """
import sys, time
from surestart.cli.main import main
code = main(["inspect", *sys.argv[1:]])
peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
sys.stderr.write(f"\\n{time.process_time()} {peak}")
sys.exit(code)
"""


def _measure(arguments: list[str]) -> tuple[int, float, float]:
    """Exit code, processor seconds and peak MB of that process, told by itself: to its parent a child's peak is never
    below the parent's own."""
    command = [sys.executable, "-c", _MEASURED, *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seconds, kilobytes = done.stderr.splitlines()[-1].split()
    return done.returncode, float(seconds), int(kilobytes) / 1000


if __name__ == "__main__":
    sys.exit(main())
