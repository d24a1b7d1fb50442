"""Puts a checkpoint that ends with the batch in the place of the one in use, made of Spark's own entries.

    1. beside     written under a new query id, each copied file compared, read back by the doctor   dies: written on
    2. aside      the one in use, verified, where `retire` keeps such                                dies: moved on
    3. in place   the new one, verified                                                              dies: placed on

Until 2 nothing has changed; an undo brings the old one back byte for byte, and puts the new one aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from surestart.errors import Refused
from surestart.facts.checkpoint.cut import CannotCut, read_cut
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.storage.open_storage import LocalStorage
from surestart.failpoints import fail_point
from surestart.journal.commit_once import PassOverNote, append_pass_over_note
from surestart.journal.journal import TABLE, Journal, read_journals
from surestart.remedies.basis.cut_checkpoint import (
    forget_cut,
    is_placed,
    is_placing,
    place_cut,
    scratch_folder,
    write_cut,
)
from surestart.remedies.basis.move_aside import complete_marker, move_verified, retired_folder
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.read_back import refuse_unsafe_cut
from surestart.remedies.basis.step_context import StepContext, again, refuse_carried_on
from surestart.remedies.steps import retire


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The checkpoint ends with the batch, under the new query id. facts: both ids, and where the former one lies."""
    link = run.chain.link(step.stage)
    here, aside = local_folder(link.checkpoint), retired_folder(run.environment, link.query, run.digest)
    scratch = scratch_folder(here, link.query, run.digest)
    query_id, batch, former = _what(step)
    _pass_on(run, former, query_id)
    if not is_placing(scratch) and not is_placed(scratch, here):
        _write(run, step, scratch)
        # It may be in its place already: an earlier attempt died before the journal knew.
        if not is_placed(scratch, here):
            refuse_unsafe_cut(run, link, scratch, step.arguments["findings"])
            move_verified(here, aside, str(step.arguments["manifest"]), lambda: refuse_carried_on(run, "apply"))
            fail_point("remedy.rewind.moved_aside")
    if not is_placed(scratch, here):
        place_cut(scratch, here)
    forget_cut(scratch)
    fail_point("remedy.rewind.after_place")
    return {"aside": str(aside), "query_id": query_id, "batch": batch, "former": former}


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The former checkpoint is back, byte for byte; the one that was put in its place, and what the stage has written
    into it since, lies aside."""
    link = run.chain.link(step.stage)
    done = retire.undo_step(run, step)
    forget_cut(scratch_folder(local_folder(link.checkpoint), link.query, run.digest))
    return done


def _write(run: StepContext, step: Step, scratch: Path) -> None:
    link = run.chain.link(step.stage)
    here, aside = local_folder(link.checkpoint), retired_folder(run.environment, link.query, run.digest)
    query_id, batch, _ = _what(step)
    # After a death while it was moved aside, what is left there is no whole checkpoint.
    origin = aside if complete_marker(aside).exists() else here
    try:
        write_cut(origin, read_cut(LocalStorage(str(origin)), batch, query_id), scratch)
    except CannotCut as problem:
        raise Refused(
            f"no checkpoint of {link.query} that ends with batch {batch} can be made: {problem}",
            meaning="The one in use is as it was.",
            next=again(run, "undo"),
            code="CannotCut",
        ) from problem
    fail_point("remedy.rewind.written")


def _what(step: Step) -> tuple[str, int, str]:
    """The new query id, the batch, the former id."""
    return str(step.arguments["query_id"]), int(step.arguments["batch"]), str(step.arguments["former"])


def _pass_on(run: StepContext, former: str, query_id: str) -> None:
    """What the stream passes over by a note, it passes over under its new id as well."""
    for passing in inherited(read_journals(run.environment, run.spark), former, query_id):
        append_pass_over_note(run.spark, run.environment.table(TABLE), passing)


def inherited(journals: Iterable[Journal], former: str, query_id: str) -> Iterator[PassOverNote]:
    for journal in journals:
        known = {(one.step, one.stream) for one in journal.passed}
        for one in journal.passed:
            if one.stream == former and (one.step, query_id) not in known:
                yield PassOverNote(one.digest, one.step, query_id)
