"""Has surestart.toml name the place to which a checkpoint was moved: that one value, and nothing else of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.step_context import StepContext
from surestart.streams.change_file import FileChange, make_change


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The file declares the new place."""
    make_change(_change(step))
    return {}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The value is spelled as it was before."""
    make_change(_change(step).back)
    return {}


def _change(step: Step) -> FileChange:
    said = step.arguments
    return FileChange(Path(str(said["file"])), str(said["stream"]), str(said["former"]), str(said["new"]))
