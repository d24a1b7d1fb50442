"""What the code would run now against what the checkpoint was written by: allowed, unsafe or undefined, with the rule.

The rules are Spark's own ("Recovery Semantics after Changes in a Streaming Query", Structured Streaming guide, on
DataFrames): "allowed" works; "not allowed" is unsafe; what the guide leaves open or calls unpredictable is undefined.
Whether a sink that is no longer declared was meant to go or was forgotten, no rule and no evidence says: cannot tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration, StageFacts
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.positions import may_be_called
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.evidence.sink_names import DELTA_KINDS
from surestart.spark.spark_lines import DEFAULT
from surestart.verdict.change import Change, ChangeClass, line_number, same_state, state_changes
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands

_RATES = ("maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay")
_STARTS = ("startingoffsets", "startingoffsetsbytimestamp", "startingversion", "startingtimestamp", "endingoffsets")
# Names of topics, with commas between several; whatever else is declared is a pattern.
_TOPICS = re.compile(r"[A-Za-z0-9._, -]+")
_SHUFFLE = "spark.sql.shuffle.partitions"
_FILE_KINDS = ("parquet",)
LEFT_OUT = "SINK_LEFT_OUT"


def classify_changes(
    declaration: StageDeclaration,
    checkpoint: Checkpoint,
    registered: Mapping[str, object] | None = None,
    spark: str = DEFAULT,
) -> tuple[Change, ...]:
    """Every difference that can be seen. For a checkpoint that has no batch yet nothing is bound; but a sink that the
    last run wrote to is left out there as anywhere.

    registered: `StageDeclaration.as_dict()` of the run that wrote the last batch, from the run history.
    """
    left_out = find_left_out(declaration, registered) if registered else ()
    if checkpoint.latest_planned is None:
        return left_out
    changes = [
        *left_out,
        *_against_checkpoint(declaration, checkpoint),
        *state_changes(declaration, checkpoint, spark),
        *_confs(declaration, checkpoint, spark),
        *_spark_version(checkpoint, spark),
    ]
    if registered:
        changes += _against_registered(declaration, registered)
    return tuple(dict.fromkeys(changes))


def find_changes(changes: Sequence[Change], commands: Commands) -> tuple[Finding, ...]:
    """A finding for each change that is not simply allowed."""
    return tuple(
        _finding(change, commands) for change in changes if change.kind is not ChangeClass.ALLOWED or change.ignored
    )


def _against_checkpoint(declaration: StageDeclaration, checkpoint: Checkpoint) -> Iterator[Change]:
    entry = checkpoint.latest_offsets
    if not isinstance(entry, OffsetLogEntry) or not entry.sources:
        return
    if entry.version == 1 and len(entry.sources) != len(declaration.sources):
        yield Change(
            "number of sources",
            str(len(entry.sources)),
            str(len(declaration.sources)),
            ChangeClass.UNSAFE,
            "Changes in the number of sources are not allowed.",
            of_sources=True,
        )
        return
    kinds = {source.id: source.kind for source in checkpoint.sources}
    for index, (written, declared) in enumerate(zip(entry.sources, declaration.sources, strict=False)):
        kind = kinds.get(written.id, written.position.kind)
        if not may_be_called(kind, declared.kind):
            yield Change(
                f"kind of source {index}",
                kind,
                declared.kind,
                ChangeClass.UNSAFE,
                "Changes in the type of a source are not allowed.",
                of_sources=True,
            )
        topics = sorted(getattr(written.position, "partitions", ()))
        if kind == declared.kind == "kafka" and topics and not _are_read(topics, declared.target):
            yield Change(
                f"topics of source {index}",
                ", ".join(topics),
                declared.target,
                ChangeClass.UNSAFE,
                "Changes to subscribed topics are generally not allowed, as the results are unpredictable.",
            )


def _are_read(topics: Sequence[str], declared: str) -> bool:
    """Whether these are the topics that were declared: one, several with commas, a pattern, or nobody has said."""
    named = sorted(name.strip() for name in declared.split(","))
    if not declared or topics == named:
        return True
    if _TOPICS.fullmatch(declared):
        return False
    try:
        return all(re.fullmatch(declared, topic) for topic in topics)
    except re.error:
        # A pattern of Java's that Python does not read.
        return True


def _confs(declaration: StageDeclaration, checkpoint: Checkpoint, spark: str) -> Iterator[Change]:
    wanted = dict(declaration.confs)
    stateless = not checkpoint.state.operators and not declaration.state
    for key, pinned in checkpoint.confs.items():
        if key not in wanted or wanted[key] == pinned:
            continue
        if key == _SHUFFLE and stateless and line_number(spark) >= (4, 1):
            rule = "Since 4.1 only the number of state partitions is pinned; the guide still lists it as fixed."
            yield Change(key, pinned, wanted[key], ChangeClass.ALLOWED, rule)
        else:
            rule = "Pinned in every batch: the checkpoint's value is used, with a warning in the log and no error."
            yield Change(key, pinned, wanted[key], ChangeClass.ALLOWED, rule, ignored=True)


def _spark_version(checkpoint: Checkpoint, spark: str) -> Iterator[Change]:
    writer = checkpoint.spark_version
    formats = checkpoint.formats
    if line_number(spark) < (4, 2) and (formats["offsets"] or 1) > 1:
        rule = "Offsets of version 2 are read by Spark 4.2 and later only."
        yield Change("Spark version", f"offsets v{formats['offsets']}", spark, ChangeClass.UNSAFE, rule)
    elif line_number(spark) < (4, 2) and (formats["commits"] or 1) > 2:
        rule = "Commits of version 3 are read by Spark 4.2 and later only."
        yield Change("Spark version", f"commits v{formats['commits']}", spark, ChangeClass.UNSAFE, rule)
    if not writer:
        return
    oldest, newest = writer.split("-")[0], writer.split("-")[-1]
    if line_number(spark) > line_number(newest):
        rule = "Newer lines read the checkpoints of older ones; state formats and pinned settings stay as they were."
        yield Change("Spark version", writer, spark, ChangeClass.ALLOWED, rule)
    elif line_number(spark) < line_number(oldest):
        rule = "Going back is not promised: settings and state of a newer line may not be understood."
        yield Change("Spark version", writer, spark, ChangeClass.UNDEFINED, rule)


def _against_registered(declaration: StageDeclaration, registered: Mapping[str, object]) -> Iterator[Change]:
    before = StageFacts.read(registered)
    for index, (old, new) in enumerate(zip(before.sources, declaration.sources, strict=False)):
        yield from _source(index, old, new)
    yield from _sinks(before.sinks, declaration.sinks)
    if before.output_mode and before.output_mode != declaration.output_mode:
        rule = "The guide names no change of the output mode as allowed; with state it decides what state is kept."
        kind = ChangeClass.UNSAFE if declaration.state else ChangeClass.UNDEFINED
        yield Change("output mode", before.output_mode, declaration.output_mode, kind, rule)
    if before.state and not declaration.state:
        rule = (
            "It was declared at the last run. Nothing says whether it was left out of the declaration or out of the "
            "query. If it was taken out of the query, its state is lost, and rows come that it would have held back."
        )
        yield Change("declared state", ", ".join(before.state), "not declared", ChangeClass.CANNOT_TELL, rule)
    # A source that was not declared before is compared with what the checkpoint has.
    elif before.state and not same_state(before.state, declaration.state):
        rule = "Adding, removing or changing a stateful operation is not allowed."
        yield Change(
            "declared state",
            ", ".join(before.state) or "none",
            ", ".join(declaration.state) or "none",
            ChangeClass.UNSAFE,
            rule,
        )
    if before.checkpoint and before.checkpoint.rstrip("/") != declaration.checkpoint.rstrip("/"):
        rule = "A moved checkpoint is read as it is if it is whole; a new path begins from nothing."
        yield Change("checkpoint path", before.checkpoint, declaration.checkpoint, ChangeClass.UNDEFINED, rule)


def _source(index: int, old: SourceDeclaration, new: SourceDeclaration) -> Iterator[Change]:
    if old.kind != new.kind:
        rule = "Changes in the type of a source are not allowed."
        yield Change(f"kind of source {index}", old.kind, new.kind, ChangeClass.UNSAFE, rule)
        return
    if not old.target or not new.target:
        return
    if (old.target, old.path) != (new.target, new.path):
        kind, rule = {
            "kafka": (ChangeClass.UNSAFE, "Changes to subscribed topics are generally not allowed."),
            "files": (ChangeClass.UNSAFE, "Changes to the input folder are generally not allowed; all files are new."),
            "delta": (ChangeClass.UNSAFE, "Another table has another id, which the Delta source refuses."),
        }.get(new.kind, (ChangeClass.UNDEFINED, "Whether it is allowed depends on the source and the query."))
        yield Change(f"source {index}", old.target, new.target, kind, rule)
    before, after = dict(old.options), dict(new.options)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        lower, shown = name.lower(), (before.get(name, "unset"), after.get(name, "unset"))
        what = f"option {name} of source {index}"
        if lower in _RATES:
            yield Change(what, *shown, ChangeClass.ALLOWED, "Adding, removing or changing rate limits is allowed.")
        elif lower in _STARTS:
            rule = "Start positions count on a new checkpoint only."
            yield Change(what, *shown, ChangeClass.ALLOWED, rule, ignored=True)
        else:
            rule = "Whether it is allowed depends on the source and the query."
            yield Change(what, *shown, ChangeClass.UNDEFINED, rule)


def find_left_out(declaration: StageDeclaration, registered: Mapping[str, object]) -> tuple[Change, ...]:
    """Sinks that the last run wrote to and this one would not."""
    rule = "Its rows end where they are; a sink that is given some batches only holds a part of the output."
    now = ", ".join(sink.target for sink in declaration.sinks) or "none"
    gone = _without_counterpart(StageFacts.read(registered).sinks, declaration.sinks)
    return tuple(
        Change("sink left out", _place(sink), now, ChangeClass.CANNOT_TELL, rule, leaves_out=True) for sink in gone
    )


def find_added(declaration: StageDeclaration, registered: Mapping[str, object]) -> tuple[SinkDeclaration, ...]:
    """Sinks that this run would write to and the last one did not."""
    return _without_counterpart(declaration.sinks, StageFacts.read(registered).sinks)


def _without_counterpart(
    before: Sequence[SinkDeclaration], after: Sequence[SinkDeclaration]
) -> tuple[SinkDeclaration, ...]:
    """Those without a counterpart: the same place, else the same kind. One that was moved or renamed is another
    change."""
    old, new = list(before), list(after)
    for same in (_place, _kind):
        for sink in tuple(new):
            found = next((one for one in old if same(one) == same(sink)), None)
            if found is not None:
                old.remove(found)
                new.remove(sink)
    return tuple(old[: max(0, len(before) - len(after))])


def _place(sink: SinkDeclaration) -> str:
    return f"{sink.kind} {sink.target}" + (f" ({sink.path})" if sink.path not in ("", sink.target) else "")


def _kind(sink: SinkDeclaration) -> str:
    return sink.kind


def _sinks(before: Sequence[SinkDeclaration], after: Sequence[SinkDeclaration]) -> Iterator[Change]:
    if not before:
        # Nobody had declared any state. That it is declared now changes no code.
        return
    if len(before) < len(after):
        rule = "The guide speaks of one sink; a sink that is added has none of the earlier batches."
        yield Change("number of sinks", str(len(before)), str(len(after)), ChangeClass.UNDEFINED, rule)
    kept = list(before)
    for gone in _without_counterpart(before, after):
        kept.remove(gone)
    for index, (old, new) in enumerate(zip(kept, after, strict=False)):
        if old.kind != new.kind and not _only_said(old.kind, new.kind):
            yield Change(f"kind of sink {index}", old.kind, new.kind, *_sink_kinds(old.kind, new.kind))
        elif (old.target, old.path) != (new.target, new.path):
            yield Change(f"sink {index}", old.target, new.target, *_sink_target(new.kind))
        known = "unknown" not in (old.identity, new.identity)
        if known and (old.identity, old.step) != (new.identity, new.step):
            rule = "The sink knows its batches under the old identity: a batch in flight is written a second time."
            yield Change(f"identity of sink {index}", _identity(old), _identity(new), ChangeClass.UNSAFE, rule)
        if old.keys and new.keys and old.keys != new.keys:
            rule = "MERGE matches by other columns than the rows were written by; old rows are not found again."
            yield Change(f"keys of sink {index}", ", ".join(old.keys), ", ".join(new.keys), ChangeClass.UNDEFINED, rule)


def _sink_kinds(before: str, after: str) -> tuple[ChangeClass, str]:
    if before in _FILE_KINDS and after == "kafka":
        return ChangeClass.ALLOWED, "From a file sink to a Kafka sink is allowed; Kafka sees only new data."
    if before == "kafka" and after in _FILE_KINDS:
        return ChangeClass.UNSAFE, "From a Kafka sink to a file sink is not allowed."
    if {before, after} <= {"kafka", "foreach", "foreach-batch"}:
        return ChangeClass.ALLOWED, "Between a Kafka sink and foreach is allowed."
    if {before, after} <= {"delta-append", "delta-builtin"}:
        return ChangeClass.ALLOWED, "Both write the same pair (query id, batch id), so the table knows its batches."
    return ChangeClass.UNDEFINED, "Few combinations of sinks are allowed; this one is not among them."


def _sink_target(kind: str) -> tuple[ChangeClass, str]:
    if kind in _FILE_KINDS:
        return ChangeClass.UNSAFE, "Changes to the output folder of a file sink are not allowed."
    if kind == "kafka":
        return ChangeClass.ALLOWED, "Changes to the output topic are allowed."
    return ChangeClass.UNDEFINED, "The new target has none of the earlier batches; the old one gets no further ones."


def _only_said(old: str, new: str) -> bool:
    """Whether nobody had said how one of the two Delta tables is written. That it is said now makes it no other
    table."""
    return "delta" in (old, new) and {old, new} <= {*DELTA_KINDS}


def _identity(sink: SinkDeclaration) -> str:
    return f"{sink.identity}{':' + sink.step if sink.step else ''}"


def _finding(change: Change, commands: Commands) -> Finding:
    evidence = f"{change.what}: {change.before} in the checkpoint or its last run, {change.after} now"
    if change.ignored:
        return Finding(
            "CHANGE_HAS_NO_EFFECT",
            Severity.INFO,
            evidence,
            change.rule,
            commands.run(),
            "expect the new value to be in force.",
        )
    if change.kind is ChangeClass.CANNOT_TELL and not change.leaves_out:
        return Finding(
            "CHANGE_UNCLEAR",
            Severity.CANNOT_TELL,
            evidence,
            change.rule,
            commands.doctor(),
            "accept it before you have compared the query with the one that ran last.",
        )
    if change.kind is ChangeClass.CANNOT_TELL:
        return Finding(
            LEFT_OUT,
            Severity.CANNOT_TELL,
            f"the last run wrote every batch to {change.before} as well; this one would write to {change.after} only",
            "Every batch from here on would be missing there, without an error. Nothing tells whether that is meant or "
            "a setting was forgotten. Used again later, it is refused as behind.",
            commands.doctor(),
            "accept it for a setting that was left out (such as postgres_url): give the setting again.",
        )
    if change.kind is ChangeClass.UNSAFE:
        return Finding(
            "CHANGE_UNSAFE",
            Severity.UNSAFE,
            evidence,
            change.rule,
            commands.plan("reset"),
            "start it to see whether it works: a start that works can still lose or repeat rows.",
        )
    return Finding(
        "CHANGE_UNDEFINED",
        Severity.ATTENTION,
        evidence,
        change.rule,
        commands.doctor(),
        "treat it as allowed because the query starts.",
    )
