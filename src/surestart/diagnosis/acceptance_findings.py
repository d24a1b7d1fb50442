"""The findings that an answer about a sink may carry: one function each, so that the wording stands in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from surestart.declaration import SinkDeclaration
from surestart.diagnosis.commands import Commands
from surestart.diagnosis.finding import Finding, Severity
from surestart.diagnosis.sink_evidence import SinkEvidence
from surestart.diagnosis.time_text import span_text, time_text

if TYPE_CHECKING:
    from surestart.diagnosis.acceptance import NextBatch

_DELETE = "delete the checkpoint or files in it."


def ahead(sink: SinkDeclaration, batch: int, table_batch: int, next_batch: NextBatch, commands: Commands) -> Finding:
    count = table_batch - batch + 1
    return Finding(
        "SINK_AHEAD_OF_CHECKPOINT",
        Severity.UNSAFE,
        f"{sink.target} holds batch {table_batch} of query {next_batch.query_id}; the checkpoint's next batch is "
        f"{batch}",
        f"The checkpoint was rewound, restored or copied. The sink drops {_count(count, 'batch')} "
        f"({batch}..{table_batch}) "
        "without an error, and the rows that are new in them are lost.",
        commands.plan("reset" if batch == 0 else "replay"),
        "start the query: each start moves the checkpoint past rows that the sink refuses.",
    )


def behind(sink: SinkDeclaration, table_batch: int, batch: int, commands: Commands) -> Finding:
    missing = batch - 1 - table_batch
    return Finding(
        "SINK_BEHIND_CHECKPOINT",
        _gap(sink),
        f"{sink.target} holds this query's batches up to {table_batch}; the checkpoint counts 0..{batch - 1} as done",
        f"The rows of {_count(missing, 'batch')} ({table_batch + 1}..{batch - 1}) are in neither place: the sink "
        "was put back "
        "to an older copy, or commit files were edited. The next start does not read them again.",
        commands.plan("replay"),
        _DELETE,
    )


def missing(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    return Finding(
        "SINK_MISSING",
        Severity.UNSAFE,
        f"{sink.target} does not exist; the checkpoint counts batches 0..{batch - 1} as written to it",
        "The table was dropped or moved, or the environment points elsewhere. A start creates an empty one and goes "
        "on "
        f"with batch {batch}: everything before it would be missing.",
        commands.plan("reset"),
        "start the query before it is known where the table went.",
    )


def never_saw(
    sink: SinkDeclaration, query_id: str | None, batch: int, commands: Commands, remedy: str = "backfill"
) -> Finding:
    return Finding(
        "SINK_NEVER_SAW_QUERY",
        _gap(sink),
        f"{sink.target} knows no batch of query {query_id}; the checkpoint counts 0..{batch - 1} as done",
        "The table was recreated, or belongs to another environment, or was added to the stage later, or the "
        "checkpoint "
        "is a copy. The next batch is accepted; everything before it is not in this table.",
        commands.plan(remedy),
        "start the query before it is known which of these it is.",
    )


def output_not_cleared(sink: SinkDeclaration, former: str, last: int, commands: Commands) -> Finding:
    return Finding(
        "SINK_OUTPUT_NOT_CLEARED",
        Severity.UNSAFE,
        f"{sink.target} holds {_count(last + 1, 'batch')} of query {former}; the checkpoint begins anew at batch 0",
        "The checkpoint was deleted or moved and the output kept. The new query id is unknown to the sink, so every "
        "row "
        "that is read again is written again.",
        commands.plan("reset"),
        "start the query over the old output.",
    )


def output_not_cleared_keyed(sink: SinkDeclaration, others: Mapping[str, int], commands: Commands) -> Finding:
    known = (
        ", ".join(f"{identity} up to batch {batch}" for identity, batch in sorted(others.items())[:2]) or "no query id"
    )
    return Finding(
        "SINK_MERGES_AGAIN",
        Severity.ATTENTION,
        f"{sink.target} holds rows ({known}); the checkpoint begins anew at batch 0",
        f"Everything is read again and merged by {', '.join(sink.keys)}. Rows that the table has already change "
        "nothing, "
        "so none is doubled; rows deleted from the table on purpose come back.",
        commands.run(),
        "expect rows that were removed from the table by hand to stay away.",
    )


def fresh_cannot_tell(
    sink: SinkDeclaration,
    others: Mapping[str, int],
    explicit: Sequence[str],
    evidence: SinkEvidence,
    commands: Commands,
) -> Finding:
    why = (
        f"the source begins at an explicit {explicit[0]}, which may or may not leave out what the sink holds"
        if explicit
        else "which query wrote them is not recorded"
    )
    held = f"batches of {len(others)} former query ids" if others else "rows"
    if evidence.has_rows is None and not others:
        held, why = "perhaps rows", "whether it is empty was not to be seen"
    return Finding(
        "SINK_FRESH_START_UNCLEAR",
        Severity.CANNOT_TELL,
        f"{sink.target} holds {held}, the checkpoint begins anew at batch 0, and {why}",
        "If the source is read again over them, every one of them is doubled.",
        commands.plan("reset"),
        "start before the sink is known to be empty or the start position to lie past its rows.",
    )


def renewed(sink: SinkDeclaration, former: str, last: int, batch: int, commands: Commands) -> Finding:
    gap = batch - 1 - last
    return Finding(
        "SINK_IDENTITY_RENEWED",
        Severity.UNSAFE if gap > 0 else Severity.ATTENTION,
        f"{sink.target} holds batches up to {last} of query {former}; the checkpoint has another query id and goes "
        "on at "
        f"batch {batch}",
        f"The rows of batches {last + 1}..{batch - 1} are in neither place."
        if gap > 0
        else "The checkpoint's `metadata` was lost or replaced. The batch numbers fit, so nothing is lost or "
        "doubled now; "
        "from here on the table knows this query under a new id.",
        commands.plan("replay") if gap > 0 else commands.run(),
        "write the former id into `metadata` by hand while the query runs.",
    )


def renewed_duplicates(
    sink: SinkDeclaration, former: str, last: int, next_batch: NextBatch, keyed: bool, commands: Commands
) -> Finding:
    return Finding(
        "SINK_IDENTITY_RENEWED",
        Severity.ATTENTION if keyed else Severity.UNSAFE,
        f"{sink.target} holds batch {last} under query {former}; the next start runs batch {next_batch.batch} under "
        f"{next_batch.query_id or 'a new query id'}",
        "The batch is merged again by key, which changes nothing."
        if keyed
        else "`metadata` was lost or replaced, so the sink does not recognise the batch in flight: its rows are "
        "doubled.",
        commands.run() if keyed else commands.plan("resume"),
        "start the query; put back `metadata` from a backup only while it is stopped.",
    )


def identity_lost(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    return Finding(
        "SINK_IDENTITY_LOST",
        Severity.CANNOT_TELL,
        f"the checkpoint has no readable query id, and {sink.target} names no query that batch {batch} could belong to",
        "Whether the batch in flight is in the sink already cannot be told; under a new id it would be written again.",
        commands.plan("reset"),
        _DELETE,
    )


def superseded(sink: SinkDeclaration, app_id: str, other: str, keyed: bool, commands: Commands) -> Finding:
    return Finding(
        "SINK_IDENTITY_SUPERSEDED",
        Severity.ATTENTION if keyed else Severity.UNSAFE,
        f"{sink.target}: query id {other} has written this query's rows since {app_id} did",
        "Another checkpoint of the same query took over after this one, so this one is an old copy or a second "
        "writer. "
        + (
            "Merged by key, rows that come twice change nothing."
            if keyed
            else "What it reads next may be in the table."
        ),
        commands.history(),
        "start both checkpoints, one after the other or at once.",
    )


def retention(
    sink: SinkDeclaration, evidence: SinkEvidence, app_id: str, now: int, replayed: bool, commands: Commands
) -> tuple[Finding, ...]:
    """When the sink forgets this query, if it ever does."""
    if evidence.retention_text and evidence.retention is None:
        return (
            Finding(
                "SINK_TRANSACTION_RETENTION",
                Severity.CANNOT_TELL,
                f"{sink.target} has delta.setTransactionRetentionDuration = {evidence.retention_text!r}, no known "
                "duration",
                "How long the table remembers which batches it holds cannot be told.",
                _unset_retention(sink),
                "",
            ),
        )
    if evidence.retention is None:
        return ()
    expires = evidence.forgets_at(app_id)
    left = span_text(expires - now)
    return (
        Finding(
            "SINK_TRANSACTION_RETENTION",
            Severity.ATTENTION,
            f"{sink.target} forgets this query's batches at {time_text(expires)}, in {left} "
            f"(delta.setTransactionRetentionDuration = {evidence.retention_text!r})",
            "A batch in flight is in the table now; started after that time, its rows are written twice."
            if replayed
            else "After a crash, a restart later than that writes the batch in flight a second time.",
            commands.run() if replayed else _unset_retention(sink),
            "leave the query stopped beyond that time." if replayed else "",
        ),
    )


def forgotten(
    sink: SinkDeclaration, evidence: SinkEvidence, app_id: str, batch: int, now: int, commands: Commands
) -> Finding:
    expired = evidence.forgets_at(app_id)
    when = f" at {time_text(expired)}, {span_text(now - expired)} ago" if expired > 0 else ""
    return Finding(
        "SINK_FORGOT_QUERY",
        Severity.UNSAFE,
        f"{sink.target} holds batch {evidence.transactions[app_id].version} of this query and forgot it{when} "
        f"(delta.setTransactionRetentionDuration = {evidence.retention_text!r}); the next batch is {batch}",
        "The replay is no longer recognised: its rows are written a second time.",
        commands.plan("resume"),
        "start the query as it is.",
    )


def incomplete(sink: SinkDeclaration, evidence: SinkEvidence, commands: Commands) -> Finding:
    first = evidence.commits[0].version if evidence.commits else None
    why = f"its {evidence.source} begins at version {first}"
    if not evidence.sees_newest:
        why = "newer commits may stand in the catalog only"
    elif evidence.retention_text:
        why = f"it forgets queries after {evidence.retention_text!r} (delta.setTransactionRetentionDuration)"
    return Finding(
        "SINK_RECORD_INCOMPLETE",
        Severity.CANNOT_TELL,
        f"{sink.target}: {why}, so which batches of this query it holds cannot be told",
        "A batch that it has is dropped, one that it does not know is written; which of them comes next is open.",
        commands.doctor(),
        "take the missing record for an empty table.",
    )


def unreadable(sink: SinkDeclaration, problem: str, commands: Commands) -> Finding:
    return _open(_UNREADABLE, commands.doctor(), sink, problem=problem)


def unrecognisable_replay(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    return _open(_UNRECOGNISABLE_REPLAY, commands.plan("resume"), sink, batch=batch)


def constant_skips(sink: SinkDeclaration, name: str, table_batch: int, batch: int, commands: Commands) -> Finding:
    return Finding(
        "SINK_CONSTANT_IDENTITY_SKIPS",
        Severity.UNSAFE,
        f"{sink.target} holds batch {table_batch} of the constant application id {name!r}; the next batch is {batch}",
        f"The identity outlived the checkpoint. The sink drops batches {batch}..{table_batch} without an error, "
        "whatever is "
        "in them.",
        commands.plan("reset"),
        "start the query, or change the constant by hand and start over the old output.",
    )


def constant_unknown(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    return _open(_CONSTANT_UNKNOWN, commands.doctor(), sink, last=batch - 1)


_UNREADABLE = Finding(
    "SINK_UNREADABLE",
    Severity.CANNOT_TELL,
    "{target}: {problem}",
    "Whether it accepts, skips or doubles the next batch is not known.",
    next="",
    do_not="take an unreadable sink for an empty one.",
)
_UNRECOGNISABLE_REPLAY = Finding(
    "SINK_REPLAY_UNRECOGNISABLE",
    Severity.CANNOT_TELL,
    "batch {batch} is in flight, and {target} ({kind}) keeps no record of the batches it holds",
    "If the batch was written before the stop, the replay writes its rows a second time.",
    next="",
    do_not="start the query before the batch's rows were looked for in the sink.",
)
_CONSTANT_UNKNOWN = Finding(
    "SINK_CONSTANT_IDENTITY_UNKNOWN",
    Severity.CANNOT_TELL,
    "{target} knows no constant application id; the checkpoint counts batches 0..{last} as done",
    "The table was recreated, or the constant changed, or the writes carry no transaction at all.",
    next="",
)


def _open(template: Finding, next: str, sink: SinkDeclaration, **facts: object) -> Finding:
    evidence = template.evidence.format(target=sink.target, kind=sink.kind, **facts)
    return replace(template, evidence=evidence, next=next)


def _gap(sink: SinkDeclaration) -> Severity:
    """surestart's sinks and Delta's own commit every batch, also an empty one; a user's function may leave some out."""
    return Severity.CANNOT_TELL if sink.kind == "foreach-batch" else Severity.UNSAFE


def _unset_retention(sink: SinkDeclaration) -> str:
    table = f"delta.`{sink.path}`" if sink.path else sink.target
    return f'spark-sql -e "ALTER TABLE {table} UNSET TBLPROPERTIES (delta.setTransactionRetentionDuration)"'


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}es"
