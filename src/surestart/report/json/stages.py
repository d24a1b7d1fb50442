"""The doctor's answer as one JSON object: each stage as `inspect` shows a checkpoint, plus what the code declares."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from surestart.environment import Environment
from surestart.report.json.inspection import as_object, bounded_value
from surestart.report.text.stage_table import command_of_all, verdict_of_all, worst_finding
from surestart.typed import Words
from surestart.verdict.diagnose import Diagnosis

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
