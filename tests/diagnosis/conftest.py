"""The hand-written checkpoints of tests/checkpoint serve the diagnosis too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "checkpoint"))
