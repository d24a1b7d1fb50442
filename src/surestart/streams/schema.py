"""The JSON Schema of `surestart.toml`, for an editor: made of the same words that the reader takes."""

from __future__ import annotations

import json
from typing import Any

from surestart.facts.evidence.sink_names import SINK_KINDS
from surestart.streams.project_file import OTHER_SINKS, OUTPUT_MODES, SINK_WORDS, SOURCE_KINDS
from surestart.streams.stream import NAME

_TEXT = {"type": "string", "minLength": 1}
# A whole path or a name: a relative one is another folder for another reader.
_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.\-]*:/)"


def schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "surestart.toml: the streams that surestart judges and guards",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "pipeline": {"type": "string", "description": "module:attribute of a pipeline in code"},
            "history": {"type": "string", "description": "where runs and claims are kept: a folder, or CATALOG.SCHEMA"},
            "stream": {
                "type": "object",
                "propertyNames": {"pattern": f"^{NAME.pattern}$", "not": {"const": "all"}},
                "additionalProperties": _stream(),
            },
        },
    }


def schema_text() -> str:
    return json.dumps(schema(), indent=2) + "\n"


def _stream() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["checkpoint"],
        "properties": {
            "checkpoint": {"type": "string", "pattern": _ABSOLUTE, "description": "the whole path of its checkpoint"},
            "source": _one_or_more(_source(), "what it reads; without it the checkpoint tells"),
            "sink": _one_or_more(_sink(), "where its rows go; without it no verdict is better than cannot tell"),
            "other_sinks": {"enum": list(OTHER_SINKS), "description": "whether its function writes elsewhere, too"},
            "output_mode": {"enum": list(OUTPUT_MODES)},
            "state": {"type": "array", "items": {"type": "string"}, "description": "names of its stateful operators"},
        },
    }


def _one_or_more(one: dict[str, Any], says: str) -> dict[str, Any]:
    return {"description": says, "anyOf": [one, {"type": "array", "items": one}]}


def _source() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict.fromkeys(SOURCE_KINDS, _TEXT),
        "oneOf": [{"required": [kind]} for kind in SOURCE_KINDS],
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    }


def _sink() -> dict[str, Any]:
    kinds = (*SINK_KINDS, *SINK_WORDS)
    said = {
        "shared": {"type": "boolean", "description": "others write there as well"},
        "new": {"type": "boolean", "description": "this stream has never written there yet"},
        "keys": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 1,
            "description": "what a MERGE matches by",
        },
        "app_id": {"type": "string", "minLength": 1, "description": "the constant txnAppId of its function"},
        "ledger": {"type": "string", "minLength": 1, "description": "a row for each batch, in the rows' transaction"},
        "bootstrap": {"type": "string", "minLength": 1, "description": "of a Kafka sink: the brokers that are asked"},
    }
    return {
        "type": "object",
        "properties": {**dict.fromkeys(kinds, _TEXT), **said},
        "oneOf": [{"required": [kind]} for kind in kinds],
        "additionalProperties": False,
    }
