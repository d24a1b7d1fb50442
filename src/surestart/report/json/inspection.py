"""An inspection as one JSON object; its schema is inspect.schema.json beside this file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.positions import Position
from surestart.facts.checkpoint.snapshot import Checkpoint, CheckpointSource
from surestart.facts.checkpoint.stage_progress import watermark_ms
from surestart.facts.checkpoint.state_versions import StoreSummary, summarise
from surestart.report.text.inspection import COMMAND_LIMIT
from surestart.verdict.inspection import Inspection
from surestart.words.finding import Finding
from surestart.words.inert import inert

SCHEMA_VERSION = 1
TEXT_LIMIT = 600
ITEM_LIMIT = 2_000
# Kafka offsets of 10,000 partitions.
RAW_LIMIT = 300_000


def inspection_json(inspection: Inspection) -> str:
    """ASCII only: a control or direction character from the checkpoint reaches a terminal as \\u codes."""
    return json.dumps(as_object(inspection), indent=2, ensure_ascii=True)


def as_object(inspection: Inspection) -> dict[str, Any]:
    checkpoint = inspection.checkpoint
    found = {
        "schema_version": SCHEMA_VERSION,
        "location": checkpoint.location,
        "storage": checkpoint.storage,
        "exists": checkpoint.exists,
        "query_id": checkpoint.query_id,
        "spark_version": checkpoint.spark_version,
        "batches": {
            "planned": checkpoint.latest_planned,
            "committed": checkpoint.latest_committed,
            "next": inspection.start.batch if inspection.start.batch is not None else checkpoint.next_batch,
            "in_flight": checkpoint.in_flight,
            "first_kept": checkpoint.offsets_folder.first,
            "kept": len(checkpoint.offsets_folder.ids),
        },
        "next_start": {
            start.spark: {
                "outcome": start.outcome.value,
                "batch": start.batch,
                "error": start.error or None,
                "new_identity": start.new_identity,
                "why": start.why,
            }
            for start in inspection.starts
        },
        "sources": [_source(index, source, checkpoint) for index, source in enumerate(checkpoint.sources)],
        "state": _state(checkpoint),
        "confs": dict(checkpoint.confs),
        "formats": checkpoint.formats,
        "acceptance": inspection.acceptance.value,
        "sinks": [
            {
                "target": answer.sink.target,
                "kind": answer.sink.kind,
                "step": answer.sink.step,
                "acceptance": answer.acceptance.value,
                "detail": answer.detail,
                "next_batch": answer.next_batch,
                "table_batch": answer.table_batch,
            }
            for answer in inspection.sinks
        ],
        "findings": [finding_object(finding) for finding in inspection.findings],
        "verdict": inspection.verdict.value,
        "files": checkpoint.files,
        "bytes": checkpoint.size,
        "leftovers": checkpoint.leftover_count,
        "not_read": list(checkpoint.sampled),
    }
    return {key: bounded_value(value) for key, value in found.items()}


def finding_object(finding: Finding) -> dict[str, str]:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "evidence": finding.evidence,
        "meaning": finding.meaning,
        "next": str(finding.next),
        "do_not": finding.do_not,
    }


def bounded_value(value: Any, depth: int = 0) -> Any:
    """The same value with every text inert and every list and mapping of a known length."""
    if isinstance(value, str):
        return inert(value, TEXT_LIMIT)
    if depth > 8:
        return inert(repr(value), TEXT_LIMIT)
    if isinstance(value, Mapping):
        return {inert(key, TEXT_LIMIT): _item(key, item, depth) for key, item in list(value.items())[:ITEM_LIMIT]}
    if isinstance(value, list | tuple):
        return [bounded_value(item, depth + 1) for item in value[:ITEM_LIMIT]]
    return value


def _item(key: object, item: Any, depth: int) -> Any:
    """An item of a finding. A command is never cut: it would be another command."""
    return inert(item, COMMAND_LIMIT) if key == "next" and isinstance(item, str) else bounded_value(item, depth + 1)


def _source(index: int, source: CheckpointSource, checkpoint: Checkpoint) -> dict[str, Any]:
    entry = checkpoint.latest_offsets
    before = checkpoint.offsets.get(entry.batch - 1) if isinstance(entry, OffsetLogEntry) else None
    log = source.folder.file_log if source.folder else None
    return {
        "index": index,
        "id": source.id,
        "kind": source.kind,
        "start": _raw(before, source),
        "end": _raw(entry, source),
        "start_text": _text(source.start),
        "end_text": _text(source.end),
        "files_seen": log.files_seen if log else None,
        "files_seen_exact": log.exact if log else None,
    }


def _raw(entry: object, source: CheckpointSource) -> Any:
    """The position as the source wrote it, parsed."""
    if not isinstance(entry, OffsetLogEntry):
        return None
    text = next((item.text for item in entry.sources if item.id == source.id), None)
    if text is None:
        return None
    if len(text) > RAW_LIMIT:
        return inert(text, TEXT_LIMIT)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _text(position: Position | None) -> str | None:
    return None if position is None else position.describe()


def _state(checkpoint: Checkpoint) -> dict[str, Any]:
    state = checkpoint.state
    return {
        "provider": state.provider,
        "format_v2": state.format_v2,
        "files": state.files,
        "bytes": state.size,
        "watermark_ms": watermark_ms(checkpoint),
        "operators": [
            {
                "id": operator.id,
                "name": operator.name,
                "partitions": operator.partitions,
                "stores": list(operator.store_names),
                "oldest_version": min(
                    (v.oldest for v in operator.stores.values() if v.oldest is not None), default=None
                ),
                "latest_version": max(
                    (v.latest for v in operator.stores.values() if v.latest is not None), default=None
                ),
                "schema": operator.schema,
                "bytes": operator.size,
                "by_store": [_store(store) for store in summarise(operator)],
            }
            for operator in state.operators
        ],
    }


def _store(store: StoreSummary) -> dict[str, Any]:
    return {
        "store": store.store,
        "partitions": store.partitions,
        "rows": store.rows,
        "rows_at_versions": store.rows_at,
        "bytes": store.size,
        "largest_partition": store.largest[0],
        "largest_partition_bytes": store.largest[1],
        "loadable_versions": list(store.loadable),
        "snapshot_version": store.snapshot,
        "schema": store.schema,
    }
