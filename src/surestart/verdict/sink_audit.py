"""Is a replayed batch harmless at each declared sink? Said before the first run instead of after the first crash.

A crash between the sink's commit and Spark's `commits/N` replays batch N with the same offsets; that is normal and will
happen. What a sink then does depends on what it remembers:

    delta-append, delta-merge   pair (query id, batch id) in the table's log     recognised
    delta-builtin               the same pair, set by Delta itself               recognised
    postgres                    the pair in a ledger, in the rows' transaction   recognised
    foreach-batch               whatever the function does                       by its declared identity
    parquet                     Spark's own log in the output folder, by batch id alone
    jdbc, foreach               nothing                                          written again
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from surestart.declaration import SinkDeclaration, StageDeclaration
from surestart.facts.evidence.file_sink import FILE_SINKS
from surestart.typed import in_the_code, surestart
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

RECOGNISED = {
    "delta-append": "each append carries (query id, batch id); Delta drops a pair that it has",
    "delta-merge": "each MERGE carries (query id, batch id); Delta drops a pair that it has",
    "delta-builtin": "Delta's own sink writes (query id, batch id) and drops a pair that it has",
    "iceberg": "each snapshot keeps (query id, batch id); a streaming write passes over a batch that is not above it",
    "console": "its rows are printed and kept by nobody",
    "noop": "its rows are thrown away",
    "memory": "its rows are gone with the driver",
    "postgres": "the ledger row is in the rows' own transaction; a second one violates its key",
}


def audit_sinks(declaration: StageDeclaration, commands: Commands | None = None) -> tuple[Finding, ...]:
    """One finding for each sink at which a replay is not harmless, and one INFO for each at which it is. Of a stream
    that others run all are notes: what they have written is not to be refused for its style."""
    commands = commands or Commands(declaration.stage)
    findings = [finding for sink in declaration.sinks for finding in _audit(sink, declaration, commands)]
    if declaration.foreign:
        told = (one for one in findings if one.code != _UNKNOWN.code)
        return tuple(replace(one, severity=Severity.INFO) for one in told)
    return (*findings, *_audit_pairs(declaration.sinks, commands))


def _audit(sink: SinkDeclaration, declaration: StageDeclaration, commands: Commands) -> list[Finding]:
    findings = []
    if sink.identity == "constant":
        findings.append(_say(_CONSTANT, sink))
    elif sink.kind in FILE_SINKS:
        findings.append(_say(_PARQUET, sink))
    elif sink.kind in ("console", "noop", "memory"):
        findings.append(_harmless(sink, RECOGNISED[sink.kind], commands))
    elif sink.keys:
        findings.append(_harmless(sink, "rows that come again replace themselves by key, as declared", commands))
    elif sink.identity == "none" or sink.kind in ("jdbc", "foreach"):
        findings.append(_say(_NO_IDENTITY, sink))
    elif sink.kind in RECOGNISED:
        findings.append(_harmless(sink, RECOGNISED[sink.kind], commands))
    elif sink.recognises and sink.identity == "query-id":
        findings.append(_harmless(sink, sink.recognises, commands))
    elif sink.kind == "foreach-batch":
        findings.append(
            _harmless(sink, "the function is declared to write (query id, batch id) with every batch", commands)
        )
    else:
        findings.append(replace(_say(_UNKNOWN, sink), next=commands.doctor()))
    if not sink.reads_whole_batch:
        findings.append(_partial_read(sink, declaration, commands))
    return findings


def _audit_pairs(sinks: Sequence[SinkDeclaration], commands: Commands) -> list[Finding]:
    """Delta compares one number per table and application id: a second write of one batch under the same pair is
    taken for a replay of the first."""
    recognising = [
        sink for sink in sinks if sink.identity != "none" and sink.kind not in (*FILE_SINKS, "jdbc", "foreach")
    ]
    counts = Counter((sink.path or sink.target, sink.step) for sink in recognising)
    return [
        Finding(
            "SINK_WRITES_TWICE",
            Severity.UNSAFE,
            f"{target} is written {count} times in one batch under the same pair"
            + (f" (step {step!r})" if step else " (no step)"),
            "The table takes the second write for a replay of the "
            "first and drops it, in every batch, without an error.",
            in_the_code("give each write of the batch into this table a step of its own"),
            "leave the two writes under one pair because the first test passed: the second one's rows are missing.",
        )
        for (target, step), count in counts.items()
        if count > 1
    ]


def _harmless(sink: SinkDeclaration, why: str, commands: Commands) -> Finding:
    return Finding(
        "SINK_REPLAY_HARMLESS",
        Severity.INFO,
        f"{sink.target} ({sink.kind}): {why}",
        "A batch that is replayed after a crash is in the sink once.",
        commands.run(),
    )


def _say(template: Finding, sink: SinkDeclaration) -> Finding:
    return replace(template, evidence=template.evidence.format(target=sink.target, kind=sink.kind))


_CONSTANT = Finding(
    "SINK_CONSTANT_IDENTITY",
    Severity.UNSAFE,
    "{target} ({kind}) writes under a constant application id, not under the query id",
    "A replay is recognised, but so is every batch of a new checkpoint that begins at 0 again: its rows are dropped "
    "without an error until the batch ids pass those of the old one.",
    in_the_code("take the query id from the checkpoint, as surestart.sinks.delta.transaction.read_query_id does"),
    "keep the constant and promise never to reset: a lost checkpoint is enough.",
)
_NO_IDENTITY = Finding(
    "SINK_REPLAY_DOUBLES",
    Severity.ATTENTION,
    "{target} ({kind}) is written without (query id, batch id)",
    "Nothing tells a second write of a batch from the first: after a crash between the write and Spark's commit, the "
    "batch's rows are there twice, in part or in whole.",
    in_the_code(
        "use surestart.sinks.delta.append.DeltaAppend, DeltaMerge or surestart.sinks.postgres.sink.PostgresSink"
    ),
    "remove doubled rows by hand after each crash and call it handled.",
)
_PARQUET = Finding(
    "SINK_REPLAY_BY_BATCH_ID_ONLY",
    Severity.ATTENTION,
    "{target} ({kind}) recognises a batch by its number alone, in _spark_metadata of the output folder",
    "A replay is recognised; but so is every batch of a new checkpoint over the same folder (FileStreamSink.addBatch): "
    "its rows are dropped until the ids pass the old ones. Readers that list the folder see files of failed attempts.",
    in_the_code("use surestart.sinks.delta.append.DeltaAppend"),
    "start a new checkpoint over an output folder that was written before.",
)
_UNKNOWN = Finding(
    "SINK_KIND_UNKNOWN",
    Severity.CANNOT_TELL,
    "{target} is of kind {kind!r}",
    "Whether it recognises a batch that it has seen is not known here.",
    surestart("doctor"),
    "treat an unknown sink as an idempotent one.",
)


def _partial_read(sink: SinkDeclaration, declaration: StageDeclaration, commands: Commands) -> Finding:
    stateful = bool(declaration.state)
    return Finding(
        "SINK_READS_PART_OF_BATCH",
        Severity.UNSAFE,
        f"the function that writes {sink.target} does not read "
        "the whole batch (limit, isEmpty, show, a swallowed error)",
        "Spark counts the batch as done when the function returns: rows that were not read are not read again."
        + (" The state of unread partitions is not saved, and the next batch fails or loses it." if stateful else ""),
        in_the_code("write or count every row of batch_df in the function"),
        "return early from the function for any reason but an empty batch.",
    )
