"""One module for each kind of step, with `apply_step` and `undo_step`; `journal.step_kinds` has the table of them.

Each can be called again after it, or any part of it, was done: it does what is missing.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def module_of(kind: str) -> ModuleType:
    """What applies and undoes the steps of a kind."""
    return importlib.import_module(f"surestart.remedies.steps.{kind}")
