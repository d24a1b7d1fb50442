"""Streaming jobs that restart correctly however they stopped, and the tooling for a safe way back.

What is listed here is public, and so is `surestart.typed`; docs/api.md says what each name is for. Everything else may
change with any version. A name is imported when it is first used, so that the doctor starts without Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from surestart.version import VERSION as __version__

if TYPE_CHECKING:
    from surestart.avro.decode import decode_avro as decode_avro
    from surestart.avro.registry import RegistryResolver as RegistryResolver
    from surestart.avro.registry_split import AsksRegistry as AsksRegistry
    from surestart.avro.registry_split import RegistrySplit as RegistrySplit
    from surestart.avro.schemas import FixedSchema as FixedSchema
    from surestart.avro.schemas import FolderResolver as FolderResolver
    from surestart.avro.schemas import SchemaResolver as SchemaResolver
    from surestart.avro.schemas import read_fixed_schema as read_fixed_schema
    from surestart.cli.stage_answers import ask_stages as diagnose
    from surestart.declaration import SinkDeclaration as SinkDeclaration
    from surestart.declaration import SourceDeclaration as SourceDeclaration
    from surestart.environment import Environment as Environment
    from surestart.environment import Table as Table
    from surestart.environment import environment_from_settings as environment_from_settings
    from surestart.errors import CannotTell as CannotTell
    from surestart.errors import Refused as Refused
    from surestart.errors import StoppedHalfway as StoppedHalfway
    from surestart.errors import SurestartError as SurestartError
    from surestart.errors import Unexpected as Unexpected
    from surestart.errors import UsageError as UsageError
    from surestart.facts.checkpoint.file_list import plain_path as plain_path
    from surestart.facts.checkpoint.file_list import read_listed_files as read_listed_files
    from surestart.facts.checkpoint.stage_progress import NOTHING as READ_NOTHING
    from surestart.facts.checkpoint.stage_progress import UP_TO as READ_UP_TO
    from surestart.facts.checkpoint.stage_progress import StageProgress as StageProgress
    from surestart.facts.checkpoint.stage_progress import progress_in_table as progress_in_table
    from surestart.facts.checkpoint.stage_progress import read_stage_progress as read_stage_progress
    from surestart.facts.delta.active_files import ActiveFile as ActiveFile
    from surestart.facts.delta.active_files import read_active_files as read_active_files
    from surestart.facts.delta.log import read_delta_log as read_delta_log
    from surestart.facts.evidence.sink_evidence import SinkEvidence as SinkEvidence
    from surestart.facts.evidence.sink_evidence import evidence_from_ledger as batches_held
    from surestart.facts.kafka.admin import import_client as import_client
    from surestart.facts.kafka.evidence import read_kafka_evidence as read_kafka_evidence
    from surestart.facts.kafka.security import SecretPlace as SecretPlace
    from surestart.facts.kafka.security import client_settings as client_settings
    from surestart.facts.kafka.security import refused_settings as refused_settings
    from surestart.facts.postgres.url import DatabaseUrl as DatabaseUrl
    from surestart.fork import open_fork as open_fork
    from surestart.guarding.block import guard as guard
    from surestart.guarding.once import once as once
    from surestart.guarding.once_in import once_in as once_in
    from surestart.guarding.start import start as start
    from surestart.local.kafka_detached import read_detached as read_detached
    from surestart.remedies.apply.apply import Applied as Applied
    from surestart.remedies.basis.plan import Plan as Plan
    from surestart.remedies.of_stages import apply_to_stages as apply
    from surestart.remedies.of_stages import plan_of_stages as plan
    from surestart.remedies.of_stages import undo_of_stages as undo
    from surestart.remedies.planning.wanted import Wanted as Wanted
    from surestart.runs.runner import BatchProgress as BatchProgress
    from surestart.runs.runner import StageRun as StageRun
    from surestart.runs.runner import run_stage as run_stage
    from surestart.runs.runner import run_stages as run_stages
    from surestart.sinks.abilities import Holdings as Holdings
    from surestart.sinks.both import Both as Both
    from surestart.sinks.delta.append import DeltaAppend as DeltaAppend
    from surestart.sinks.delta.merge import DeltaMerge as DeltaMerge
    from surestart.sinks.delta.same_identity import read_identity as read_identity
    from surestart.sinks.delta.same_identity import same_identity as same_identity
    from surestart.sinks.delta.split import DeltaSplit as DeltaSplit
    from surestart.sinks.postgres.sink import PostgresSink as PostgresSink
    from surestart.sources.delta import DeltaSource as DeltaSource
    from surestart.sources.files import FileSource as FileSource
    from surestart.sources.kafka import KafkaSource as KafkaSource
    from surestart.spark.every_line import is_valid_utf8 as is_valid_utf8
    from surestart.spark.every_line import try_timestamp as try_timestamp
    from surestart.spark.session import local_session as local_session
    from surestart.stage import BatchContext as BatchContext
    from surestart.stage import Pipeline as Pipeline
    from surestart.stage import Sink as Sink
    from surestart.stage import Source as Source
    from surestart.stage import Stage as Stage
    from surestart.stage import Transform as Transform
    from surestart.streams.project_file import declare_stream as declare_stream
    from surestart.streams.stream import Stream as Stream
    from surestart.verdict.diagnose import Diagnosis as Diagnosis
    from surestart.verdict.inspection import Inspection as Inspection
    from surestart.verdict.inspection import inspect_checkpoint as inspect
    from surestart.words.finding import Acceptance as Acceptance
    from surestart.words.finding import Finding as Finding
    from surestart.words.finding import Severity as Severity
    from surestart.words.finding import Verdict as Verdict

# Public name -> the module that has it, and the name that it has there.
_PLACES = {
    # Stages and where they live
    "Stage": ("surestart.stage", "Stage"),
    "Pipeline": ("surestart.stage", "Pipeline"),
    "Source": ("surestart.stage", "Source"),
    "Sink": ("surestart.stage", "Sink"),
    "Transform": ("surestart.stage", "Transform"),
    "BatchContext": ("surestart.stage", "BatchContext"),
    "Environment": ("surestart.environment", "Environment"),
    "Table": ("surestart.environment", "Table"),
    "environment_from_settings": ("surestart.environment", "environment_from_settings"),
    # Sources
    "FileSource": ("surestart.sources.files", "FileSource"),
    "KafkaSource": ("surestart.sources.kafka", "KafkaSource"),
    "DeltaSource": ("surestart.sources.delta", "DeltaSource"),
    # Sinks
    "DeltaAppend": ("surestart.sinks.delta.append", "DeltaAppend"),
    "DeltaSplit": ("surestart.sinks.delta.split", "DeltaSplit"),
    "DeltaMerge": ("surestart.sinks.delta.merge", "DeltaMerge"),
    "PostgresSink": ("surestart.sinks.postgres.sink", "PostgresSink"),
    "Both": ("surestart.sinks.both", "Both"),
    "DatabaseUrl": ("surestart.facts.postgres.url", "DatabaseUrl"),
    "SecretPlace": ("surestart.facts.kafka.security", "SecretPlace"),
    # A sink or a source of your own
    "SinkDeclaration": ("surestart.declaration", "SinkDeclaration"),
    "SourceDeclaration": ("surestart.declaration", "SourceDeclaration"),
    "SinkEvidence": ("surestart.facts.evidence.sink_evidence", "SinkEvidence"),
    "Holdings": ("surestart.sinks.abilities", "Holdings"),
    "batches_held": ("surestart.facts.evidence.sink_evidence", "evidence_from_ledger"),
    "read_identity": ("surestart.sinks.delta.same_identity", "read_identity"),
    "same_identity": ("surestart.sinks.delta.same_identity", "same_identity"),
    # Running
    "local_session": ("surestart.spark.session", "local_session"),
    "run_stage": ("surestart.runs.runner", "run_stage"),
    "run_stages": ("surestart.runs.runner", "run_stages"),
    "StageRun": ("surestart.runs.runner", "StageRun"),
    "BatchProgress": ("surestart.runs.runner", "BatchProgress"),
    # Judging
    "inspect": ("surestart.verdict.inspection", "inspect_checkpoint"),
    "diagnose": ("surestart.cli.stage_answers", "ask_stages"),
    "Inspection": ("surestart.verdict.inspection", "Inspection"),
    "Diagnosis": ("surestart.verdict.diagnose", "Diagnosis"),
    "Finding": ("surestart.words.finding", "Finding"),
    "Severity": ("surestart.words.finding", "Severity"),
    "Verdict": ("surestart.words.finding", "Verdict"),
    "Acceptance": ("surestart.words.finding", "Acceptance"),
    # Streams that somebody else starts
    "Stream": ("surestart.streams.stream", "Stream"),
    "declare_stream": ("surestart.streams.project_file", "declare_stream"),
    "start": ("surestart.guarding.start", "start"),
    "guard": ("surestart.guarding.block", "guard"),
    "once": ("surestart.guarding.once", "once"),
    "once_in": ("surestart.guarding.once_in", "once_in"),
    # Remedies
    "plan": ("surestart.remedies.of_stages", "plan_of_stages"),
    "apply": ("surestart.remedies.of_stages", "apply_to_stages"),
    "open_fork": ("surestart.fork", "open_fork"),
    "undo": ("surestart.remedies.of_stages", "undo_of_stages"),
    "Wanted": ("surestart.remedies.planning.wanted", "Wanted"),
    "Plan": ("surestart.remedies.basis.plan", "Plan"),
    "Applied": ("surestart.remedies.apply.apply", "Applied"),
    # Errors
    "SurestartError": ("surestart.errors", "SurestartError"),
    "UsageError": ("surestart.errors", "UsageError"),
    "Refused": ("surestart.errors", "Refused"),
    "CannotTell": ("surestart.errors", "CannotTell"),
    "StoppedHalfway": ("surestart.errors", "StoppedHalfway"),
    "Unexpected": ("surestart.errors", "Unexpected"),
    # Avro
    "decode_avro": ("surestart.avro.decode", "decode_avro"),
    "RegistrySplit": ("surestart.avro.registry_split", "RegistrySplit"),
    "AsksRegistry": ("surestart.avro.registry_split", "AsksRegistry"),
    "RegistryResolver": ("surestart.avro.registry", "RegistryResolver"),
    "FolderResolver": ("surestart.avro.schemas", "FolderResolver"),
    "FixedSchema": ("surestart.avro.schemas", "FixedSchema"),
    "SchemaResolver": ("surestart.avro.schemas", "SchemaResolver"),
    "read_fixed_schema": ("surestart.avro.schemas", "read_fixed_schema"),
    # A count of your own
    "StageProgress": ("surestart.facts.checkpoint.stage_progress", "StageProgress"),
    "READ_NOTHING": ("surestart.facts.checkpoint.stage_progress", "NOTHING"),
    "READ_UP_TO": ("surestart.facts.checkpoint.stage_progress", "UP_TO"),
    "read_stage_progress": ("surestart.facts.checkpoint.stage_progress", "read_stage_progress"),
    "progress_in_table": ("surestart.facts.checkpoint.stage_progress", "progress_in_table"),
    "read_listed_files": ("surestart.facts.checkpoint.file_list", "read_listed_files"),
    "plain_path": ("surestart.facts.checkpoint.file_list", "plain_path"),
    "read_delta_log": ("surestart.facts.delta.log", "read_delta_log"),
    "read_active_files": ("surestart.facts.delta.active_files", "read_active_files"),
    "ActiveFile": ("surestart.facts.delta.active_files", "ActiveFile"),
    # Kafka, without Spark
    "read_kafka_evidence": ("surestart.facts.kafka.evidence", "read_kafka_evidence"),
    "import_client": ("surestart.facts.kafka.admin", "import_client"),
    "client_settings": ("surestart.facts.kafka.security", "client_settings"),
    "refused_settings": ("surestart.facts.kafka.security", "refused_settings"),
    "read_detached": ("surestart.local.kafka_detached", "read_detached"),
    # Columns, on every line of Spark
    "is_valid_utf8": ("surestart.spark.every_line", "is_valid_utf8"),
    "try_timestamp": ("surestart.spark.every_line", "try_timestamp"),
}

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
