"""Decides whether what was filled beside may take the place of the tables; the stages stand still by now.

what arrived while it was filled   is read as well
every row beside                   is counted against the source: lost 0, duplicated 0, or no swap
rows that only the tables have     and that the source no longer gives: no more of them than the plan has named
versions, files of checkpoints     are written down, for the swap, for the new begin and for an undo
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from surestart.environment import Environment
from surestart.facts.checkpoint.manifest import local_folder, read_manifest
from surestart.facts.checkpoint.stage_progress import EVERYTHING, progress_in_table, read_stage_progress
from surestart.facts.delta.pinned import pin
from surestart.failpoints import fail_point
from surestart.history.run_table import read_runs
from surestart.library_types import DataFrame
from surestart.remedies.basis.beside import BesideNotExact, beside_of
from surestart.remedies.basis.chain import Chain, Link, Output
from surestart.remedies.basis.database_facts import read_database
from surestart.remedies.basis.plan import Step
from surestart.remedies.basis.position_sets import not_in
from surestart.remedies.basis.rows_that_stay import find_stay_marks, read_at, removed_rows
from surestart.remedies.basis.same_topic import recorded_topic
from surestart.remedies.basis.step_context import StepContext, again
from surestart.remedies.count.certificate import CANNOT_TELL, Certificate, certify
from surestart.remedies.loss.database_loss import read_placed
from surestart.remedies.loss.find_loss import begin_loss_search
from surestart.remedies.loss.loss import count_lost, summarize
from surestart.remedies.steps.fill import fill
from surestart.remedies.steps.mark import rule_of
from surestart.stage import POSITION


def apply_step(run: StepContext, step: Step) -> dict[str, Any]:
    """Raises BesideNotExact, with no table of the stages changed, when there must be no swap. facts: of each table its
    version beside and its version now, the files of each checkpoint, and the input's version that was looked at."""
    own, chain = beside_of(run)
    for link in chain:
        if not _has_read_everything(run, link):
            fill(run, link)
    fail_point("remedy.check.before_count")
    certificate = certify(run.spark, own, chain)
    _refuse_faults(run, certificate)
    top, live = chain.links[0], run.chain.link(run.plan.stage)
    facts: dict[str, Any] = {
        "beside": _versions(run, own, run.chain, run.plan.touched),
        "live": _versions(run, run.environment, run.chain, run.plan.touched),
        "given": None if top.input is None else pin(run.spark, top.input).version,
        "manifests": {
            name: read_manifest(local_folder(run.chain.link(name).checkpoint)).digest for name in run.plan.touched
        },
        "rows": {stage.stage: stage.counts.rows for stage in certificate.stages},
    }
    if not live.keyed:
        _refuse_overlap(run, own, live, facts)
    _refuse_loss(run, step, own, facts)
    return facts


def undo_step(run: StepContext, step: Step) -> dict[str, Any]:
    return {}


def _has_read_everything(run: StepContext, link: Link) -> bool:
    """Only for a stage whose input is beside too: nobody else writes there. The first stage is asked again in any
    case."""
    if link.input is None or not link.upstream:
        return False
    given = pin(run.spark, link.input)
    position = read_stage_progress(link.checkpoint)
    if given.version is None or position.in_flight:
        return False
    return progress_in_table(position, given.table_id, given.version).how == EVERYTHING


def _versions(run: StepContext, environment: Environment, chain: Chain, touched: tuple[str, ...]) -> dict[str, int]:
    """By the table's own name; -1: there is no such table."""
    found = {}
    for name in touched:
        for output in chain.link(name).outputs:
            version = pin(run.spark, environment.table(output.table.name)).version
            found[output.table.name] = -1 if version is None else version
    return found


