"""The shape of a checkpoint as findings: what is damaged, what somebody did to it, what a start makes of it.

    shape_damage    is it one, could it be read, whose it is; offsets and commits that are not what Spark wrote
    shape_gaps      offsets and commits that are missing: deleted logs, holes, one log ahead of the other
    shape_positions positions in offsets: kinds and numbers that do not fit, moved back
    shape_sources   sources and state: lists cut off, notes damaged, versions gone
    shape_traces    hands and copies: rewound, copied, shared by two writers, half deleted

Each code has a section in docs/findings.md and a test in tests/diagnosis/ that provokes it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from surestart.declaration import StageDeclaration
from surestart.facts.checkpoint.snapshot import Checkpoint, is_checkpoint
from surestart.facts.checkpoint.state_versions import find_missing_state
from surestart.spark.spark_lines import DEFAULT
from surestart.verdict.next_start import NextStart, Outcome
from surestart.verdict.restart import predict_next_start
from surestart.verdict.shape_damage import find_damaged_logs, find_folder_shapes
from surestart.verdict.shape_gaps import find_log_gaps
from surestart.verdict.shape_positions import find_position_shapes
from surestart.verdict.shape_sources import find_source_shapes
from surestart.verdict.shape_traces import find_traces
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands, ForeignCommands


def diagnose_checkpoint(
    checkpoint: Checkpoint,
    declaration: StageDeclaration | None = None,
    *,
    spark: str = DEFAULT,
    commands: Commands | None = None,
) -> tuple[Finding, ...]:
    """Everything that the checkpoint alone tells, for a start on that Spark line. The sink is asked by
    `acceptance`."""
    start = predict_next_start(checkpoint, spark, declaration)
    if commands is None:
        commands = Commands(declaration.stage) if declaration else ForeignCommands.of(checkpoint.location)
    found = [
        *find_folder_shapes(checkpoint, start, commands),
        *_find_log_shapes(checkpoint, start, commands),
        *find_position_shapes(checkpoint, declaration, commands),
        *find_source_shapes(checkpoint, start, commands),
        *find_traces(checkpoint, start, _says_its_state(declaration), commands),
    ]
    return (*_explain_failure(found, start, commands), *_find_unknown_start(found, start, commands))


def _says_its_state(declaration: StageDeclaration | None) -> bool:
    """Of a stream that others run nobody may have said that it has state; the declaration of one of ours says all."""
    return declaration is not None and (not declaration.foreign or bool(declaration.state))


def _find_unknown_start(found: Sequence[Finding], start: NextStart, commands: Commands) -> Iterator[Finding]:
    """A start that cannot be told is never called safe, also where nothing else was found."""
    stopping = (Severity.UNSAFE, Severity.CANNOT_TELL)
    if start.outcome is Outcome.CANNOT_TELL and not any(finding.severity in stopping for finding in found):
        yield Finding(
            "START_NOT_KNOWN",
            Severity.CANNOT_TELL,
            start.why,
            "What the next start does depends on it, and the checkpoint alone does not show it.",
            commands.doctor("once it is known, from its code or its sources"),
            "start it to find out.",
        )


def _find_log_shapes(checkpoint: Checkpoint, start: NextStart, commands: Commands) -> Iterator[Finding]:
    if checkpoint.exists is True and is_checkpoint(checkpoint):
        yield from find_damaged_logs(checkpoint, start, commands)
        yield from find_log_gaps(checkpoint, start, commands)


def stage_of(checkpoint: Checkpoint) -> str:
    """The checkpoint folder's name, which by the project's layout is the query's."""
    return posixpath.basename(checkpoint.location.rstrip("/")) or "STAGE"


def diagnose_recognised_replay(checkpoint: Checkpoint, recognised: bool, commands: Commands) -> tuple[Finding, ...]:
    """What a stateful query needs when its sink already holds the batch in flight.

    Delta's sink then returns without running the batch, so the state that the batch would have written is not written
    again: it must be there already (seen on Spark 4.0.5: batch N is skipped, batch N+1 fails with
    CANNOT_LOAD_STATE_STORE).
    """
    batch = checkpoint.in_flight
    if not recognised or batch is None or not checkpoint.state.operators:
        return ()
    missing = find_missing_state(checkpoint, batch + 1)
    if missing is None:
        return ()
    return (
        Finding(
            "STATE_BEHIND_SINK",
            Severity.UNSAFE,
            f"the sink holds batch {batch}, and {missing.detail}",
            f"The sink passes over the replay of batch {batch}, so its state is never written, and batch "
            f"{batch + 1} fails.",
            commands.plan("reset"),
            "restart in a loop.",
        ),
    )


def _explain_failure(found: list[Finding], start: NextStart, commands: Commands) -> list[Finding]:
    """A start that cannot work never goes without a finding, whatever the reason for it."""
    worst = {finding.severity for finding in found}
    if start.outcome in (Outcome.FAILS, Outcome.LOOPS) and Severity.UNSAFE not in worst:
        found.append(
            Finding(
                "START_FAILS",
                Severity.UNSAFE,
                start.why,
                f"On Spark {start.spark} the next start {start.sentence}.",
                commands.plan("replay"),
                "delete the file or the checkpoint: both lose what the sink's identity check needs.",
            )
        )
    return found
