"""reset: a stage is rebuilt from the beginning, and with it every stage below."""

from __future__ import annotations

from surestart.environment import Environment
from surestart.remedies.basis.chain import Chain
from surestart.remedies.basis.plan import Plan
from surestart.remedies.basis.rows_that_stay import KEEP_NOTHING
from surestart.remedies.planning.make_plan import plan_in_place
from surestart.remedies.planning.wanted import Request
from surestart.spark_types import SparkSession


def plan_reset(spark: SparkSession, environment: Environment, chain: Chain, stage: str, request: Request) -> Plan:
    """Every row of the stage and of those below goes, and comes again from the source."""
    intro = ["Everything the stage has written is removed and read again from the beginning of its source."]
    return plan_in_place(spark, environment, chain, "reset", stage, KEEP_NOTHING, request, intro)
