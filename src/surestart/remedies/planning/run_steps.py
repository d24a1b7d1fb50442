"""The steps of a plan that run stages again, and which sinks those runs leave out.

A plan that was made without a setting (postgres_url) knows nothing of that sink, which is then neither cleared nor
written. The start gate would ask about it in the middle of a remedy, when nobody can answer. So the plan says that the
sink is left out, and whoever applies the plan accepts that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from surestart.environment import Environment
from surestart.history.run_record import RunRecord
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.plan import Step
from surestart.remedies.planning.estimate import own_runs
from surestart.verdict.change_safety import LEFT_OUT, find_left_out


def run_steps(links: Iterable[Link], environment: Environment, runs: Sequence[RunRecord]) -> list[Step]:
    return [_run_step(link, _left_out(link, environment, runs)) for link in links]


def _run_step(link: Link, left_out: Sequence[str]) -> Step:
    what = f"run {link.query} to the end of the data"
    if not left_out:
        return Step(f"run:{link.name}", "run", what, link.name)
    places = " and ".join(left_out)
    what += f", WITHOUT {places}: its last run wrote there, this plan was made without that sink, whose rows stay old"
    return Step(f"run:{link.name}", "run", what, link.name, {"accept": [LEFT_OUT]})


def _left_out(link: Link, environment: Environment, runs: Sequence[RunRecord]) -> tuple[str, ...]:
    ran = [run for run in own_runs(runs, link) if run.environment == environment.name and run.last_batch is not None]
    declared = [run.declaration for run in ran if isinstance(run.declaration, Mapping) and run.declaration]
    if not declared:
        return ()
    return tuple(change.before for change in find_left_out(link.stage.declare(environment), declared[-1]))
