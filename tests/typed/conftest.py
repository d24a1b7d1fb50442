"""The hand-written checkpoints and their shapes serve the screens too."""

from __future__ import annotations

import sys
from pathlib import Path

ROOMS = Path(__file__).parents[1]
sys.path[:0] = [str(ROOMS / "diagnosis"), str(ROOMS / "checkpoint")]
