"""Plans that wait for somebody to read them, by their digest: <checkpoint_root>/_plans/<digest>.json.

They lie beside the checkpoints, because a plan is for one environment only. No query's name begins with "_", so the
folder is nobody's checkpoint. A plan that was begun is in the journal and no longer needs its file.
"""

from __future__ import annotations

import re
from pathlib import Path

from surestart.environment import Environment
from surestart.errors import Refused, UsageError
from surestart.facts.checkpoint.manifest import local_folder
from surestart.journal.journal import read_journals
from surestart.library_types import SparkSession
from surestart.remedies.apply.undo import find_applied
from surestart.remedies.basis.plan import Plan, parse_plan
from surestart.typed import in_the_notebook

PLANS = "_plans"
_DIGEST = re.compile(r"[0-9a-f]{12,64}")
_PLAN_AGAIN = in_the_notebook("set mode to plan, run the cells again, read the plan and paste its digest")


def store_plan(environment: Environment, plan: Plan) -> Path:
    """The plan lies where `apply` finds it by its digest, whole."""
    folder = plans_folder(environment)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{plan.digest}.json"
    fresh = target.with_name(target.name + ".new")
    fresh.write_text(plan.as_json(), encoding="utf-8")
    fresh.replace(target)
    return target


def plans_folder(environment: Environment) -> Path:
    return local_folder(environment.checkpoint_root.rstrip("/")) / PLANS


def find_plan(spark: SparkSession, environment: Environment, digest: str, mode: str) -> Plan:
    """The stored plan of that digest, or one that was begun already; raises unless it is exactly that one."""
    wanted = digest.strip().lower()
    if not _DIGEST.fullmatch(wanted):
        raise UsageError(
            f"mode is {mode}, and digest is {digest!r}" if digest else f"mode is {mode}, and no digest is given",
            meaning="Without the digest of a plan that somebody has read nothing is done. It is the first 12 or more "
            "of its 64 characters. Nothing was changed.",
            next=_PLAN_AGAIN,
            do_not="make up a digest.",
            code="DigestMissing",
        )
    journals = read_journals(environment, spark)
    if any(one.digest.startswith(wanted) for one in journals):
        return find_applied(spark, environment, wanted)
    folder = plans_folder(environment)
    kept = sorted(folder.glob(f"{wanted}*.json"))
    if mode == "undo" or len(kept) != 1:
        found = f"{len(kept)} plans in {folder}" if mode == "apply" else "no remedy that was applied here"
        raise UsageError(
            f"the digest {wanted[:12]} names {found}",
            meaning="A plan is kept where it was made: the same environment, catalog and schema. Nothing was changed.",
            next=_PLAN_AGAIN,
            code="PlanNotFound",
        )
    plan = parse_plan(kept[0].read_text(encoding="utf-8", errors="replace"), str(kept[0]))
    if not plan.digest.startswith(wanted):
        raise Refused(
            f"{kept[0]} was edited: it holds the plan {plan.digest[:12]}",
            meaning="What is applied has to be what was planned and read. Nothing was changed.",
            next=_PLAN_AGAIN,
            do_not="rename the file.",
            code="PlanEdited",
        )
    return plan
