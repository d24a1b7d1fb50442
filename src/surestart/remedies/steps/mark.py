"""Notes where the new output of the first stage ends: from there on it reads after the swap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surestart.journal.stage_start import read_kept
from surestart.remedies.basis.beside import beside_of
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.rows_that_stay import ALL_OF, PROCESSED, StayRule, find_stay_marks, summarize_marks
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.steps.keep import write_marks


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """The marks are in `surestart_kept`, once; found at the versions that were checked."""
    own, _ = beside_of(run)
    rule = rule_of(run.chain.link(step.stage), run.facts("check"))
    write_marks(run, step.stage, find_stay_marks(run.spark, own, rule))
    return summarize_marks(read_kept(run.spark, run.environment, run.digest, step.stage).collect())


def rule_of(link: Link, checked: Mapping[str, Any]) -> StayRule:
    """checked: table -> version, of the tables beside and of the stage's input."""
    versions = {output.table.name: checked["beside"][output.table.name] for output in link.outputs}
    if link.input is None:
        return StayRule(ALL_OF, held=versions)
    return StayRule(PROCESSED, held=versions, given={link.input.name: checked["given"]})


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    return {}
