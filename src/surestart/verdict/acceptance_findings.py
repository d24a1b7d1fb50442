"""The findings that an answer about a sink may carry: one function each, so that the wording stands in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from surestart.declaration import SinkDeclaration
from surestart.facts.evidence.file_sink import FILE_SINKS
from surestart.facts.evidence.sink_evidence import SinkEvidence
from surestart.typed import NOTHING, NextStep, delta_name, spark_sql
from surestart.words.amounts import span_text, time_text
from surestart.words.finding import Finding, Severity
from surestart.words.inert import inert
from surestart.words.next_commands import Commands

if TYPE_CHECKING:
    from surestart.facts.evidence.sink_evidence import FileBatches
    from surestart.verdict.acceptance_case import NextBatch

_DELETE = "delete the checkpoint or files in it."


def ahead(sink: SinkDeclaration, batch: int, table_batch: int, next_batch: NextBatch, commands: Commands) -> Finding:
    count = table_batch - batch + 1
    return Finding(
        "SINK_AHEAD_OF_CHECKPOINT",
        Severity.UNSAFE,
        f"{sink.target} holds batch {table_batch} of query {next_batch.query_id}; "
        f"the checkpoint's next batch is {batch}",
        f"The checkpoint was rewound, restored or copied. The sink drops {_count(count, 'batch')} "
        f"({_span(batch, table_batch)}) without an error, and the rows that are new in them are lost.",
        commands.plan("reset" if batch == 0 else "replay"),
        "start the query: each start moves the checkpoint past rows that the sink refuses.",
    )


def ahead_by_number(sink: SinkDeclaration, batch: int, last: int, commands: Commands) -> Finding:
    return Finding(
        "SINK_AHEAD_OF_CHECKPOINT",
        Severity.UNSAFE,
        f"{sink.target}/_spark_metadata goes to batch {last}; the checkpoint's next batch is {batch}",
        "The checkpoint was rewound, deleted, restored or copied, or another query has written this folder. The sink "
        f"knows batches by number alone and drops {_count(last - batch + 1, 'batch')} ({_span(batch, last)}) without "
        "an error: the rows that are new in them are lost.",
        commands.plan("reset" if batch == 0 else "replay"),
        "delete _spark_metadata: readers would then take files of failed attempts for rows.",
    )


def file_log_torn(sink: SinkDeclaration, held: FileBatches, commands: Commands) -> Finding:
    why = held.fault.detail if held.fault else f"_spark_metadata has no batch {held.missing[0]}"
    return Finding(
        "SINK_RECORD_INCOMPLETE",
        Severity.CANNOT_TELL,
        f"{sink.target}: {why}, so which batches it holds cannot be told",
        "The sink goes by the numbers of those files, and what reads the folder goes by their lines: it stops at one "
        "that is missing or torn.",
        commands.doctor(),
        "treat the missing record as an empty folder.",
    )


def sink_not_asked(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    """Of what keeps no record its owner can say what a row that comes again does there."""
    said = ""
    if sink.kind == "kafka":
        said = "" if sink.bootstrap else "bootstrap"
    elif sink.kind not in FILE_SINKS:
        said = "keys"
    return _open(_NOT_ASKED, commands.tell(said), sink, done=_span(0, batch - 1))


_LEFT_OUT = " Unless a function writes here, and wrote nothing because those batches had no row for it."


def behind(
    sink: SinkDeclaration, table_batch: int, batch: int, commands: Commands, may_leave_out: bool = False
) -> Finding:
    missing = batch - 1 - table_batch
    return Finding(
        "SINK_BEHIND_CHECKPOINT",
        Severity.CANNOT_TELL if may_leave_out else Severity.UNSAFE,
        f"{sink.target} holds this query's batches up to {table_batch}; the checkpoint counts "
        f"{_span(0, batch - 1)} as done",
        f"The rows of {_count(missing, 'batch')} ({_span(table_batch + 1, batch - 1)}) are in neither place: the sink "
        "was put back to an older copy, or commit files were edited. The next start does not read them again."
        + (_LEFT_OUT if may_leave_out else ""),
        commands.plan("replay"),
        _DELETE,
    )


def missing(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    return Finding(
        "SINK_MISSING",
        # A user's function may have had no row to write yet.
        Severity.CANNOT_TELL if sink.kind == "foreach-batch" else Severity.UNSAFE,
        f"{sink.target} is not there, or is not a table; the checkpoint counts {_span(0, batch - 1)} as written to it",
        "The table was dropped or moved, or the environment points elsewhere. A start creates "
        f"an empty one and goes on with batch {batch}: everything before it would be missing.",
        commands.plan("reset"),
        "start the query before you know where the table went.",
    )


def never_saw(
    sink: SinkDeclaration,
    query_id: str | None,
    batch: int,
    commands: Commands,
    remedy: str = "backfill",
    made_anew: bool = False,
    may_leave_out: bool = False,
) -> Finding:
    may_leave_out = may_leave_out and not made_anew
    return Finding(
        "SINK_NEVER_SAW_QUERY",
        Severity.CANNOT_TELL if may_leave_out else Severity.UNSAFE,
        f"{sink.target} knows no batch of query {query_id}; the checkpoint counts {_span(0, batch - 1)} as done"
        + (", and the table was made after the newest of them" if made_anew else ""),
        "The table was recreated, or belongs to another environment, or was added to the stage later, or "
        "the checkpoint is a copy. The next batch is accepted; everything before it is not in this table."
        + (_LEFT_OUT if may_leave_out else ""),
        commands.plan(remedy),
        "start the query before you know which of these it is.",
    )


def output_not_cleared(sink: SinkDeclaration, former: str, last: int, commands: Commands) -> Finding:
    return Finding(
        "SINK_OUTPUT_NOT_CLEARED",
        Severity.UNSAFE,
        f"{sink.target} holds "
        + (f"{_count(last + 1, 'batch')} of query {former}" if former else "rows, and only this query writes there")
        + "; the checkpoint begins anew at batch 0",
        "The checkpoint was deleted or moved and the output kept. The new query id "
        "is unknown to the sink, so every row that is read again is written again.",
        commands.plan("reset"),
        "start the query over the old output.",
    )


def output_not_cleared_keyed(
    sink: SinkDeclaration, others: Mapping[str, int], keys: Sequence[str], commands: Commands
) -> Finding:
    known = (
        ", ".join(f"{identity} up to batch {batch}" for identity, batch in sorted(others.items())[:2]) or "no query id"
    )
    return Finding(
        "SINK_MERGES_AGAIN",
        Severity.ATTENTION,
        f"{sink.target} holds rows ({known}); the checkpoint begins anew at batch 0",
        f"Everything is read again and merged by {', '.join(sink.keys or keys)}. Rows that the table has already "
        "change nothing, so none is doubled; rows deleted from the table on purpose come back.",
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
        else "nothing says whether this query wrote them under an earlier checkpoint, or others did"
    )
    held = f"batches of {_count(len(others), 'query id', 's')}" if others else "rows"
    if evidence.has_rows is None and not others:
        held, why = "perhaps rows", "nothing shows whether it is empty"
    return Finding(
        "SINK_FRESH_START_UNCLEAR",
        Severity.CANNOT_TELL,
        f"{sink.target} holds {held}, the checkpoint begins anew at batch 0, and {why}",
        "If it did, every one of them is read and written again. A "
        "query that has never written there may be said to be new.",
        commands.settle("SINK_FRESH_START_UNCLEAR", "new"),
        "start before you know that the sink is empty, or the start position to be past its rows.",
    )


def renewed(sink: SinkDeclaration, former: str, last: int, batch: int, commands: Commands) -> Finding:
    gap = batch - 1 - last
    return Finding(
        "SINK_IDENTITY_RENEWED",
        Severity.UNSAFE if gap > 0 else Severity.ATTENTION,
        f"{sink.target} holds batches up to {last} of query {former}; the "
        f"checkpoint has another query id and goes on at batch {batch}",
        f"The rows of batches {last + 1}..{batch - 1} are in neither place."
        if gap > 0
        else "The checkpoint's `metadata` was lost or replaced. The batch numbers fit, so nothing "
        "is lost or doubled now; from here on the table knows this query under a new id.",
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
        else "`metadata` was lost or replaced, so the sink does not recognise "
        f"{'the batch in flight' if next_batch.replayed else 'what it holds, when it comes again'}: its rows are "
        "doubled.",
        commands.run() if keyed else commands.plan("resume"),
        "start the query; put back `metadata` from a backup only while it is stopped.",
    )


def identity_lost(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    return Finding(
        "SINK_IDENTITY_LOST",
        Severity.CANNOT_TELL,
        f"the checkpoint has no readable query id, and {sink.target} names no query that batch {batch} could belong to",
        "Whether that batch is in the sink already cannot be told; under a new id it would be written again.",
        commands.plan("reset"),
        _DELETE,
    )


def superseded(sink: SinkDeclaration, app_id: str, other: str, keyed: bool, commands: Commands) -> Finding:
    return Finding(
        "SINK_IDENTITY_SUPERSEDED",
        Severity.ATTENTION if keyed else Severity.UNSAFE,
        f"{sink.target}: query id {other} has written this query's rows since {app_id} did",
        "Another checkpoint of the same query took over after this one, so this one is an old copy or a second writer. "
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
                f"{sink.target} has delta.setTransactionRetentionDuration "
                f"= {evidence.retention_text!r}, which is not a known duration",
                "How long the table remembers which batches it holds cannot be told.",
                _unset_retention(sink),
                "",
            ),
        )
    if evidence.retention is None:
        return ()
    expires = evidence.forgets_at(app_id)
    when = "has forgotten this query's batches"
    if expires > now:
        when = f"forgets this query's batches at {time_text(expires)}, in {span_text(expires - now)}"
    return (
        Finding(
            "SINK_TRANSACTION_RETENTION",
            Severity.ATTENTION,
            f"{sink.target} {when} (delta.setTransactionRetentionDuration = {evidence.retention_text!r})",
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
    if evidence.unreached:
        why = f"this query's last commit is older than version {first}, and what came after it is not known"
    if first is None:
        why = f"its {evidence.source} has no commit left that says who wrote it"
    if evidence.unknown_features:
        why = f"it needs {', '.join(map(inert, evidence.unknown_features[:5]))} of its readers, which is not known here"
    elif not evidence.sees_newest:
        why = "only the catalog may have the newer commits"
    elif evidence.retention_text:
        why = f"it forgets queries after {evidence.retention_text!r} (delta.setTransactionRetentionDuration)"
    return Finding(
        "SINK_RECORD_INCOMPLETE",
        Severity.CANNOT_TELL,
        f"{sink.target}: {why}, so which batches of this query it holds cannot be told",
        "A batch that it has is dropped, one that it does not know is written; which comes next is not known.",
        commands.doctor(),
        "treat the missing record as an empty table.",
    )


def sink_not_readable(sink: SinkDeclaration, evidence: SinkEvidence, commands: Commands) -> Finding:
    return _open(_UNREADABLE, evidence.helps or commands.doctor(), sink, problem=evidence.problem)


def unrecognisable_replay(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    return _open(_UNRECOGNISABLE_REPLAY, commands.plan("resume"), sink, batch=batch)


def constant_skips(sink: SinkDeclaration, name: str, table_batch: int, batch: int, commands: Commands) -> Finding:
    return Finding(
        "SINK_CONSTANT_IDENTITY_SKIPS",
        Severity.UNSAFE,
        f"{sink.target} holds batch {table_batch} of the constant application id {name!r}; the next batch is {batch}",
        "The identity outlived the checkpoint. The sink drops batches "
        f"{batch}..{table_batch} without an error, whatever is in them.",
        commands.plan("reset"),
        "start the query, or change the constant by hand and start over the old output.",
    )


def constant_unknown(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    return _open(_CONSTANT_UNKNOWN, commands.doctor(), sink, done=_span(0, batch - 1))


_UNREADABLE = Finding(
    "SINK_UNREADABLE",
    Severity.CANNOT_TELL,
    "{target}: {problem}",
    "Whether it accepts, skips or doubles the next batch is not known.",
    next=NOTHING,
    do_not="treat an unreadable sink as an empty one.",
)
_NOT_ASKED = Finding(
    "SINK_NOT_ASKED",
    Severity.CANNOT_TELL,
    "{target} ({kind}) keeps no record of batches that could be read; the checkpoint counts {done} as written to it",
    "Nobody has asked whether they are there, or whether it is the same place at all: a checkpoint that was rewound, "
    "or a target that was emptied, looks the same from here.",
    next=NOTHING,
    do_not="treat a sink that was not asked as one that holds its batches.",
)
_UNRECOGNISABLE_REPLAY = Finding(
    "SINK_REPLAY_UNRECOGNISABLE",
    Severity.CANNOT_TELL,
    "batch {batch} is in flight, and {target} ({kind}) keeps no record of the batches it holds",
    "If the batch was written before the stop, the replay writes its rows a second time.",
    next=NOTHING,
    do_not="start the query before the batch's rows were looked for in the sink.",
)
_CONSTANT_UNKNOWN = Finding(
    "SINK_CONSTANT_IDENTITY_UNKNOWN",
    Severity.CANNOT_TELL,
    "{target} knows no constant application id; the checkpoint counts {done} as done",
    "The table was recreated, or the constant changed, or the writes carry no transaction at all.",
    next=NOTHING,
)


def _open(template: Finding, next: NextStep, sink: SinkDeclaration, **facts: object) -> Finding:
    evidence = template.evidence.format(target=sink.target, kind=sink.kind, **facts)
    return replace(template, evidence=evidence, next=next)


def _unset_retention(sink: SinkDeclaration) -> NextStep:
    table = delta_name(sink.path, sink.target)
    return spark_sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES (delta.setTransactionRetentionDuration)")


def _span(first: int, last: int) -> str:
    return f"batch {first}" if first == last else f"{first}..{last}"


def _count(number: int, noun: str, plural: str = "es") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{plural}"
