"""A run that has passed the gate: what it tells of itself while it runs, and its row in the history when it ends."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from surestart.environment import Environment
from surestart.errors import SurestartError
from surestart.facts.delta.pinned import first_line
from surestart.history.claim_file import HeldClaim
from surestart.history.describe_run import named, now_ms
from surestart.history.run_record import DIED, ENDED, FAILED, FINISHED, STOPPED, RunRecord
from surestart.history.run_table import append_runs
from surestart.library_types import SparkSession
from surestart.runs.history_findings import read_sink_ids
from surestart.stage import Stage
from surestart.typed import in_the_code, surestart
from surestart.verdict.diagnose import Diagnosis
from surestart.words.amounts import sum_of

# Newest batches whose metrics are kept with the run; a row of some 20 kB at most.
METRICS = 100


class StoppedWith(BaseException):
    """Not the stage's own failure: another stage of the process ended, or somebody pressed Ctrl-C."""

    def __init__(self, stage: str, reason: BaseException | None) -> None:
        code = reason.code if isinstance(reason, SurestartError) else type(reason).__name__
        super().__init__(f"{code} of {stage}" if stage else code)


def write_warning(warning: SurestartError) -> None:
    sys.stderr.write(f"{warning}\n")


class GuardedRun:
    """A run that has passed the gate: what it tells of itself goes into the history when it ends."""

    def __init__(
        self,
        spark: SparkSession,
        environment: Environment,
        stage: Stage,
        record: RunRecord,
        claim: HeldClaim | None = None,
        died: Sequence[RunRecord] = (),
        warn: Callable[[SurestartError], object] = write_warning,
    ) -> None:
        self._spark, self._environment, self._stage = spark, environment, stage
        self._claim = claim
        self._died = tuple(died)
        self._warn = warn
        self._metrics: deque[Mapping[str, Any]] = deque(maxlen=METRICS)
        self.record = record
        self._tell()

    def started(self, query_id: str) -> None:
        """The query runs under this id: from here on the run is in the history, however it ends."""
        self.record = replace(self.record, query_id=query_id)
        self._tell()

    @property
    def claim(self) -> tuple[str, str]:
        """The claim's file, "" where it is a row, and the run that it names."""
        return str(self._claim.path) if self._claim is not None else "", self.record.run_id

    def beat(self) -> None:
        """Whoever watches the query is alive, with or without new data."""
        if self._claim is not None:
            self._claim.beat()

    def count(self, batch: int, rows: int | None, seconds: float, report: Mapping[str, Any]) -> None:
        """rows: None where nobody says."""
        run = self.record
        self.record = replace(
            run,
            first_batch=batch if run.first_batch is None else min(run.first_batch, batch),
            last_batch=batch if run.last_batch is None else max(run.last_batch, batch),
            batches=run.batches + 1,
            rows=sum_of(run.rows, rows),
        )
        self._metrics.append(_metric(batch, rows, seconds, report))

    def end_with(self, reason: BaseException | None) -> None:
        """As `ended`, with the outcome that this reason stands for."""
        if reason is None:
            self.ended(FINISHED)
        elif isinstance(reason, SurestartError):
            self.ended(FAILED, reason.code)
        elif isinstance(reason, StoppedWith):
            self.ended(STOPPED, str(reason))
        else:
            self.ended(FAILED if isinstance(reason, Exception) else STOPPED, type(reason).__name__)

    def ended(self, outcome: str, error: str = "") -> None:
        """The row is written, unless the run had nothing to do and nothing to say. Never raises: the stream has run."""
        left = self._died
        if self._has_something_to_say(outcome):
            row = self._finish(outcome, error)
            left = (*self._died, row)
            try:
                sinks = read_sink_ids(self._spark, self._stage, self._environment)
                append_runs(self._spark, self._environment, (*self._died, replace(row, sinks=sinks)))
                left = ()
            except Exception as problem:  # noqa: BLE001  The stream's own result stands, whatever the history's fate.
                self._warn(_not_written(self._stage.name, self._environment, problem))
        if self._claim is not None:
            self._release(self._claim, left)

    def _has_something_to_say(self, outcome: str) -> bool:
        run = self.record
        if run.epoch is not None:
            return True
        return bool(run.query_id and (run.batches or outcome != FINISHED or run.accepted or self._died))

    def _release(self, claim: HeldClaim, left: Sequence[RunRecord]) -> None:
        try:
            if left:
                # The next run of the query writes them.
                claim.write(None, left)
        except OSError as problem:
            self._warn(_not_written(self._stage.name, self._environment, problem))
        finally:
            claim.release(clear=not left)

    def _tell(self) -> None:
        if self._claim is not None:
            self._claim.write(self.record, self._died, beats=True)

    def _finish(self, outcome: str, error: str) -> RunRecord:
        return replace(
            self.record,
            event=ENDED,
            outcome=outcome,
            error=error,
            ended_at=now_ms(),
            metrics=tuple(self._metrics),
        )


def died_run(run: RunRecord, diagnosis: Diagnosis) -> RunRecord:
    """The row of a run that could not write its own: how far it came, its checkpoint says."""
    if run.outcome:
        return run
    checkpoint = diagnosis.evidence.checkpoint
    same = run.query_id and run.query_id == checkpoint.query_id
    return replace(run, event=ENDED, outcome=DIED, last_batch=checkpoint.latest_committed if same else None)


def _metric(batch: int, rows: int | None, seconds: float, report: Mapping[str, Any]) -> dict[str, Any]:
    sources = [source for source in report.get("sources") or () if isinstance(source, Mapping)]
    lag = {
        name: value
        for source in sources
        for name, value in (source.get("metrics") or {}).items()
        if "ehind" in name or "utstanding" in name
    }
    phases = {name: ms for name, ms in (report.get("durationMs") or {}).items() if isinstance(ms, int)}
    return {
        "batch": batch,
        "rows": rows,
        "ms": round(seconds * 1000),
        "at": report.get("timestamp"),
        "phases": phases,
        "lag": lag,
    }


# What Spark and Delta say in a session that was made without Delta's jars, or without its extension and catalog.
_WITHOUT_DELTA = ("DATA_SOURCE_NOT_FOUND", "DELTA_CONFIGURE_SPARK_SESSION", "delta.DefaultSource")


def _not_written(stage: str, environment: Environment, problem: Exception) -> SurestartError:
    if any(said in str(problem) for said in _WITHOUT_DELTA):
        return SurestartError(
            f"the run of {stage} is not in the history: this Spark session has no Delta, and the history is a Delta "
            "table",
            meaning="The stream itself ran as reported; its rows and its checkpoint are in order. The run's row is "
            "kept with its claim, and the next start in a session with Delta writes it.",
            next=in_the_code(
                "make the session by surestart.local_session(), or by configure_spark_with_delta_pip(builder) of the "
                "package delta-spark with the two settings that Delta's quick start names"
            ),
            do_not="run the stage again for the sake of the history.",
            code="HistoryNotWritten",
        )
    return SurestartError(
        f"the run of {stage} is not in the history: {first_line(problem)}",
        meaning="The stream itself ran as reported; its rows and its checkpoint are in order. The next start knows "
        "less of this one.",
        next=surestart("history", stage, place=named(environment)),
        do_not="run the stage again for the sake of the history.",
        code="HistoryNotWritten",
    )
