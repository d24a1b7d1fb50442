"""The closing screen of a run: rows per table, lost and duplicated, where things are, what to do next.

One live line per stage on a terminal; one line per batch where nobody watches, and where several stages run side by
side, whose live lines would wipe each other out.

sensor-raw-ingest   batch 3   80,000 rows   41,200 rows/s"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from surestart.environment import Environment
from surestart.typed import Words, surestart
from surestart.words.amounts import rows_or_unknown, sum_of
from surestart.words.next_commands import program

if TYPE_CHECKING:
    from surestart.errors import SurestartError
    from surestart.runs.runner import BatchProgress, StageRun


_COUNTS = ("produced", "raw", "deserialized", "quarantined", "gold", "lost", "duplicated")
_LABELS = {"produced": "readings produced"}


def run_table(environment: Environment, runs: Sequence[StageRun], account: Any | None, options: Words = ()) -> str:
    """account: None when nothing was counted; a table of it that is None was not reached by what ran. options: what the
    next command needs to speak of the same place."""
    lines = [""]

    if not any(run.batches for run in runs):
        lines += ["Nothing new since the last run.", ""]
    elif any(run.first_batch for run in runs):
        came = runs[0].rows
        processed = "Only what is new was processed" + (f": {came:,} records came in." if came else ".")
        lines += ["No new record came in." if came == 0 else processed, ""]
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


class ProgressLines:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
        self._query = ""
        self._open = 0
        self._rows: dict[str, int | None] = {}

    def note(self, text: str) -> None:
        self._show(f"{text} …", keep=not self._live)

    def begin(self, query: str) -> None:
        self._query = query
        self._rows.pop(query, None)
        self._open += 1
        if self._live:
            self._show(f"{query:<22} starting", keep=False)

    def batch(self, progress: BatchProgress) -> None:
        query = progress.query or self._query
        total = self._rows[query] = sum_of(self._rows.get(query), progress.rows)
        keep = not self._live or self._open > 1
        # A live line counts on; a line that stays says what its own batch had.
        rows = _rows_and_rate(progress.rows if keep else total, progress.rows_per_second, 10)
        self._show(f"{query:<22} batch {progress.batch:<4} {rows}", keep=keep)

    def warn(self, warning: SurestartError) -> None:
        """Says something that does not fail the run."""
        self._show(str(warning), keep=True)

    def end(self, run: StageRun) -> None:
        self._open -= 1
        if not run.batches:
            self._show(f"{self._query:<22} nothing new", keep=True)
            return
        batches = f"batch {run.first_batch}" if run.batches == 1 else f"batches {run.first_batch}-{run.last_batch}"
        replay = f", batch {run.replayed} was a replay" if run.replayed is not None else ""
        self._show(
            f"{self._query:<22} {batches:<14} {_rows_and_rate(run.rows, (run.rows or 0) / run.seconds, 9)}  "
            f"{run.seconds:.1f} s{replay}",
            keep=True,
        )

    def clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _show(self, text: str, keep: bool) -> None:
        self._stream.write((f"\r\x1b[K{text}" if self._live else text) + ("\n" if keep else ""))
        self._stream.flush()


def _rows_and_rate(rows: int | None, rate: float, width: int) -> str:
    said = "?" if rows is None else f"{rate:,.0f}"
    return f"{rows_or_unknown(rows):>{width}} rows  {said:>9} rows/s"
