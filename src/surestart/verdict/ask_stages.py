"""Diagnoses stages of an environment: what `doctor`, `status` and the start gate have in common."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from surestart.declaration import SinkDeclaration, SourceDeclaration
from surestart.environment import Environment
from surestart.errors import CannotTell
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.evidence.sink_evidence import SinkEvidence
from surestart.facts.storage.storage import Storage
from surestart.library_types import SparkSession
from surestart.sinks.abilities import read_own_evidence
from surestart.sources.abilities import NotAsked, ask_own_source, topic_of
from surestart.spark.spark_lines import DEFAULT, installed_version
from surestart.stage import Stage
from surestart.typed import Words, typed
from surestart.verdict.diagnose import AskDelta, Diagnosis, diagnose, read_stage
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands, commands_for

if TYPE_CHECKING:
    from surestart.facts.delta.unread_commits import TableReading
    from surestart.journal.journal import Journal
    from surestart.sources.kafka import KafkaSource


def ask_stage(
    environment: Environment,
    stage: Stage,
    *,
    spark: str = "",
    now: int | None = None,
    sinks: Mapping[str, SinkEvidence] | None = None,
    ask_delta: AskDelta | None = None,
    history: Iterable[Mapping[str, object]] = (),
    recorded_topic_id: str = "",
    session: SparkSession | None = None,
    storage: Storage | None = None,
    commands: Commands | None = None,
) -> Diagnosis:
    """What a start of this stage would do now. Reads only; `sinks`, `ask_delta` and `storage` as in `read_stage`,
    session: what reads the journal of remedies where it is in a catalog."""
    asked_at = now if now is not None else int(time.time() * 1000)
    commands = commands or commands_for(stage, environment)
    declared = stage.declare(environment)
    own = read_own_evidence(stage.sink, environment) if stage.ours else _read_declared(declared.sinks)
    unread: tuple[Finding, ...] = ()
    journals: Sequence[Journal] = ()
    try:
        journals = read_remedies(environment, session)
    except CannotTell as error:
        unread = (Finding(error.code, Severity.CANNOT_TELL, error.what, error.meaning, error.next, error.do_not),)

    def ask_source(source: SourceDeclaration, checkpoint: Checkpoint) -> tuple[Finding, ...]:
        if source.kind != "kafka":
            return _ask_own(environment, stage, source, checkpoint, commands)
        return _ask_topics(stage, source, checkpoint, commands, recorded_topic_id, asked_at)

    evidence = read_stage(
        declared,
        sinks={**own, **(sinks or {})},
        ask_delta=ask_delta,
        ask_source=ask_source,
        history=history,
        settled=_find_settled(environment, stage, journals),
        reading=_find_reading(environment, stage, journals),
        storage=storage,
    )
    diagnosis = diagnose(
        evidence,
        environment=environment.name,
        spark=spark or installed_version() or DEFAULT,
        now=asked_at,
        commands=commands,
    )
    begun = (*unread, *_find_begun(environment, stage, journals, commands.options))
    return diagnosis.with_findings(begun) if begun else diagnosis


def _read_declared(sinks: Iterable[SinkDeclaration]) -> dict[str, SinkEvidence]:
    """Of the sinks that a stream of somebody else's code writes, what a database says."""
    databases = [sink for sink in sinks if sink.kind == "postgres"]
    if not databases:
        return {}
    from surestart.sinks.postgres.sink import read_ledgers

    return read_ledgers(databases)


def _ask_own(
    environment: Environment, stage: Stage, source: SourceDeclaration, checkpoint: Checkpoint, commands: Commands
) -> tuple[Finding, ...]:
    from surestart.verdict.source_findings import source_unread

    try:
        return ask_own_source(stage.source, source, environment, checkpoint.location)
    except NotAsked as why:
        return (source_unread(source, str(why), commands),)


def _ask_topics(
    stage: Stage, source: SourceDeclaration, checkpoint: Checkpoint, commands: Commands, topic_id: str, now: int
) -> tuple[Finding, ...]:
    from surestart.verdict.ask_kafka import ask_kafka
    from surestart.verdict.source_findings import source_not_asked

    topics = kafka_sources(stage, source)
    if not topics:
        return (source_not_asked(source, commands),)
    asked = (ask_kafka(one, source, checkpoint, commands, recorded_topic_id=topic_id, now=now) for one in topics)
    return tuple(finding for findings in asked for finding in findings)


def kafka_sources(stage: Stage, source: SourceDeclaration) -> tuple[KafkaSource, ...]:
    """Each topic of a declared Kafka source, as what can be asked about it; none where no brokers are known, or where
    the topics are a pattern."""
    from surestart.sources.kafka import KafkaSource, is_one_topic

    own = topic_of(stage.source)
    if own is not None and own.topic == source.target:
        return (own,)
    bootstrap = dict(source.options).get("bootstrap", "")
    topics = [topic.strip() for topic in source.target.split(",")]
    if not bootstrap or not all(map(is_one_topic, topics)):
        return ()
    return tuple(KafkaSource(bootstrap, topic) for topic in topics)


def read_remedies(environment: Environment, session: SparkSession | None = None) -> tuple[Journal, ...]:
    """The journal of remedies; empty where it is in a catalog and no session is at hand: the answer about a begin after
    a remedy then errs on the careful side, and the start gate has a session."""
    from surestart.journal.journal import TABLE, read_journals

    if not environment.root:
        return read_journals(environment, session) if session is not None else ()
    folder = Path(environment.table(TABLE).path) / "_delta_log"
    try:
        if "://" not in environment.root:
            folder.stat()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise CannotTell(
            f"the journal of remedies {folder} cannot be read: {type(error).__name__}: {error.strerror or error}",
            meaning="Whether a remedy is half-way cannot be told.",
            next=typed("ls", "-ld", folder),
            code="JournalUnreadable",
        ) from error
    return read_journals(environment)


def _find_begun(
    environment: Environment, stage: Stage, journals: Sequence[Journal], options: Words
) -> tuple[Finding, ...]:
    """A remedy that was begun and neither finished nor undone."""
    if not journals:
        return ()
    from surestart.journal.journal import find_open
    from surestart.journal.unfinished import jobs_paused, unfinished_beside, unfinished_error

    query = environment.query_name(stage.name)
    found = tuple(
        unfinished_beside(journal, query, environment, options)
        for journal in journals
        if journal.goes_on_beside and query in journal.first.queries
    ) + tuple(
        jobs_paused(journal, query, environment, options)
        for journal in journals
        if journal.leaves_jobs_paused and query in journal.first.queries
    )
    journal = find_open(journals, query)
    if journal is None:
        return found
    said = unfinished_error(journal, query, environment, options)
    return (Finding(said.code, Severity.UNSAFE, said.what, said.meaning, said.next, said.do_not), *found)


def _find_settled(environment: Environment, stage: Stage, journals: Sequence[Journal]) -> dict[str, int]:
    if not journals:
        return {}
    from surestart.journal.journal import settled_tables

    return settled_tables(environment, journals, stage.name)


def _find_reading(environment: Environment, stage: Stage, journals: Sequence[Journal]) -> TableReading | None:
    """How the runner will read the stage's input table, remedies and undos included."""
    if not journals:
        return None
    from surestart.journal.stage_start import next_reading

    return next_reading(environment, stage, journals)
