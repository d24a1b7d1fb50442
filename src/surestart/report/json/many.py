"""The doctor's answer as one JSON object: each stage as `inspect` shows a checkpoint, plus what the code declares."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from surestart.environment import Environment
from surestart.report.json.inspection import as_object, bounded_value, finding_object
from surestart.report.text.stage_table import command_of_all, verdict_of_all, worst_finding
from surestart.typed import Words
from surestart.verdict.diagnose import Diagnosis
from surestart.verdict.fleet_row import Fleet, FleetRow

SCHEMA_VERSION = 1


def stages_json(environment: Environment, diagnoses: Sequence[Diagnosis], options: Words = ()) -> str:
    return json.dumps(stages_object(environment, diagnoses, options), indent=2, ensure_ascii=True)


def stages_object(environment: Environment, diagnoses: Sequence[Diagnosis], options: Words = ()) -> dict[str, Any]:
    worst = worst_finding(diagnoses)
    return {
        "schema_version": SCHEMA_VERSION,
        "pipeline": environment.pipeline,
        "environment": environment.name,
        "asked_at": diagnoses[0].asked_at if diagnoses else None,
        "verdict": verdict_of_all(diagnoses).value,
        "next": str(command_of_all(environment, worst, options)),
        "stages": [_stage(diagnosis) for diagnosis in diagnoses],
    }


def _stage(diagnosis: Diagnosis) -> dict[str, Any]:
    declaration = diagnosis.evidence.declaration
    return {
        "stage": diagnosis.stage,
        "query": declaration.query,
        "declaration": bounded_value(declaration.as_dict()),
        "changes": [
            {
                "what": change.what,
                "before": change.before,
                "after": change.after,
                "class": change.kind.value,
                "ignored": change.ignored,
                "rule": change.rule,
            }
            for change in diagnosis.changes
        ],
        "checkpoint": as_object(diagnosis.inspection),
    }


def fleet_json(fleet: Fleet) -> str:
    """ASCII only, a line for each stream: ten thousand of them are read by programs."""
    head = json.dumps(bounded_value(_head(fleet)), ensure_ascii=True)[:-1]
    rows = ",\n".join(json.dumps(bounded_value(_row(row)), ensure_ascii=True) for row in fleet.rows)
    return f'{head}, "streams": [\n{rows}\n]}}'


def _head(fleet: Fleet) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "title": fleet.title,
        "asked_at": fleet.asked_at,
        "verdict": fleet.verdict.value,
        "counts": dict(Counter(row.verdict.value for row in fleet.rows)),
        "next": str(fleet.next),
    }


def _row(row: FleetRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "location": row.location,
        "verdict": row.verdict.value,
        "checkpoint_alone": row.alone.value if row.alone else None,
        "next_start": row.sentence or row.next_start,
        "next_batch": row.batch,
        "sink": row.sink,
        "last_batch_at": row.last_batch_at,
        "unread": row.unread or None,
        "query_id": row.query_id,
        "sources": [{"id": one, "kind": kind, "position": position} for one, kind, position in row.sources],
        "findings": [finding_object(finding) for finding in row.findings],
        "more_findings": row.more_findings,
    }
