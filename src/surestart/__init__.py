"""Streaming jobs that restart correctly however they stopped, and the tooling for a safe way back.

What is listed here is public, and so is `surestart.typed`; docs/api.md says what each name is for. Everything else may
change with any version. A name is imported when it is first used, so that the doctor starts without Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from surestart.version import VERSION as __version__

if TYPE_CHECKING:
    from surestart.avro.decode import decode_avro
    from surestart.avro.registry import AsksRegistry, RegistryResolver, RegistrySplit
    from surestart.avro.schemas import FixedSchema, FolderResolver, SchemaResolver, read_fixed_schema
    from surestart.cli.stage_answers import ask_stages as diagnose
    from surestart.declaration import SinkDeclaration, SourceDeclaration
    from surestart.environment import Environment, Table, environment_from_settings
    from surestart.errors import CannotTell, Refused, StoppedHalfway, SurestartError, Unexpected, UsageError
    from surestart.facts.checkpoint.file_list import plain_path, read_listed_files
    from surestart.facts.checkpoint.stage_progress import NOTHING as READ_NOTHING
    from surestart.facts.checkpoint.stage_progress import UP_TO as READ_UP_TO
    from surestart.facts.checkpoint.stage_progress import StageProgress, progress_in_table, read_stage_progress
    from surestart.facts.delta.active_files import ActiveFile, read_active_files
    from surestart.facts.delta.log import read_delta_log
    from surestart.facts.evidence.sink_evidence import SinkEvidence
    from surestart.facts.evidence.sink_evidence import evidence_from_ledger as batches_held
    from surestart.facts.kafka.admin import import_client
    from surestart.facts.kafka.evidence import read_kafka_evidence
    from surestart.facts.kafka.security import SecretPlace, client_settings, refused_settings
    from surestart.facts.postgres.url import DatabaseUrl
    from surestart.fork import open_fork
    from surestart.guarding.block import guard
    from surestart.guarding.once import once
    from surestart.guarding.once_in import once_in
    from surestart.guarding.start import start
    from surestart.local.kafka_detached import read_detached
    from surestart.remedies.apply.apply import Applied
    from surestart.remedies.basis.plan import Plan
    from surestart.remedies.of_stages import apply_to_stages as apply
    from surestart.remedies.of_stages import plan_of_stages as plan
    from surestart.remedies.of_stages import undo_of_stages as undo
    from surestart.remedies.planning.wanted import Wanted
    from surestart.runs.runner import BatchProgress, StageRun, run_stage, run_stages
    from surestart.sinks.abilities import Holdings
    from surestart.sinks.both import Both
    from surestart.sinks.delta.append import DeltaAppend
    from surestart.sinks.delta.merge import DeltaMerge
    from surestart.sinks.delta.same_identity import read_identity, same_identity
    from surestart.sinks.delta.split import DeltaSplit
    from surestart.sinks.postgres.sink import PostgresSink
    from surestart.sources.delta import DeltaSource
    from surestart.sources.files import FileSource
    from surestart.sources.kafka import KafkaSource
    from surestart.spark.every_line import is_valid_utf8, try_timestamp
    from surestart.spark.session import local_session
    from surestart.stage import BatchContext, Pipeline, Sink, Source, Stage, Transform
    from surestart.streams.project_file import declare_stream
    from surestart.streams.stream import Stream
    from surestart.verdict.diagnose import Diagnosis
    from surestart.verdict.inspection import Inspection
    from surestart.verdict.inspection import inspect_checkpoint as inspect
    from surestart.words.finding import Acceptance, Finding, Severity, Verdict

# Module -> the public names that it has, as docs/api.md has them in groups.
_NAMES = {
    # Stages and where they live
    "surestart.stage": "Stage Pipeline Source Sink Transform BatchContext",
    "surestart.environment": "Environment Table environment_from_settings",
    # Sources
    "surestart.sources.files": "FileSource",
    "surestart.sources.kafka": "KafkaSource",
    "surestart.sources.delta": "DeltaSource",
    # Sinks
    "surestart.sinks.delta.append": "DeltaAppend",
    "surestart.sinks.delta.split": "DeltaSplit",
    "surestart.sinks.delta.merge": "DeltaMerge",
    "surestart.sinks.postgres.sink": "PostgresSink",
    "surestart.sinks.both": "Both",
    "surestart.facts.postgres.url": "DatabaseUrl",
    "surestart.facts.kafka.security": "SecretPlace client_settings refused_settings",
    # A sink or a source of your own
    "surestart.declaration": "SinkDeclaration SourceDeclaration",
    "surestart.facts.evidence.sink_evidence": "SinkEvidence batches_held",
    "surestart.sinks.abilities": "Holdings",
    "surestart.sinks.delta.same_identity": "read_identity same_identity",
    # Running
    "surestart.spark.session": "local_session",
    "surestart.runs.runner": "run_stage run_stages StageRun BatchProgress",
    # Judging
    "surestart.verdict.inspection": "inspect Inspection",
    "surestart.cli.stage_answers": "diagnose",
    "surestart.verdict.diagnose": "Diagnosis",
    "surestart.words.finding": "Finding Severity Verdict Acceptance",
    # Streams that somebody else starts
    "surestart.streams.stream": "Stream",
    "surestart.streams.project_file": "declare_stream",
    "surestart.guarding.start": "start",
    "surestart.guarding.block": "guard",
    "surestart.guarding.once": "once",
    "surestart.guarding.once_in": "once_in",
    # Remedies
    "surestart.remedies.of_stages": "plan apply undo",
    "surestart.fork": "open_fork",
    "surestart.remedies.planning.wanted": "Wanted",
    "surestart.remedies.basis.plan": "Plan",
    "surestart.remedies.apply.apply": "Applied",
    # Errors
    "surestart.errors": "SurestartError UsageError Refused CannotTell StoppedHalfway Unexpected",
    # Avro
    "surestart.avro.decode": "decode_avro",
    "surestart.avro.registry": "RegistrySplit AsksRegistry RegistryResolver",
    "surestart.avro.schemas": "FolderResolver FixedSchema SchemaResolver read_fixed_schema",
    # A count of your own
    "surestart.facts.checkpoint.stage_progress": (
        "StageProgress READ_NOTHING READ_UP_TO read_stage_progress progress_in_table"
    ),
    "surestart.facts.checkpoint.file_list": "read_listed_files plain_path",
    "surestart.facts.delta.log": "read_delta_log",
    "surestart.facts.delta.active_files": "read_active_files ActiveFile",
    # Kafka, without Spark
    "surestart.facts.kafka.evidence": "read_kafka_evidence",
    "surestart.facts.kafka.admin": "import_client",
    "surestart.local.kafka_detached": "read_detached",
    # Columns, on every line of Spark
    "surestart.spark.every_line": "is_valid_utf8 try_timestamp",
}
# Public name -> the name in its module, where that is another one.
_THERE = {
    "batches_held": "evidence_from_ledger",
    "inspect": "inspect_checkpoint",
    "diagnose": "ask_stages",
    "plan": "plan_of_stages",
    "apply": "apply_to_stages",
    "undo": "undo_of_stages",
    "READ_NOTHING": "NOTHING",
    "READ_UP_TO": "UP_TO",
}
_PLACES = {name: (module, _THERE.get(name, name)) for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "READ_NOTHING",
    "READ_UP_TO",
    "Acceptance",
    "ActiveFile",
    "Applied",
    "AsksRegistry",
    "BatchContext",
    "BatchProgress",
    "Both",
    "CannotTell",
    "DatabaseUrl",
    "DeltaAppend",
    "DeltaMerge",
    "DeltaSource",
    "DeltaSplit",
    "Diagnosis",
    "Environment",
    "FileSource",
    "Finding",
    "FixedSchema",
    "FolderResolver",
    "Holdings",
    "Inspection",
    "KafkaSource",
    "Pipeline",
    "Plan",
    "PostgresSink",
    "Refused",
    "RegistryResolver",
    "RegistrySplit",
    "SchemaResolver",
    "SecretPlace",
    "Severity",
    "Sink",
    "SinkDeclaration",
    "SinkEvidence",
    "Source",
    "SourceDeclaration",
    "Stage",
    "StageProgress",
    "StageRun",
    "StoppedHalfway",
    "Stream",
    "SurestartError",
    "Table",
    "Transform",
    "Unexpected",
    "UsageError",
    "Verdict",
    "Wanted",
    "__version__",
    "apply",
    "batches_held",
    "client_settings",
    "declare_stream",
    "decode_avro",
    "diagnose",
    "environment_from_settings",
    "guard",
    "import_client",
    "inspect",
    "is_valid_utf8",
    "local_session",
    "once",
    "once_in",
    "open_fork",
    "plain_path",
    "plan",
    "progress_in_table",
    "read_active_files",
    "read_delta_log",
    "read_detached",
    "read_fixed_schema",
    "read_identity",
    "read_kafka_evidence",
    "read_listed_files",
    "read_stage_progress",
    "refused_settings",
    "run_stage",
    "run_stages",
    "same_identity",
    "start",
    "try_timestamp",
    "undo",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"surestart has no public name {name!r}; docs/api.md lists them")
    module, attribute = _PLACES[name]
    found: object = getattr(importlib.import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
