"""What a refusal has to leave as it was."""

from __future__ import annotations

from pathlib import Path

from surestart.environment import Environment


def bytes_of(environment: Environment) -> dict[str, bytes]:
    """Every file of every checkpoint and table, the history's own left out."""
    root = Path(environment.root)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "surestart_runs" not in path.parts
    }
