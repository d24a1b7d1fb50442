"""What the machine was doing meanwhile: load average, and a fixed piece of work that takes longer on a busy machine."""

from __future__ import annotations

import json
import os
import statistics
import time

_RECORD = json.dumps({f"field {number}": number * 1.5 for number in range(12)})


def calibrate() -> float:
    """Seconds for parsing 200,000 fixed JSON records in plain Python, the median of three."""
    return statistics.median(_parse() for _ in range(3))


def _parse() -> float:
    began = time.perf_counter()
    for _ in range(200_000):
        json.loads(_RECORD)
    return time.perf_counter() - began


def load_average() -> float:
    return os.getloadavg()[0]
