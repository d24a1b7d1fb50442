"""A driver reduced to its claim: `python -m tests.gate.claimant LOCK START_AT_NS HOLD_MS` prints `ran` or `refused`.

It waits for a point in time, so that two of them start at an offset of milliseconds. The one that owns the claim adds a
row to `<LOCK>.rows`, the work that must be done once at a time.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from surestart.history.claim_file import take_claim
from surestart.history.run_record import RunRecord


def main() -> None:
    path, start_at, hold = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1000
    while time.time_ns() < start_at:
        pass
    claim = take_claim(path)
    if claim is None:
        print("refused")
        return
    claim.write(RunRecord(run_id=f"{start_at}", query="q"))
    inside = path.with_suffix(".inside")
    # Created by one only: a second owner at the same time would find it there.
    inside.touch(exist_ok=False)
    until = time.monotonic() + hold
    while time.monotonic() < until:
        pass
    inside.unlink()
    claim.release(clear=True)
    print("ran")


if __name__ == "__main__":
    main()
