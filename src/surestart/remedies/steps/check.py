"""Decides whether what was filled beside may take the place of the tables; the stages stand still by now.

what arrived while it was filled   is read as well
every row beside                   is counted against the source: lost 0, duplicated 0, or no swap
rows that only the tables have     and that the source can give no more: no more than the plan has named
versions, files of checkpoints     are written down: what the swap, the new begin and the undo go by
"""

from __future__ import annotations

from typing import Any

from surestart.environment import Environment
from surestart.failpoints import reach
from surestart.gate.describe_run import options_of
from surestart.large_side import large_side
from surestart.registry.read_runs import read_runs
from surestart.remedies.beside import BesideNotExact, beside_of
from surestart.remedies.certificate import CANNOT_TELL, Certificate, certify
from surestart.remedies.chain import Chain, Link
from surestart.remedies.kept import find_kept, read_at, removed_rows
from surestart.remedies.manifest import local_folder, read_manifest
from surestart.remedies.pinned import pin
from surestart.remedies.plan import Step
from surestart.remedies.reach import EVERYTHING, reach_in_table, read_reach
from surestart.remedies.running import Running
from surestart.remedies.same_topic import recorded_topic
from surestart.remedies.source_reach import loss_of
from surestart.remedies.steps.fill import fill
from surestart.remedies.steps.mark import rule_of

_POSITION = ["source", "partition", "offset"]


def apply_step(run: Running, step: Step) -> dict[str, Any]:
    """Raises BesideNotExact, with no table of the stages changed, when there must be no swap. facts: of each table its
    version beside and its version now, the files of each checkpoint, and the input's version that was looked at."""
    own, chain = beside_of(run)
    for link in chain:
        if not _has_read_everything(run, link):
            fill(run, link)
    reach("remedy.check.before_count")
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
    _refuse_loss(run, own, live, facts)
    return facts


def undo_step(run: Running, step: Step) -> dict[str, Any]:
    return {}


def _has_read_everything(run: Running, link: Link) -> bool:
    """A stage whose input is beside too, where nobody else writes. The first one is asked again in any case."""
    if link.input is None or not link.upstream:
        return False
    given = pin(run.spark, link.input)
    position = read_reach(link.checkpoint)
    if given.version is None or position.in_flight:
        return False
    return reach_in_table(position, given.table_id, given.version).how == EVERYTHING


def _versions(run: Running, environment: Environment, chain: Chain, touched: tuple[str, ...]) -> dict[str, int]:
    """By the table's own name; -1: there is no such table."""
    found = {}
    for name in touched:
        for output in chain.link(name).outputs:
            version = pin(run.spark, environment.table(output.table.name)).version
            found[output.table.name] = -1 if version is None else version
    return found


def _refuse_faults(run: Running, certificate: Certificate) -> None:
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


def _refuse_overlap(run: Running, own: Environment, live: Link, facts: dict[str, Any]) -> None:
    """Rows at or above their mark are read again after the swap: there must be none. A backfill of the input can leave
    a gap with rows behind it."""
    marks = find_kept(run.spark, own, rule_of(live, facts))
    again = sum(
        removed_rows(read_at(run.spark, own, output.table.name, facts["beside"][output.table.name]), marks).count()
        for output in live.outputs
    )
    if again:
        raise _not_exact(run, f"{again:,} rows beside lie behind a gap, and would come a second time", "BesideOverlaps")


def _refuse_loss(run: Running, own: Environment, live: Link, facts: dict[str, Any]) -> None:
    """Retention goes on while a plan is read and tables are filled."""
    there, beside = None, None
    for output in live.outputs:
        name = output.table.name
        rows = read_at(run.spark, run.environment, name, facts["live"][name]).select(*_POSITION)
        there = rows if there is None else there.unionAll(rows)
        rows = read_at(run.spark, own, name, facts["beside"][name]).select(*_POSITION)
        beside = rows if beside is None else beside.unionAll(rows)
    if there is None or beside is None:
        return
    vanishing = there.join(large_side(beside), _POSITION, "left_anti")
    topic = recorded_topic(read_runs(run.environment, run.spark), live, run.environment)
    loss = loss_of(run.spark, run.environment, live, vanishing, topic)
    if loss.rows > run.plan.loss:
        what = f"{loss.rows:,} rows would be lost for ever, {run.plan.loss:,} when this was planned: {loss.why}"
        raise _not_exact(run, what, "SourceLostRows")


def _not_exact(run: Running, what: str, code: str) -> BesideNotExact:
    own, _ = beside_of(run)
    options = f" -e {run.environment.name} {options_of(run.environment)}".rstrip()
    return BesideNotExact(
        f"what was filled beside is not swapped in: {what}",
        meaning="No table and no checkpoint of the stages was changed, and they may start. What was filled stays as "
        f"…__beside_{own.tag}, to be looked at.",
        next=f"surestart undo {run.digest[:12]}{options}  # drops it; or, once the cause is gone: surestart apply "
        f"{run.digest[:12]}{options}",
        do_not="swap or copy it by hand.",
        code=code,
    )
