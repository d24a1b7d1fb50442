"""What the run history says against a start that the checkpoint and the sinks alone cannot say.

    another query or environment ran at this path      CHECKPOINT_SHARED
    batches were committed here, and it is gone        CHECKPOINT_DELETED      empty sinks: cannot tell, else unsafe
    the path is another one than at the last run       CHECKPOINT_PATH_CHANGED    with batches in it: cannot tell
    the query id is not the one that ran last          CHECKPOINT_SWAPPED      unless no sink remembers the former id
    a remedy has changed any of this since             nothing

Values in, values out.

What a run's tables and topics are by their own ids: a name can be given to another thing, an id cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from surestart.declaration import StageDeclaration
from surestart.environment import Environment
from surestart.errors import SurestartError
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.delta import read_delta_log
from surestart.facts.evidence.sink_evidence import SinkEvidence
from surestart.history.run_record import REMEDY, RunRecord
from surestart.library_types import SparkSession
from surestart.sources.abilities import topic_of
from surestart.stage import Stage
from surestart.words.amounts import time_text
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands


def find_history(
    declaration: StageDeclaration,
    environment: str,
    place: str,
    checkpoint: Checkpoint,
    sinks: Mapping[str, SinkEvidence],
    runs: Sequence[RunRecord],
    commands: Commands,
    *,
    in_one_folder: bool,
) -> tuple[Finding, ...]:
    """runs: of the whole registry, oldest first; place: the checkpoint's canonical path. in_one_folder:
    Environment.in_one_folder, whose checkpoint has another path once all of it was moved."""
    others = [
        run for run in runs if run.place == place and (run.query, run.environment) != (declaration.query, environment)
    ]
    own = [run for run in runs if (run.query, run.environment) == (declaration.query, environment)]
    own = runs_that_stand(own)
    # Since the newest remedy: what it moved, cleared or recreated is no longer held against the start.
    since = max((index for index, run in enumerate(own) if run.event == REMEDY), default=-1)
    own = own[since + 1 :]
    found = [_shared(place, others[-1], declaration, commands)] if others else []
    ran = [run for run in own if run.query_id]
    if not ran:
        return tuple(found)
    last = ran[-1]
    if not checkpoint.logs_listed:
        # Which batches stand there was refused: that has a finding of its own, and nothing was moved or deleted by it.
        pass
    elif last.place != place and checkpoint.latest_planned is None:
        found.append(_moved(place, ran, commands))
    elif last.place != place and not in_one_folder:
        found.append(_elsewhere(place, last, checkpoint, commands))
    elif checkpoint.latest_planned is None and any(run.last_batch is not None for run in ran):
        found.append(_deleted(declaration, checkpoint, sinks, ran, commands))
    if checkpoint.query_id is not None and checkpoint.query_id != last.query_id:
        swapped = _swapped(declaration, checkpoint, sinks, last, runs, commands)
        found += [swapped] if swapped else []
    return tuple(found)


def runs_that_stand(own: Sequence[RunRecord]) -> list[RunRecord]:
    """The history without what was undone: an undo takes back its remedy and every run since, and is none itself."""
    standing: list[RunRecord] = []
    for run in own:
        if not run.undoes:
            standing.append(run)
            continue
        begun = [index for index, one in enumerate(standing) if one.remedy == run.undoes]
        standing = standing[: begun[-1]] if begun else standing
    return standing


def _shared(place: str, other: RunRecord, declaration: StageDeclaration, commands: Commands) -> Finding:
    return Finding(
        "CHECKPOINT_SHARED",
        Severity.UNSAFE,
        f"{place} is the checkpoint of {other.query} in environment {other.environment} "
        f"(written there as {other.checkpoint}, last run {time_text(other.started_at)})",
        f"{declaration.query} would read that query's progress as its own and write over it: both lose rows.",
        commands.history(),
        "point two queries, or two environments, at one checkpoint folder.",
    )


def _moved(place: str, ran: Sequence[RunRecord], commands: Commands) -> Finding:
    places = list(dict.fromkeys(run.place for run in ran))
    last = ran[-1]
    never = len(ran) > 1 and len(places) == len(ran)
    return Finding(
        "CHECKPOINT_PATH_CHANGED",
        Severity.UNSAFE,
        f"the checkpoint would be {place}, which is empty; the last run used {last.place} up to batch "
        f"{'?' if last.last_batch is None else last.last_batch}"
        + (f"; the last {len(ran)} runs used {len(places)} different paths" if never else ""),
        "A path that changes never comes back: the query begins at batch "
        "0 under a new id, and what it reads again is written again.",
        commands.plan("reset"),
        "put a date, a run id or a user name into the checkpoint path.",
    )


def _elsewhere(place: str, last: RunRecord, checkpoint: Checkpoint, commands: Commands) -> Finding:
    return Finding(
        "CHECKPOINT_PATH_CHANGED",
        Severity.CANNOT_TELL,
        f"the checkpoint would be {place}, which is at batch {checkpoint.latest_planned}; the registered one is "
        f"{last.place}, where the last run got to batch {'?' if last.last_batch is None else last.last_batch}",
        "A query has one checkpoint, the one that its last run used. Whether this is the same one, moved for good, or "
        "a copy beside it, only the person who put it there knows. Two of them that take turns lose or double rows.",
        commands.accept("CHECKPOINT_PATH_CHANGED"),
        "accept it for a single run: the next one, at the registered place, would be refused in turn.",
    )


def _deleted(
    declaration: StageDeclaration,
    checkpoint: Checkpoint,
    sinks: Mapping[str, SinkEvidence],
    ran: Sequence[RunRecord],
    commands: Commands,
) -> Finding:
    last = next(run for run in reversed(ran) if run.last_batch is not None)
    empty = all(
        (held := sinks.get(sink.target)) is not None and held.known and held.has_rows is False
        for sink in declaration.sinks
    )
    gone = "is not there" if not checkpoint.exists else "has no batch any more"
    return Finding(
        "CHECKPOINT_DELETED",
        Severity.CANNOT_TELL if empty else Severity.UNSAFE,
        f"{last.checkpoint} {gone}; the run of {time_text(last.started_at)} committed batch {last.last_batch} in it",
        "The output is empty as well. Whether the source still has everything that was in it cannot be told."
        if empty
        else "Somebody deleted the checkpoint and kept the output. The query would begin at batch 0 under a new id; "
        "what the source still has is written again, and what it no longer has is never read.",
        commands.plan("reset"),
        "start it: put the checkpoint back if it was moved, or reset with a plan.",
    )


def _swapped(
    declaration: StageDeclaration,
    checkpoint: Checkpoint,
    sinks: Mapping[str, SinkEvidence],
    last: RunRecord,
    runs: Sequence[RunRecord],
    commands: Commands,
) -> Finding | None:
    unread = [sink.target for sink in declaration.sinks if not (held := sinks.get(sink.target)) or not held.known]
    holding = [
        sink.target
        for sink in declaration.sinks
        if (held := sinks.get(sink.target)) and sink.app_id(last.query_id) in held.transactions
    ]
    if not unread and not holding:
        return None
    owner = next((run for run in reversed(runs) if run.query_id == checkpoint.query_id), None)
    whose = ""
    if owner is not None:
        same = owner.query == declaration.query
        whose = (
            f", an earlier one of this query ({time_text(owner.started_at)})" if same else f", that of {owner.query}"
        )
    return Finding(
        "CHECKPOINT_SWAPPED",
        Severity.UNSAFE if holding else Severity.CANNOT_TELL,
        f"the checkpoint's query id is {checkpoint.query_id}{whose}; the last run, {time_text(last.started_at)}, had "
        f"{last.query_id}, whose batches are in {', '.join(holding) or 'perhaps ' + ', '.join(unread)}",
        "The checkpoint was recreated, restored or replaced since the last run, and the output was not cleared: the "
        "tables do not notice which of their rows the next batches bring again.",
        commands.plan("reset"),
        "edit `metadata` to make the ids agree.",
    )


def read_sink_ids(spark: SparkSession, stage: Stage, environment: Environment) -> dict[str, str]:
    """Table id by target, of the Delta sinks whose id can be read."""
    found = {}
    for sink in stage.sink.declare(environment):
        if not sink.is_delta:
            continue
        try:
            if sink.path:
                found[sink.target] = read_delta_log(sink.path).table_id
            else:
                found[sink.target] = _detail_id(spark, sink.target)
        except SurestartError:
            # Left out: "not known" is what an absent id says.
            continue
    return {target: one for target, one in found.items() if one}


def read_source_ids(stage: Stage, environment: Environment) -> dict[str, str]:
    """Topic id or table id by target, of the source if it can be read."""
    source, asked = stage.source.declare(environment), topic_of(stage.source)
    try:
        if asked is not None:
            from surestart.facts.kafka.admin import KafkaAdmin
            from surestart.facts.kafka.evidence import known_topic_id

            topic = KafkaAdmin(asked.bootstrap, asked.security, 5).describe_topic(asked.topic)
            topic_id = known_topic_id(topic.topic_id) if topic is not None else ""
            return {source.target: topic_id} if topic_id else {}
        if source.kind == "delta" and source.path:
            return {source.target: read_delta_log(source.path).table_id}
    except SurestartError:
        return {}
    return {}


def read_topic_id(runs: Sequence[RunRecord], declaration: StageDeclaration) -> str:
    """The id of the Kafka topic that the newest of these runs has read from, or "". What was undone does not count: the
    checkpoint that stands again has read from the topic before it."""
    from surestart.facts.kafka.evidence import known_topic_id

    for run in reversed(runs_that_stand(runs)):
        for source in declaration.sources:
            if source.kind == "kafka" and (found := known_topic_id(run.sources.get(source.target, ""))):
                return found
    return ""


def _detail_id(spark: SparkSession, target: str) -> str:
    from pyspark.errors import PySparkException

    from surestart.facts.evidence.session_evidence import table_sql

    try:
        return str(spark.sql(f"DESCRIBE DETAIL {table_sql(target)}").collect()[0]["id"])
    except PySparkException:
        return ""
