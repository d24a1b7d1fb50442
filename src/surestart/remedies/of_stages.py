"""Plan, apply and undo as a program calls them: with the stages themselves, and no command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from surestart.environment import Environment
from surestart.journal.journal import Journal
from surestart.library_types import SparkSession
from surestart.remedies.apply.apply import Applied, apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.plan import Plan
from surestart.remedies.planning.plan_remedy import plan_remedy
from surestart.remedies.planning.wanted import Wanted
from surestart.stage import Stage

Say = Callable[[str], object]


def plan_of_stages(spark: SparkSession, environment: Environment, stages: Sequence[Stage], wanted: Wanted) -> Plan:
    """What the remedy would do, to what, and what would be lost. Nothing is changed."""
    return plan_remedy(spark, environment, read_chain(environment, stages), wanted)


def apply_to_stages(
    spark: SparkSession,
    environment: Environment,
    stages: Sequence[Stage],
    plan: Plan,
    *,
    confirm: str,
    say: Say = lambda line: None,
) -> Applied:
    """The plan's steps are done, and its certificate is in the journal. Killed anywhere, the same call goes on.

    confirm: the plan's target, typed by whoever has read the plan."""
    return apply_plan(spark, environment, read_chain(environment, stages), plan, lambda asked: confirm, say)


def undo_of_stages(
    spark: SparkSession,
    environment: Environment,
    stages: Sequence[Stage],
    plan: Plan,
    *,
    confirm: str,
    accept_loss: int | None = None,
    say: Say = lambda line: None,
) -> Journal:
    """Checkpoints and tables are as they were before the remedy.

    accept_loss: so many rows that arrived since are lost for ever, and that is known."""
    chain = read_chain(environment, stages)
    return undo_remedy(spark, environment, chain, plan, lambda asked: confirm, say, accept_loss)
