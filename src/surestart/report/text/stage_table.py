"""All stages of an environment in one table of at most 80 columns, then the findings, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from surestart.environment import Environment
from surestart.report.text.inspection import render_finding
from surestart.report.text.state import state_in_a_line
from surestart.typed import NextStep, Words
from surestart.verdict.diagnose import Diagnosis
from surestart.verdict.fleet_row import sink_in_a_word
from surestart.words.amounts import time_text
from surestart.words.finding import WIDTH, Finding, Severity, Verdict, labelled, verdict_of
from surestart.words.inert import inert

_STARTS = 26
SHOWN = 20


def render_stages(environment: Environment, diagnoses: Sequence[Diagnosis], options: Words = ()) -> str:
    return "\n".join(_lines(environment, diagnoses, options)).rstrip() + "\n"


def verdict_of_all(diagnoses: Sequence[Diagnosis]) -> Verdict:
    return verdict_of(finding for diagnosis in diagnoses for finding in diagnosis.findings)


def worst_finding(diagnoses: Sequence[Diagnosis]) -> Finding | None:
    """The first of the worst, in the order in which rows pass the stages: what is upstream is repaired first."""
    for severity in (Severity.UNSAFE, Severity.CANNOT_TELL, Severity.ATTENTION):
        for diagnosis in diagnoses:
            for finding in diagnosis.findings:
                if finding.severity is severity:
                    return finding
    return None


def _lines(environment: Environment, diagnoses: Sequence[Diagnosis], options: Words) -> Iterator[str]:
    asked = time_text(diagnoses[0].asked_at) if diagnoses else ""
    title = f"{environment.pipeline} · {environment.name}"
    yield f"{title}{asked:>{max(WIDTH - len(title), 0)}}"
    yield ""
    name = max([len("stage"), *(len(diagnosis.stage) for diagnosis in diagnoses)])
    yield f"  {'stage':<{name}}  {'verdict':<11}  {'next start':<{_STARTS}}  sink"
    for diagnosis in diagnoses:
        start = inert(diagnosis.start.shortly, _STARTS)
        yield (
            f"  {diagnosis.stage:<{name}}  {diagnosis.verdict.value.upper():<11}  {start:<{_STARTS}}  "
            f"{inert(sink_in_a_word(diagnosis.inspection), max(WIDTH - name - _STARTS - 19, 12))}"
        ).rstrip()
    yield ""
    for diagnosis in diagnoses:
        if state := state_in_a_line(diagnosis.inspection.checkpoint):
            yield from labelled(f"{diagnosis.stage}:", f"state of {state}", gap=name + 2)
            yield ""
    yield from _findings(diagnoses)
    worst = worst_finding(diagnoses)
    if worst is None:
        yield "Every stage may start: nothing is lost or doubled by it, as far as was asked."
    yield from labelled("Next:", str(command_of_all(environment, worst, options)), indent=0, gap=6, keep_lines=True)


def command_of_all(environment: Environment, worst: Finding | None, options: Words = ()) -> NextStep:
    return worst.next if worst and worst.next else environment.begin_command(options)


def _findings(diagnoses: Sequence[Diagnosis]) -> Iterator[str]:
    """Findings to act on; notes are counted, and shown by --json."""
    ranked = [
        (diagnosis.stage, finding)
        for severity in (Severity.UNSAFE, Severity.CANNOT_TELL, Severity.ATTENTION)
        for diagnosis in diagnoses
        for finding in diagnosis.findings
        if finding.severity is severity
    ]
    stage = ""
    for name, finding in ranked[:SHOWN]:
        if name != stage:
            yield f"{name}:"
            stage = name
        yield from render_finding(finding)
    if len(ranked) > SHOWN:
        yield f"… and {len(ranked) - SHOWN} more findings: --json shows them all"
        yield ""
    notes = sum(finding.severity is Severity.INFO for diagnosis in diagnoses for finding in diagnosis.findings)
    if notes:
        yield f"{notes} {'note' if notes == 1 else 'notes'} without consequence: --json shows them."
        yield ""
