"""Plans and applies remedies on the shared session, as the command line does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.journal.journal import Journal
from surestart.remedies.apply.apply import Applied, apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.chain import Chain, read_chain
from surestart.remedies.basis.plan import Plan
from surestart.remedies.planning.plan_replay import ReplayFrom, plan_replay
from surestart.remedies.planning.plan_reset import plan_reset
from surestart.remedies.planning.plan_rewind import plan_rewind
from surestart.remedies.planning.rewind_choice import RewindTo
from surestart.remedies.planning.wanted import Request
from tests.foundation.rows import TABLES, account, land, run_all, table_rows

SETTINGS = {"max_files_per_trigger": "2"}


def chain_of(environment: Environment) -> Chain:
    return read_chain(environment, build_stages(SETTINGS))


def request(**given: Any) -> Request:
    return Request(settings=SETTINGS, **{"run": False, **given})


def reset(spark: Any, environment: Environment, stage: str, **given: Any) -> Plan:
    return plan_reset(spark, environment, chain_of(environment), stage, request(**given))


def replay(spark: Any, environment: Environment, stage: str, begin: ReplayFrom, **given: Any) -> Plan:
    return plan_replay(spark, environment, chain_of(environment), stage, begin, request(**given))


def rewind(spark: Any, environment: Environment, stage: str, batch: int | None, **given: Any) -> Plan:
    return plan_rewind(spark, environment, chain_of(environment), stage, RewindTo(batch), request(**given))


def apply(spark: Any, environment: Environment, plan: Plan) -> Applied:
    return apply_plan(spark, environment, chain_of(environment), plan, lambda plan: plan.target)


def undo(spark: Any, environment: Environment, plan: Plan) -> Journal:
    return undo_remedy(spark, environment, chain_of(environment), plan, lambda plan: plan.target)


def run_stages(spark: Any, environment: Environment) -> None:
    run_all(spark, environment, **SETTINGS)


def contents(spark: Any, environment: Environment) -> dict[str, Any]:
    """Rows of every table as a multiset, and the digest of every checkpoint."""
    rows = {name: table_rows(spark, environment, name) for name in TABLES}
    checkpoints = {link.query: read_manifest(Path(link.checkpoint)).digest for link in chain_of(environment)}
    return {**rows, **checkpoints}


def assert_exact(environment: Environment) -> None:
    found = account(environment)
    assert found.is_exact, found.faults
    assert found.raw == found.produced


def land_more(environment: Environment, readings: int = 20) -> None:
    """Files that arrive later: new readings, and corrections of old ones."""
    land(environment, readings, per_file=10)


def one_batch_more(spark: Any, environment: Environment) -> None:
    """Each stage has a batch behind its first."""
    land_more(environment)
    run_stages(spark, environment)
