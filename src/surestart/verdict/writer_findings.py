"""The findings about who wrote into a sink: other queries, former selves, and functions that write without a pair."""

from __future__ import annotations

from collections.abc import Sequence

from surestart.declaration import SinkDeclaration
from surestart.facts.delta import Commit
from surestart.verdict.batch_times import Trace
from surestart.words.amounts import time_text
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

OTHER_WRITER = "SINK_OTHER_WRITER"
MERGE_UNCLEAR = "SINK_MERGE_UNCLEAR"
WRITTEN_SINCE = "SINK_WRITTEN_SINCE"


def other_writer(sink: SinkDeclaration, app_id: str, other: str, keyed: bool, commands: Commands) -> Finding:
    return Finding(
        OTHER_WRITER,
        Severity.ATTENTION if keyed else Severity.CANNOT_TELL,
        f"{sink.target}: query id {other} has written since {app_id} did, and nothing names its query",
        "Another query that shares this table, or this query under another checkpoint: then what this one reads next "
        "may be there already. "
        + (
            "Merged by key, rows that come twice change nothing." if keyed else "If you know that it is shared, say so."
        ),
        commands.settle(OTHER_WRITER, "shared"),
        "say that the table is shared before you have found the other query.",
    )


def replay_merged(sink: SinkDeclaration, batch: int, keys: Sequence[str], commands: Commands) -> Finding:
    return Finding(
        "SINK_REPLAY_MERGED",
        Severity.ATTENTION,
        f"batch {batch} is in flight; {sink.target} keeps no record of it and merges by {', '.join(keys)}",
        "If it is there already, it is merged again: rows that the table has change nothing, none is doubled. An "
        "UPDATE that adds to what is there would count the batch twice.",
        commands.run(),
        "declare keys for a MERGE that adds to a value.",
    )


def memory_cannot_resume(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    return Finding(
        "MEMORY_SINK_NOT_RESUMED",
        Severity.CANNOT_TELL,
        f"{sink.target} is a sink of kind memory, and the checkpoint would go on with batch {batch}",
        "In output mode append and update Spark refuses to resume it: its rows went with the driver, and the batches "
        "before are not made again. In output mode complete it goes on.",
        commands.doctor("where its output mode is complete, surestart.toml may say so"),
        "delete offsets/, as Spark's message proposes, from a checkpoint that another sink has shared.",
    )


def ledger_declared(sink: SinkDeclaration, batch: int, commands: Commands) -> Finding:
    return Finding(
        "SINK_LEDGER_DECLARED",
        Severity.ATTENTION,
        f"batch {batch} is in flight; {sink.target} is declared to keep a row for each batch in {sink.ledger}, which "
        "was not asked from here",
        "Where that row is in the transaction of the rows, the replay is recognised and writes nothing twice.",
        commands.run(),
        "call a table a ledger whose row is committed apart from the rows.",
    )


def merge_unclear(sink: SinkDeclaration, batch: int, commits: Sequence[Commit], commands: Commands) -> Finding:
    condition = next((one.parameters.get("predicate", "") for one in commits if one.operation == "MERGE"), "")
    return Finding(
        MERGE_UNCLEAR,
        Severity.CANNOT_TELL,
        f"{sink.target} is merged into on {condition[:120] or 'a condition that is not known'}, batch {batch} may be "
        "there already, and the table keeps no record of it",
        "A MERGE that sets its rows by key may be done twice; one that adds to what is there may not. Delta does not "
        "write down which it is: whoever wrote the MERGE may say its keys.",
        commands.settle(MERGE_UNCLEAR, "keys=COLUMN"),
        "name keys for a MERGE whose UPDATE adds to a value.",
    )


def replay_doubles(sink: SinkDeclaration, batch: int, commit: Commit, commands: Commands) -> Finding:
    when = f" at {time_text(commit.timestamp)}" if commit.timestamp is not None else ""
    return Finding(
        "SINK_HOLDS_BATCH_UNSIGNED",
        Severity.UNSAFE,
        f"batch {batch} is in flight, and {sink.target} was written since it was planned, as by each batch before: "
        f"version {commit.version}{when}, {commit.operation} without (query id, batch id)",
        "The batch is there and the table does not know it: the replay writes its rows a second time.",
        commands.plan("resume"),
        f"start the query while version {commit.version} holds the batch: RESTORE the version before it first.",
    )


def unsigned_gap(sink: SinkDeclaration, batch: int, trace: Trace, commands: Commands) -> Finding:
    seen = ", ".join(f"{span.batch}: {span.count}" for span in trace.spans[-4:]) or "none is known"
    return Finding(
        "SINK_BATCH_NOT_SEEN",
        Severity.CANNOT_TELL,
        f"{sink.target} shows no commit of the time of batch {batch - 1}, "
        f"which counts as done (commits of each batch: {seen})",
        "The batch had no row to write, or the table was put back to an older copy, or it is written elsewhere.",
        commands.doctor(),
        "treat the batch as written because the checkpoint counts it.",
    )


def unsigned_more(
    sink: SinkDeclaration,
    batch: int,
    count: int,
    usual: int,
    commands: Commands,
    *,
    sure: bool = False,
    replaces: bool = False,
) -> Finding:
    """sure: nobody else writes there, or the checkpoint itself shows that later batches have run. replaces: what comes
    again may take the place of what is there."""
    return Finding(
        WRITTEN_SINCE,
        Severity.UNSAFE if sure else Severity.CANNOT_TELL,
        f"{sink.target} has {count} commit{'s' * (count != 1)} without (query id, batch id) since batch {batch - 1} "
        f"was planned; {f'a batch makes {usual}' if count > usual else 'not every batch has written'}",
        "The checkpoint was put back to an older state, so that what comes next is there already"
        + (": its rows are doubled." if sure else "; or somebody else has written.")
        + (
            " Each batch takes rows out first; only its owner knows whether they are the ones that come again."
            * replaces
        ),
        commands.plan("replay") if sure else commands.doctor(),
        "start the query before you know who wrote them.",
    )


def replaced(sink: SinkDeclaration, commands: Commands) -> Finding:
    return Finding(
        "SINK_REPLACED_BY_EACH_BATCH",
        Severity.ATTENTION,
        f"{sink.target} was written in output mode complete only; the checkpoint begins anew at batch 0",
        "Each batch writes the whole result anew, so nothing is doubled. What the source no longer has is missing in "
        "the new result.",
        commands.run(),
        "start it over a source that has lost rows since.",
    )
