"""The hand-written checkpoints of tests/checkpoint serve the diagnosis too; the lab is shared with benchmarks/."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "checkpoint")]
