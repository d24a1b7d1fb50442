"""One JSON object per line on stderr, for jobs whose log is read by a machine: `surestart run … --log json`.

    {"at": "2026-11-18T14:02:11.482Z", "event": "batch", "query": "sensor-raw-ingest", "batch": 3, "rows": 20000, …}

Events: note, start, batch, end, warning, error, interrupted. A field is left out rather than null.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from surestart.errors import SurestartError
    from surestart.runs.runner import BatchProgress, StageRun


class JsonLog:
    """Takes the place of ProgressLines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._query = ""

    def note(self, text: str) -> None:
        self._write("note", text=text)

    def begin(self, query: str) -> None:
        self._query = query
        self._write("start")

    def batch(self, progress: BatchProgress) -> None:
        self._write(
            "batch",
            query=progress.query or self._query,
            batch=progress.batch,
            rows=progress.rows,
            seconds=round(progress.seconds, 3),
            phases_ms=dict(progress.report.get("durationMs") or {}),
        )

    def end(self, run: StageRun) -> None:
        self._write(
            "end",
            query=run.query or self._query,
            query_id=run.query_id,
            batches=run.batches,
            rows=run.rows,
            seconds=round(run.seconds, 3),
            first_batch=run.first_batch,
            last_batch=run.last_batch,
            replayed=run.replayed,
        )

    def warn(self, warning: SurestartError) -> None:
        """Says something that does not fail the run."""
        self._message("warning", warning)

    def error(self, error: SurestartError, traceback: str = "") -> None:
        self._message("error", error, traceback)

    def interrupted(self) -> None:
        self._write("interrupted", text="Nothing is lost: run the same command again and it goes on where it was.")

    def _message(self, event: str, error: SurestartError, traceback: str = "") -> None:
        self._write(
            event,
            code=error.code,
            exit_code=error.exit_code if event == "error" else None,
            what=error.what,
            meaning=error.meaning,
            next=str(error.next),
            do_not=error.do_not,
            traceback=traceback,
        )

    def clear(self) -> None:
        """Nothing to clear: there is no live line."""

    def _write(self, event: str, **fields: Any) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        body: dict[str, Any] = {"at": at, "event": event, "query": self._query}
        body.update(fields)
        kept = {name: value for name, value in body.items() if value not in (None, "")}
        # One write per line: two stages' processes may share a log.
        self._stream.write(json.dumps(kept, default=str) + "\n")
        self._stream.flush()
