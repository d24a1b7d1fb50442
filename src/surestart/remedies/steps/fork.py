"""Writes the checkpoint of a fork: Spark's own entries up to the batch, under a query id that nobody else has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surestart.errors import Refused
from surestart.facts.checkpoint.cut import CannotCut, read_cut
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.storage.open_storage import LocalStorage
from surestart.failpoints import fail_point
from surestart.history.describe_run import named
from surestart.journal.journal import WITHDRAWN, read_journals, read_plan_text
from surestart.remedies.basis.cut_checkpoint import forget_marker, write_cut
from surestart.remedies.basis.fork_folder import drop_folder, open_folder, read_fork_note, refuse_others, write_whole
from surestart.remedies.basis.plan import FORK, Step, parse_plan, plan_again
from surestart.remedies.basis.step_context import StepContext, again
from surestart.runs.judge_start import judge_stage
from surestart.streams.as_pipeline import environment_of_streams, stage_of_stream
from surestart.streams.project_file import FILE, parse_project_text, read_project_file
from surestart.typed import surestart
from surestart.words.finding import Severity
from surestart.words.next_commands import Commands


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The fork can be started, and is declared in a file of its own."""
    said, link = step.arguments, run.chain.link(step.stage)
    folder, place = Path(str(said["folder"])), Path(str(said["to"]))
    open_folder(folder, {**said["note"], "digest": run.digest})
    origin, batch = local_folder(link.checkpoint), int(said["batch"])
    if read_checkpoint(str(origin), entries=1).query_id != said["former"]:
        raise Refused(
            f"the checkpoint of {link.query} has another query id now than when the plan was made",
            meaning=f"Batch {batch} is another one now. Nothing of it was changed.",
            next=plan_again(run.plan),
            code="PlanStale",
        )
    try:
        write_cut(origin, read_cut(LocalStorage(str(origin)), batch, str(said["query_id"])), place)
    except (CannotCut, FileNotFoundError) as problem:
        raise Refused(
            f"no checkpoint of {link.query} that ends with batch {batch} can be made: {problem}",
            meaning="The stream has gone on, and what the batch needs is kept no longer. The original is as it was.",
            next=again(run, "undo"),
            code="CannotCut",
        ) from problem
    fail_point("remedy.fork.cut")
    _refuse_unsafe(run, step, folder)
    write_whole(folder / FILE, str(said["file"]))
    forget_marker(place)
    fail_point("remedy.fork.declared")
    return {"folder": str(folder), "query_id": str(said["query_id"]), "batch": batch}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The fork is dropped, whole."""
    return {"dropped": drop_folder(Path(str(step.arguments["folder"])), run.digest)}


def check_fork(run: StepContext) -> None:
    """Raises where the fork runs, or holds what is not its own."""
    step = run.plan.steps[-1]
    folder, note = Path(str(step.arguments["folder"])), step.arguments["note"]
    there = read_fork_note(folder)
    if there is not None and there.get("digest") == run.digest:
        refuse_others(folder, list(note["tables"]), str(note["query"]))
        _refuse_forks_of_it(run, folder)


def _refuse_forks_of_it(run: StepContext, folder: Path) -> None:
    """Raises where a fork of the fork is there, whose rows may be files that this one has written."""
    if not (folder / FILE).exists():
        return
    environment = environment_of_streams(read_project_file(folder / FILE))
    for journal in read_journals(environment, run.spark):
        if journal.state == WITHDRAWN or journal.first.remedy != run.plan.remedy:
            continue
        plan = parse_plan(
            read_plan_text(run.spark, environment, journal.digest), f"the journal's plan {journal.digest}"
        )
        other = next((Path(str(step.arguments["folder"])) for step in plan.steps if plan.method == FORK), None)
        if other is not None and (read_fork_note(other) or {}).get("digest") == journal.digest:
            raise Refused(
                f"{other} is a fork of the fork {folder}",
                meaning="Its table reads files of this one, and could not be read any more. Nothing was changed.",
                next=surestart("undo", journal.digest[:12], "--confirm", plan.target, place=named(environment)),
                do_not="remove the folder by hand.",
                code="ForkHoldsOthers",
            )


def _refuse_unsafe(run: StepContext, step: Step, folder: Path) -> None:
    """Raises unless the doctor would let the fork start. A finding that the original has as well is no reason to
    stop."""
    project = parse_project_text(folder / FILE, str(step.arguments["file"]))
    environment, stage = environment_of_streams(project), stage_of_stream(project.streams[0])
    judged = judge_stage(environment, stage, (), Commands(stage.name, environment.name), session=run.spark)
    worse = [
        one
        for one in judged.findings
        if one.severity in (Severity.UNSAFE, Severity.CANNOT_TELL) and one.code not in step.arguments["findings"]
    ]
    if worse:
        raise Refused(
            f"the fork that was made is not safe: {worse[0].code}: {worse[0].evidence}",
            meaning=f"{worse[0].meaning} The original is as it was; what was made is in {folder}.",
            next=again(run, "undo"),
            code="CutNotSafe",
        )
