"""The closing screen of a run: rows per table, lost and duplicated, where things are, what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from surestart.environment import Environment

if TYPE_CHECKING:
    from surestart.runner import StageRun

_COUNTS = ("produced", "raw", "deserialized", "quarantined", "gold", "lost", "duplicated")
_LABELS = {"produced": "readings produced"}


def run_table(environment: Environment, runs: Sequence[StageRun], account: Any | None) -> str:
    lines = [""]
    new = sum(run.rows for run in runs)
    if not any(run.batches for run in runs):
        lines += ["Nothing new since the last run.", ""]
    elif any(run.first_batch for run in runs):
        lines += [f"Only what is new was processed: {runs[0].rows if runs else new:,} records came in.", ""]
    if account is not None:
        for name in _COUNTS:
            lines.append(f"  {_LABELS.get(name, name):<18} {getattr(account, name):>12,}")
        lines += ["  (counted in plain Python from the input and the tables' files, not by Spark)", ""]
        for fault, number in sorted(account.faults.items()):
            lines.append(f"  FAULT {fault}: {number:,}")
        if account.faults:
            lines.append("")
    place = environment.root + "/tables" if environment.root else f"{environment.catalog}.{environment.schema}"
    lines += [
        f"  tables       {place}",
        f"  checkpoints  {environment.checkpoint_root}",
        "",
        f"Next: {_next(environment, account)}",
        "",
    ]
    return "\n".join(lines)


def _next(environment: Environment, account: Any | None) -> str:
    if account is not None and not account.is_exact:
        return f"surestart doctor --env {environment.name}"
    return f"surestart status --env {environment.name}"
