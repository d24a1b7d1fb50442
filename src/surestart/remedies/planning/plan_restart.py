"""restart: a declared stream begins anew from a batch, under a new checkpoint, with the reader options of that batch.

For what cannot be rewound. The checkpoint is moved aside and no table is touched, so the plan says of each sink which
rows come twice and which do not come at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from surestart.declaration import StageDeclaration
from surestart.environment import Environment
from surestart.errors import Refused, SurestartError, UsageError
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.facts.delta import read_delta_log
from surestart.facts.storage.open_storage import LocalStorage
from surestart.facts.storage.read_budget import bounded
from surestart.history.describe_run import named, plan_command
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Chain, read_again_command
from surestart.remedies.basis.plan import Effect, Plan, Step
from surestart.remedies.basis.preconditions import LinkFacts, as_preconditions, read_link
from surestart.remedies.planning.make_plan import IN_PLACE, move_aside
from surestart.remedies.planning.reader_options import ReaderOptions, options_of_batch, rows_again
from surestart.remedies.planning.wanted import Request
from surestart.typed import surestart


def plan_restart(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, from_batch: int | None, request: Request
) -> Plan:
    link = chain.link(stage)
    if link.stage.ours:
        raise UsageError(
            f"{stage} is a stage that surestart runs",
            meaning="It can be set back with its tables, and started again by the plan itself. Nothing was planned.",
            next=read_again_command(environment, chain.below(stage)),
        )
    facts = read_link(link, spark)
    storage = bounded(LocalStorage(str(local_folder(link.checkpoint))))
    checkpoint = read_checkpoint(link.checkpoint, storage, entries=_entries(facts.checkpoint, from_batch))
    batch = _check_batch(environment, stage, checkpoint, from_batch)
    declared = link.stage.declare(environment)
    options = options_of_batch(checkpoint, storage, batch, declared.sources)
    lines = [line for one in options for line in one.lines()]
    lines += _not_there_yet(declared, options)
    again = rows_again(spark, environment, declared.sinks, checkpoint.query_id or "", batch)
    files = [file for one in options for file in one.files]
    moved, retire = move_aside(facts, **({"files_to_read": files} if files else {}))
    starts = {stage: {"kept": False, "caught_up": False}}
    note = Step.of("start", "", f"write down that {link.query} begins anew", arguments={"starts": starts})
    return Plan(
        remedy="restart",
        stage=stage,
        method=IN_PLACE,
        **request.of_plan(environment),
        touched=(stage,),
        preconditions=as_preconditions([facts]),
        steps=(retire, note),
        effects=(*_tables(facts), moved),
        statements=(
            f"{stage} begins anew before batch {batch}, under a new query id; its owner starts it, with these options:",
            *lines,
            *again,
            *_state(checkpoint),
            "Stop it first, and see that no schedule starts it before the options are in its code. Spark uses them "
            "only at the first start of a new checkpoint.",
        ),
        undo="possible until the retired checkpoint is removed; stop the new stream first, its checkpoint is put aside",
    )


def _entries(checkpoint: Checkpoint, batch: int | None) -> int:
    planned = checkpoint.latest_planned or 0
    return max(planned - (planned if batch is None else batch) + 4, 4)


def _check_batch(environment: Environment, stage: str, checkpoint: Checkpoint, wanted: int | None) -> int:
    """The batch, where the checkpoint still says from where it read; without one, the one that would come next."""
    next_batch = checkpoint.next_batch
    if checkpoint.latest_planned is None or next_batch is None:
        raise Refused(
            f"the checkpoint of {stage} has planned no batch",
            meaning="There is nothing to begin anew from: its next start is a first start. Nothing was planned.",
            next=surestart("doctor", stage, place=named(environment)),
            code="BatchNotPossible",
        )
    batch = next_batch if wanted is None else wanted
    # Batch 0 begins at the beginning, even where its own entry is long gone.
    known = sorted(number + 1 for number, one in checkpoint.offsets.items() if isinstance(one, OffsetLogEntry))
    if batch in known or batch == 0:
        return batch
    oldest = checkpoint.offsets_folder.ids[0] + 1 if checkpoint.offsets_folder.ids else 0
    told = f"that tells it of batches {oldest} to {checkpoint.latest_planned + 1}"
    what = f"where batch {batch} of {stage} began is not in its checkpoint: {told}"
    raise _not_known(environment, stage, what, min(max(batch, oldest), next_batch))


def _not_known(environment: Environment, stage: str, what: str, batch: int) -> Refused:
    """batch: the nearest one that is."""
    return Refused(
        what,
        meaning="Spark removes older entries, and a batch after the next has no begin yet. Nothing was planned.",
        next=plan_command(environment, "restart", stage, "--from-batch", batch),
        code="BatchNotPossible",
    )


def _not_there_yet(declared: StageDeclaration, options: Sequence[ReaderOptions]) -> list[str]:
    """Delta refuses to begin at a version that does not exist yet."""
    lines = []
    for source, one in zip(declared.sources, options, strict=False):
        version = one.options.get("startingVersion")
        if version is None or not source.path:
            continue
        try:
            latest = read_delta_log(source.path).latest_version
        except SurestartError as error:
            lines.append(f"source {one.source}: whether it still has version {version} cannot be told: {error.what}")
            continue
        if int(version) > latest:
            lines.append(f"source {one.source}: it is at version {latest}; start it once version {version} is there")
    return lines


def _tables(facts: LinkFacts) -> list[Effect]:
    return [Effect(name, "stays as it is", one.rows, one.files, one.size) for name, one in facts.tables.items()]


def _state(checkpoint: Checkpoint) -> list[str]:
    names = [operator.name or f"operator {operator.id}" for operator in checkpoint.state.operators]
    if not names:
        return []
    return [f"Its state ({', '.join(names)}) begins empty: what it knew of earlier rows is in the checkpoint aside."]
