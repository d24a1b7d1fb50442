"""Prediction against outcome, shape by shape, as a confusion matrix. Used by the test and by "
"benchmarks/calibrate.py."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.evidence.read_sinks import read_sinks
from surestart.verdict.acceptance import diagnose_acceptance, next_batch_of
from surestart.verdict.next_start import NextStart
from surestart.verdict.next_start import Outcome as Predicted
from surestart.verdict.restart import predict_next_start
from surestart.verdict.shapes import diagnose_checkpoint, diagnose_recognised_replay
from surestart.words.finding import Verdict, verdict_of
from surestart.words.next_commands import Commands
from tests.diagnosis.restart_lab import Outcome, Shape


@dataclass(frozen=True)
class Prediction:
    start: NextStart
    verdict: Verdict
    codes: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One shape: what was said before the start, and what each start did."""

    shape: Shape
    prediction: Prediction
    outcomes: tuple[Outcome, ...]

    @property
    def went_well(self) -> bool:
        last = self.outcomes[-1]
        return not any(outcome.failed for outcome in self.outcomes) and last.lost == 0 and last.duplicated == 0

    @property
    def start_as_predicted(self) -> bool:
        said = self.prediction.start
        return self._is_as(said) or (said.otherwise is not None and self._is_as(said.otherwise))

    def _is_as(self, said: NextStart) -> bool:
        first = self.outcomes[0]
        if said.outcome is Predicted.CANNOT_TELL:
            return True
        if said.outcome is Predicted.FAILS:
            return first.failed
        if said.outcome is Predicted.LOOPS:
            return "CONCURRENT_STREAM_LOG_UPDATE" in first.error or "Multiple streaming" in first.error
        # A stateful start may come up as predicted and fail in the batch after: that is the verdict's to know.
        return first.first_batch == said.batch and (not first.failed or "STATE_BEHIND_SINK" in self.prediction.codes)

    @property
    def falsely_safe(self) -> bool:
        return self.prediction.verdict is Verdict.SAFE and not self.went_well


def predict(case: Path, kind: str, spark: str) -> Prediction:
    """From the files alone, before the start: the doctor's whole judgement, sink included."""
    # Nobody else writes there, so that output of another query id is this query's own.
    table = SinkDeclaration("delta-builtin", "table", path=str(case / "table"), shared=False)
    declaration = StageDeclaration(
        stage="raw-ingest",
        query="sensor-raw-ingest",
        checkpoint=str(case / "checkpoint"),
        sources=(SourceDeclaration("files", str(case.parent / "input")),),
        sinks=(table,),
        state=("dropDuplicates value",) if kind == "dedup" else (),
    )
    checkpoint = read_checkpoint(str(case / "checkpoint"))
    findings = list(diagnose_checkpoint(checkpoint, declaration, spark=spark))
    evidence = read_sinks((table,), count_rows=checkpoint.latest_planned is None)
    for answer in diagnose_acceptance(declaration, next_batch_of(checkpoint), evidence, int(time.time() * 1000)):
        findings += answer.findings
        findings += diagnose_recognised_replay(checkpoint, answer.replay_recognised, Commands("raw-ingest"))
    start = predict_next_start(checkpoint, spark, declaration)
    return Prediction(start, verdict_of(findings), tuple(finding.code for finding in findings))


def matrix(cases: Iterable[Case], spark: str) -> str:
    """Verdicts in rows, outcomes in columns, then every shape whose verdict or prediction was not borne out."""
    cases = list(cases)
    counts = Counter((case.prediction.verdict, case.went_well) for case in cases)
    lines = [
        f"Spark {spark}: {len(cases)} shapes restarted",
        f"{'verdict':<14}{'went well':>12}{'lost, twice or failed':>24}",
    ]
    for verdict in Verdict:
        lines.append(f"{verdict.value:<14}{counts[verdict, True]:>12}{counts[verdict, False]:>24}")
    for case in cases:
        if case.falsely_safe or not case.start_as_predicted:
            kind = "FALSELY SAFE" if case.falsely_safe else "start differs"
            lines.append(f"{kind}: {case.shape.name}: said {case.prediction.start.sentence}, saw {describe(case)}")
        elif case.prediction.verdict is Verdict.UNSAFE and case.went_well:
            lines.append(f"unsafe, but went well: {case.shape.name} ({', '.join(case.prediction.codes)})")
    return "\n".join(lines)


def describe(case: Case) -> str:
    return " | ".join(
        f"{outcome.error[:90] or f'from batch {outcome.first_batch}'}, lost {outcome.lost}, twice {outcome.duplicated}"
        for outcome in case.outcomes
    )
