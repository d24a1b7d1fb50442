"""Many streams as one JSON object; its schema is fleet.schema.json beside the pages."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from surestart.report.json.inspection import bounded_value, finding_object
from surestart.verdict.fleet_row import Fleet, FleetRow

SCHEMA_VERSION = 1


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
