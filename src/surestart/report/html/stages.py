"""The doctor's answer as one self-contained page: all stages in one table, findings worst first, then each stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from surestart.environment import Environment
from surestart.facts.checkpoint.positions import Position
from surestart.report.html.page import Page, render_page
from surestart.report.html.report import CheckpointReport
from surestart.report.progress_history import BatchFacts, of_query
from surestart.report.text.stage_table import command_of_all, worst_finding
from surestart.typed import Words, surestart
from surestart.verdict.diagnose import Diagnosis

Ends = tuple[Mapping[int, Position], Mapping[int, str]]


def render_stages_html(
    environment: Environment,
    diagnoses: Sequence[Diagnosis],
    options: Words = (),
    *,
    ends: Sequence[Ends] = (),
    progress: Sequence[BatchFacts] = (),
    runs: Sequence[Sequence[Mapping[str, object]]] = (),
) -> str:
    """ends: for each stage what `ask_ends.read_ends` has found; progress: of any of the queries; runs: for each stage
    its runs and remedies, oldest first."""
    unasked: Ends = ({}, {})
    reports = [
        CheckpointReport(
            diagnosis.stage,
            diagnosis.inspection,
            sinks=diagnosis.evidence.sinks,
            latest=(ends[index] if ends else unasked)[0],
            latest_from=(ends[index] if ends else unasked)[1],
            progress=of_query(progress, diagnosis.evidence.checkpoint.query_id),
            runs=tuple(runs[index]) if runs else (),
            query=diagnosis.evidence.declaration.query,
            changes=diagnosis.changes,
        )
        for index, diagnosis in enumerate(diagnoses)
    ]
    one = f", {diagnoses[0].stage}" if len(diagnoses) == 1 else ""
    return render_page(
        Page(
            title=f"{environment.pipeline} · {environment.name}{one}",
            reports=tuple(reports),
            asked_at=diagnoses[0].asked_at if diagnoses else 0,
            next=command_of_all(environment, worst_finding(diagnoses), options),
            all_with=surestart("doctor", "--json"),
        )
    )
