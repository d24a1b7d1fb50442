"""Checks that a plan names stages, tables and databases of this pipeline and no others, whoever has made its digest.

If another name was found out only at its step, the plan would stand half-way, and could go neither on nor back.
"""

from __future__ import annotations

from collections.abc import Iterator

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.history.describe_run import named, plan_command
from surestart.journal.step_kinds import STEP_KINDS, kind_of
from surestart.remedies.basis.chain import Chain, Link
from surestart.remedies.basis.plan import FORK, Plan, Step
from surestart.typed import surestart

# Of these the stages below follow of themselves: they are run, not changed.
_ALONE = ("backfill", "retire", "restart", "move")


def check_names(plan: Plan, chain: Chain, environment: Environment, verb: str = "apply") -> None:
    """Raises Refused when a step is for a stage, a table or a database that the pipeline does not write."""
    links = {link.name: link for link in chain}
    strange = [name for name in (plan.stage, *plan.touched, *plan.world) if name not in links]
    strange += [what for step in plan.steps for what in _strange(step, links)]
    if strange:
        raise _refused(plan, environment, f"{', '.join(dict.fromkeys(strange))}: not of this pipeline", verb)


def check_touched(plan: Plan, chain: Chain, environment: Environment) -> None:
    """Raises Refused unless the plan claims, and looks at, just the stages whose rows it changes."""
    if plan.method == FORK:
        wanted: tuple[str, ...] = ()
    else:
        wanted = (plan.stage,) if plan.remedy in _ALONE else tuple(link.name for link in chain.below(plan.stage))
    if plan.remedy != "resume" and (plan.touched != wanted or set(plan.world) != set(wanted)):
        raise _refused(
            plan, environment, f"it touches {', '.join(plan.touched) or 'nothing'} and was made for the state of "
            f"{', '.join(plan.world) or 'nothing'}; a {plan.remedy} of {plan.stage} touches {', '.join(wanted)}"
        )  # fmt: skip
    changed = {step.stage for step in plan.steps if step.stage and kind_of(step.kind).changes_stage}
    changed |= {name for step in plan.steps for name in step.arguments.get("starts", {})}
    if not changed <= set(wanted):
        raise _refused(plan, environment, f"it changes {', '.join(sorted(changed - set(wanted)))}, and claims {wanted}")


def _strange(step: Step, links: dict[str, Link]) -> Iterator[str]:
    names = [step.stage] if step.stage else []
    yield from (f"stage {name}" for name in (*names, *step.arguments.get("starts", {})) if name not in links)
    link = links.get(step.stage)
    table, target = step.arguments.get("table"), step.arguments.get("target")
    own = step.arguments.get("sink")
    if own is not None and (link is None or all(own != sink.target for sink in link.own_sinks)):
        yield f"sink {own} of {step.stage or 'no stage'}"
    if table is not None and (link is None or all(table != output.table.name for output in link.outputs)):
        yield f"table {table} of {step.stage or 'no stage'}"
    if target is not None and (link is None or all(target != sink.target for sink in link.databases)):
        yield f"database table {target} of {step.stage or 'no stage'}"


def _refused(plan: Plan, environment: Environment, what: str, verb: str = "apply") -> Refused:
    return Refused(
        f"the plan {plan.digest[:12]} does not fit the pipeline: {what}",
        meaning="It was edited, or made for other code or other settings than those of this call. Nothing was changed.",
        next=plan_command(environment, plan.remedy, plan.stage, *plan.options)
        if verb == "apply"
        else surestart("undo", plan.digest[:12], place=named(environment), note="with the code that has these stages"),
        do_not="edit the plan to fit.",
        code="PlanDoesNotFit",
    )


def check_steps(plan: Plan) -> None:
    """Raises when this version cannot do one of the steps. If that was found out only at the step, the plan would stand
    half-way."""
    unknown = [step.kind for step in plan.steps if step.kind not in STEP_KINDS]
    if unknown:
        raise Refused(
            f"the plan {plan.digest[:12]} has steps that this version cannot do: {', '.join(dict.fromkeys(unknown))}",
            meaning="Another version made it, or it is for what no remedy can do yet. This call changed nothing.",
            next=surestart("--version"),
            do_not="do that step by hand.",
            code="StepUnknown",
        )
