"""Diagnoses stages of an environment: what `doctor`, `status` and the start gate have in common."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.checkpoint.snapshot import Checkpoint
from surestart.declaration import SourceDeclaration
from surestart.diagnosis.commands import Commands
from surestart.diagnosis.diagnose import Diagnosis, diagnose, read_stage
from surestart.diagnosis.finding import Finding
from surestart.diagnosis.restart import DEFAULT_LINE
from surestart.diagnosis.sink_evidence import SinkEvidence
from surestart.environment import Environment
from surestart.stage import Stage

if TYPE_CHECKING:
    from surestart.diagnosis.source_evidence import DeltaSourceEvidence


def ask_stage(
    environment: Environment,
    stage: Stage,
    *,
    spark: str = "",
    now: int | None = None,
    sinks: Mapping[str, SinkEvidence] | None = None,
    sources: Mapping[str, DeltaSourceEvidence] | None = None,
    history: Iterable[Mapping[str, object]] = (),
    recorded_topic_id: str = "",
    options: str = "",
    settled: Mapping[str, int] | None = None,
) -> Diagnosis:
    """What a start of this stage would do now. Reads only; `sinks` and `sources` as in `read_stage`."""
    asked_at = now if now is not None else int(time.time() * 1000)
    commands = Commands(stage.name, environment.name, options)
    ledgers = read_ledgers(stage, environment)

    def kafka(source: SourceDeclaration, checkpoint: Checkpoint) -> tuple[Finding, ...]:
        from surestart.diagnosis.ask_kafka import ask_kafka
        from surestart.sources.kafka import KafkaSource

        if not isinstance(stage.source, KafkaSource):
            return ()
        return ask_kafka(stage.source, source, checkpoint, commands, recorded_topic_id=recorded_topic_id, now=asked_at)

    evidence = read_stage(
        stage.declare(environment),
        sinks={**ledgers, **(sinks or {})},
        sources=sources,
        ask_kafka=kafka,
        history=history,
        settled=find_settled(environment, stage) if settled is None else settled,
    )
    return diagnose(
        evidence, environment=environment.name, spark=spark or installed_line(), now=asked_at, commands=commands
    )


def find_settled(environment: Environment, stage: Stage) -> dict[str, int]:
    """Where the newest remedy left the stage's tables; nothing where its journal is in a catalog and no session is at
    hand: then the answer about a begin after a remedy errs on the careful side."""
    if not environment.root:
        return {}
    from surestart.remedies.journal import TABLE, read_journals, settled_tables

    if not (Path(environment.table(TABLE).path) / "_delta_log").is_dir() and "://" not in environment.root:
        return {}
    return settled_tables(environment, read_journals(environment), stage.name)


def installed_line() -> str:
    """The Spark that this Python environment would start, without importing it."""
    for package in ("pyspark", "databricks-connect"):
        try:
            found = version(package)
        except PackageNotFoundError:
            continue
        # databricks-connect 17 is the client of Spark 4.0.
        return found if package == "pyspark" else DEFAULT_LINE
    return DEFAULT_LINE


def read_ledgers(stage: Stage, environment: Environment) -> dict[str, SinkEvidence]:
    """What the databases of a stage's Postgres sinks say, by target."""
    if not any(sink.kind == "postgres" for sink in stage.sink.declare(environment)):
        return {}
    from surestart.diagnosis.read_ledger import read_postgres_sinks

    return read_postgres_sinks(stage.sink)
