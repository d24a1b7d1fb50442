"""move: the checkpoint of a declared stream to another place, whole, under the same query id.

The declaration and the history follow. Where it was, a file stands: an old job fails, and does not begin anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from surestart.environment import Environment
from surestart.errors import Refused, UsageError
from surestart.facts.checkpoint.find_checkpoints import Signpost
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.storage.open_storage import LocalStorage
from surestart.facts.storage.storage import ShownElsewhere, Storage
from surestart.history.describe_run import named, options_of, plan_command
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Chain, Link
from surestart.remedies.basis.plan import Effect, Plan, Step
from surestart.remedies.basis.preconditions import LinkFacts, as_preconditions, read_link
from surestart.remedies.planning.free_place import former_signpost, local_place, refuse_unfit
from surestart.remedies.planning.make_plan import IN_PLACE, batches_of
from surestart.remedies.planning.wanted import Request
from surestart.runs.judge_start import judge_stage
from surestart.streams.as_pipeline import StreamEnvironment
from surestart.streams.change_file import FileChange, plan_change
from surestart.streams.project_file import read_project_file
from surestart.typed import surestart
from surestart.verdict.diagnose import Diagnosis
from surestart.words.amounts import size_text
from surestart.words.finding import Finding, Severity
from surestart.words.next_commands import Commands


def plan_move(
    spark: SparkSession, environment: Environment, chain: Chain, stage: str, to: str | None, request: Request
) -> Plan:
    link = chain.link(stage)
    if link.stage.ours or not isinstance(environment, StreamEnvironment):
        raise _fixed(environment, link)
    if not to:
        raise UsageError(
            f"where the checkpoint of {stage} is to go was not said",
            meaning="Nothing was planned.",
            next=plan_command(environment, "move", stage, "--to", "/another/place"),
        )
    file = _declaring_file(environment, link)
    target, origin = local_place(environment, link, to), local_folder(link.checkpoint)
    refuse_unfit(environment, chain, link, origin, target)
    former = former_signpost(origin, target)
    change = plan_change(file, stage, str(target))
    facts = read_link(link, spark, with_tables=False)
    if facts.checkpoint.query_id is None:
        raise Refused(
            f"{origin} has no query id",
            meaning="Which stream's checkpoint it is cannot be told, so it is not moved. Nothing was planned.",
            next=surestart("inspect", origin),
            code="NothingToMove",
        )
    said = _compare(spark, environment, link, origin, target)
    files, size = len(facts.manifest.files), facts.manifest.size
    return Plan(
        remedy="move",
        stage=stage,
        method=IN_PLACE,
        **request.of_plan(environment),
        touched=(stage,),
        preconditions=as_preconditions([facts]),
        steps=tuple(_steps(facts, origin, target, former, change)),
        effects=(
            Effect(str(origin), "move aside", None, files, size),
            Effect(str(target), "new", None, files, size),
            Effect(str(file), "one value", None, 1),
        ),
        statements=(
            f"{stage} keeps its query id, its batches and its state: its sinks know it as before.",
            "Stop it first, and see that no schedule starts it. Then have its code name the new place, before its next "
            f"start: checkpointLocation = {target}",
            f"From then on a file is at {origin}. A job that still names it fails: it cannot begin anew there. The "
            f"old folder is kept in {origin.parent / '_retired'}, which takes {size_text(size)} more.",
            *_owners(origin),
            *said,
        ),
        undo="possible as long as the checkpoint is at the new place: it goes back with what was written since; stop "
        "the stream first",
    )


def _declaring_file(environment: StreamEnvironment, link: Link) -> Path:
    file = Path(environment.file)
    streams = list(read_project_file(file).streams) if environment.file else []
    if not any(one.name == link.name and one.checkpoint == link.checkpoint for one in streams):
        raise UsageError(
            f"no file declares stream {link.name!r} at {link.checkpoint}",
            meaning="After the move the declaration has to name the new place, and there is none. Nothing was planned.",
            next=surestart("adopt", "--checkpoints", Path(link.checkpoint).parent, "-o", "surestart.toml"),
            code="StreamNotDeclared",
        )
    return file


def _steps(facts: LinkFacts, origin: Path, target: Path, former: Signpost | None, change: FileChange) -> Iterator[Step]:
    link = facts.link
    what = (
        f"copy the checkpoint of {link.query} to {target}, compare every byte, and put a file where it was: "
        f"{batches_of(facts)}{len(facts.manifest.files)} files, {size_text(facts.manifest.size)}"
    )
    told = {
        "from": str(origin),
        "to": str(target),
        "manifest": facts.manifest.digest,
        "query_id": facts.checkpoint.query_id,
        "former": asdict(former) if former else None,
    }
    yield Step.of("move", link.name, what, link.name, told)
    said = {"file": str(change.file), "stream": change.stream, "former": change.former, "new": change.new}
    yield Step.of("declare", link.name, f"have {change.file} name {target}", link.name, said)
    starts = {link.name: {"as_before": True, "checkpoint": str(target), "former": str(origin)}}
    yield Step.of("start", "", f"write down that {link.query} goes on there", arguments={"starts": starts})


def _compare(spark: SparkSession, environment: StreamEnvironment, link: Link, origin: Path, target: Path) -> list[str]:
    """What the doctor will say at the new place and does not say now. Raises where that keeps the stream from
    starting."""
    now_here = {one.code for one in _judge(spark, environment, link, None).findings}
    there = environment.with_checkpoint(link.name, str(target))
    storage = ShownElsewhere(LocalStorage(str(origin)), str(target))
    found = [one for one in _judge(spark, there, link, storage).findings if one.code not in now_here]
    worse = [one for one in found if one.severity in (Severity.UNSAFE, Severity.CANNOT_TELL)]
    if worse:
        raise Refused(
            f"{link.query} could not go on at {target}: {worse[0].code}: {worse[0].evidence}",
            meaning=f"{worse[0].meaning} Nothing was planned.",
            next=surestart("doctor", link.name, place=named(environment)),
            do_not="move it by hand.",
            code=worse[0].code,
        )
    return [_said(one) for one in found if one.severity is Severity.ATTENTION]


def _judge(spark: SparkSession, environment: Environment, link: Link, storage: Storage | None) -> Diagnosis:
    commands = Commands(link.name, environment.name, options_of(environment))
    return judge_stage(environment, link.stage, (), commands, session=spark, storage=storage)


def _said(finding: Finding) -> str:
    return f"The doctor will say at the new place: {finding.code}: {finding.evidence}"


def _owners(origin: Path) -> list[str]:
    """A copy belongs to whoever makes it."""
    owner = origin.stat().st_uid
    if os.geteuid() in (owner, 0):
        return []
    said = f"{origin} belongs to user {owner}; the copy will belong to user {os.geteuid()}: see that its job may write."
    return [said]


def _fixed(environment: Environment, link: Link) -> UsageError:
    root = environment.root if environment.in_one_folder else environment.checkpoint_root
    how = "--root" if environment.in_one_folder else "--set checkpoint_root="
    return UsageError(
        f"{link.name} is a stage that surestart runs: its checkpoint is {link.checkpoint}, by the environment",
        meaning=f"Another place is named for all stages at once. With none of them running, move the whole of {root} "
        f"and name its new place by {how}. Nothing was planned.",
        next=surestart("status", place=named(environment), note="whether one of them runs"),
        do_not="move the folder of one stage: its next start would begin at batch 0.",
        code="CheckpointPlaceFixed",
    )