def _refuse_faults(run: StepContext, certificate: Certificate) -> None:
    # A stage below that is behind would begin, after the swap, in front of rows that it has not read.
    behind = {
        f"{one.stage} {one.kind}: not read yet": one.counts.pending
        for one in certificate.stages
        if one.counts.pending and one.stage != run.plan.stage
    }
    found = {**certificate.faults, **behind}
    problems = [one.problem for one in certificate.stages if one.problem]
    if not found and certificate.verdict != CANNOT_TELL:
        return
    shown = "; ".join(f"{name} {number:,}" for name, number in found.items()) or "; ".join(problems) or "cannot tell"
    raise _not_exact(
        run, f"lost {certificate.lost:,}, duplicated {certificate.duplicated:,} ({shown})", "BesideNotExact"
    )


def _refuse_overlap(run: StepContext, own: Environment, live: Link, facts: dict[str, Any]) -> None:
    """Rows at or above their mark are read again after the swap: there must be none. A backfill of the input can leave
    a gap with rows behind it."""
    marks = find_stay_marks(run.spark, own, rule_of(live, facts))
    again = sum(
        removed_rows(read_at(run.spark, own, output.table.name, facts["beside"][output.table.name]), marks).count()
        for output in live.outputs
    )
    if again:
        raise _not_exact(run, f"{again:,} rows beside come after a gap, and would come a second time", "BesideOverlaps")


def _refuse_loss(run: StepContext, step: Step, own: Environment, facts: dict[str, Any]) -> None:
    """Retention goes on while a plan is read and tables are filled, and others may have written into the tables."""
    links = [run.chain.link(name) for name in run.plan.touched]
    top = links[0]
    topic = recorded_topic(read_runs(run.environment, run.spark), top, run.environment)
    found = begin_loss_search(run.spark, run.environment, links, topic)
    for link in links:
        lost = 0
        why = f"{link.query} was not given them beside"
        for rows in _removed(run, link, facts["live"]):
            # The rows that the stage was given beside. Of a key it may have taken another one of these rows.
            given = _placed(run, own, link.outputs if link is top else (), facts["beside"])
            if link is not top and link.input is not None:
                given = _input_beside(run, own, link.input.name, facts["beside"])
            missing = rows if given is None else not_in(rows, given)
            if missing is None:
                continue
            loss = count_lost(found, link, missing) if link is top else summarize(found, link, missing)
            lost, why = lost + loss.of_stage, loss.why if link is top and loss.why else why
        planned = int(step.arguments.get("lost", {}).get(link.name, run.plan.loss))
        if lost > planned:
            what = f"{lost:,} rows would be lost for ever, {planned:,} when this was planned: {why}"
            raise _not_exact(run, what, "SourceLostRows")


def _removed(run: StepContext, link: Link, live: Mapping[str, int]) -> Iterator[DataFrame]:
    """Positions of what the swap takes away: of the stage's tables together, and of each database."""
    rows = _placed(run, run.environment, link.outputs, live)
    if rows is not None:
        yield rows
    for sink in link.databases:
        if read_database(sink).exists and (held := read_placed(run.spark, sink)) is not None:
            yield held


def _placed(
    run: StepContext, environment: Environment, outputs: Sequence[Output], versions: Mapping[str, int]
) -> DataFrame | None:
    rows = None
    for output in outputs:
        some = read_at(run.spark, environment, output.table.name, versions[output.table.name])
        if set(POSITION) <= set(some.columns):
            rows = some.select(*POSITION) if rows is None else rows.unionAll(some.select(*POSITION))
    return rows


def _input_beside(run: StepContext, own: Environment, name: str, versions: Mapping[str, int]) -> DataFrame | None:
    rows = read_at(run.spark, own, name, versions[name])
    return rows if set(POSITION) <= set(rows.columns) else None


def _not_exact(run: StepContext, what: str, code: str) -> BesideNotExact:
    own, _ = beside_of(run)
    return BesideNotExact(
        f"what was filled beside is not swapped in: {what}",
        meaning="No table and no checkpoint of the stages was changed, and they may start. What was filled stays as "
        f"…__beside_{own.tag}, to be looked at.",
        next=again(run, "undo").noting("drops it; or, once the cause is gone", again(run, "apply")),
        do_not="swap or copy it by hand.",
        code=code,
    )
