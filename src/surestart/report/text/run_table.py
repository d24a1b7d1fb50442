"""The closing screen of a run: rows per table, lost and duplicated, where things are, what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from surestart.environment import Environment
from surestart.typed import Words, surestart
from surestart.words.next_commands import program

if TYPE_CHECKING:
    from surestart.runs.runner import StageRun

_COUNTS = ("produced", "raw", "deserialized", "quarantined", "gold", "lost", "duplicated")
_LABELS = {"produced": "readings produced"}


def run_table(environment: Environment, runs: Sequence[StageRun], account: Any | None, options: Words = ()) -> str:
    """account: None when nothing was counted; a table of it that is None was not reached by what ran. options: what the
    next command needs to speak of the same place."""
    lines = [""]
    new = sum(run.rows for run in runs)
    if not any(run.batches for run in runs):
        lines += ["Nothing new since the last run.", ""]
    elif any(run.first_batch for run in runs):
        lines += [f"Only what is new was processed: {runs[0].rows if runs else new:,} records came in.", ""]
    if account is not None:
        counted = {name: getattr(account, name) for name in _COUNTS}
        lines += [f"  {_LABELS.get(name, name):<18} {rows:>12,}" for name, rows in counted.items() if rows is not None]
        lines += [f"  {note}: {rows:,}" for note, rows in account.notes.items()]
        lines += ["  (counted in plain Python from the input and the tables' files, not by Spark)", ""]
        for fault, number in sorted(account.faults.items()):
            lines.append(f"  FAULT {fault}: {number:,}")
        if account.faults:
            lines.append("")
        left_out = [name for name, rows in counted.items() if rows is None]
        if left_out:
            lines += [f"  Not counted, because the run ended with {runs[-1].stage}: {', '.join(left_out)}.", ""]
    following = surestart(_verb(account), "--env", environment.name, *options)
    place = environment.root + "/tables" if environment.root else f"{environment.catalog}.{environment.schema}"
    lines += [
        f"  tables       {place}",
        f"  checkpoints  {environment.checkpoint_root}",
        "",
        f"Next: {replace(following, program=program())}",
        "",
    ]
    return "\n".join(lines)


def _verb(account: Any | None) -> str:
    """After a fault: `verify`, which counts again, names the rows, and says what fills or rebuilds them."""
    return "status" if account is None or account.is_exact else "verify"
