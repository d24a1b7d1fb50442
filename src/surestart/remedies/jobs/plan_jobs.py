"""The jobs that start the stages of a plan: named in it, stopped before anything is cleared, started again at the end.

    jobs     how each is set, as it is when the plan is applied: what is active, what somebody had paused
    stop     their triggers are paused, their runs cancelled and waited for
    look     nothing has moved since the plan was made, now that the stages stand still
    …        the remedy's own steps
    unpause  what `stop` has paused is active again; not after a `retire`

A plan for a place that no Databricks job can know of has none of these steps and needs no account.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.history.run_record import RunRecord
from surestart.history.run_table import read_runs
from surestart.journal.journal import read_journals
from surestart.journal.protocol import FILL, JOBS, LOOK, STOP, UNPAUSE
from surestart.library_types import SparkSession
from surestart.remedies.basis.plan import FORK, Effect, Plan, Step, plan_again
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.jobs.databricks_jobs import JobState, StoppedJobs, read_jobs, read_stored_job
from surestart.remedies.jobs.state import as_before

AUTO, ALL, FOUND, NONE = MODES = ("auto", "all", "found", "none")
_WORKSPACE_FOLDERS = ("/Volumes/", "/dbfs/", "/Workspace/")


def stops_jobs(plan: Plan) -> bool:
    return bool(plan.of_kind(JOBS))


def with_jobs(spark: SparkSession, environment: Environment, plan: Plan, mode: str) -> Plan:
    """The plan with the jobs that it stops. mode: all, each stage has one; found, those that there are; none, nobody is
    asked; auto, none where no job can know of this place, else all."""
    if plan.kind.changes_nothing or plan.kind.adds_only or plan.method == FORK or not plan.steps or mode == NONE:
        return plan
    runs = read_runs(environment, spark)
    if mode == AUTO and not is_known_to_jobs(environment, plan.queries, runs, os.environ):
        return plan
    there = read_jobs(environment, plan.queries, runs=runs, accept_no_job=mode == FOUND)
    return add_jobs(plan, as_before(there, read_journals(environment, spark)))


def is_known_to_jobs(
    environment: Environment, queries: Sequence[str], runs: Iterable[RunRecord], variables: Mapping[str, str]
) -> bool:
    """Whether a Databricks job could start these stages: the tables are in a catalog, this is a cluster of Databricks,
    the place is one of a workspace, or a job has started them before."""
    if not environment.root or variables.get("DATABRICKS_RUNTIME_VERSION"):
        return True
    if environment.root.startswith(_WORKSPACE_FOLDERS):
        return True
    if "://" in environment.root and (variables.get("DATABRICKS_HOST") or variables.get("DATABRICKS_CONFIG_PROFILE")):
        return True
    return any(run.query in queries and (run.job_run or run.job_url) for run in runs)


def add_jobs(plan: Plan, jobs: Sequence[JobState]) -> Plan:
    """Jobs in the order in which they are paused."""
    if not jobs:
        return plan
    names = ", ".join(job.label for job in jobs)
    shown = "; ".join(job.describe() for job in jobs)
    first = (
        Step.of(
            JOBS, "", f"write down how the jobs are set ({shown})", arguments={"jobs": [j.as_dict() for j in jobs]}
        ),
        Step.of(STOP, "", f"pause {names}, cancel their runs and wait for their end"),
        Step.of(LOOK, "", "look again whether a table or a checkpoint has moved"),
    )
    retired = plan.kind.ends_query
    last = () if retired else (Step.of(UNPAUSE, "", f"set {names} as they were"),)
    # Nobody has to stand still while tables are filled beside.
    filling = plan.of_kind(FILL)
    when = "stopped when the new tables are filled" if filling else "stopped first"
    lines = [f"{names}: {when}, " + ("and left paused." if retired else "set as they were at the end.")]
    if not filling and any(
        trigger.is_active and trigger.kind == "continuous" for job in jobs for trigger in job.triggers
    ):
        lines.append("A job that runs all the time moves its stage on while you read: pause it before you plan.")
    return replace(
        plan,
        steps=(*filling, *first, *(step for step in plan.steps if step not in filling), *last),
        effects=(*plan.effects, *(Effect(job.label, "pause, cancel") for job in jobs)),
        statements=(*plan.statements, *lines),
    )


def read_jobs_now(run: StepContext, *, as_planned: bool = True) -> StoppedJobs:
    """How the jobs of the plan's stages are set; one that another remedy has paused and left so counts as it was before
    that. as_planned: raises Refused when the plan names others than there are now."""
    step = run.plan.of_kind(JOBS)[0]
    planned = {job.job_id: job for job in map(read_stored_job, step.arguments["jobs"])}
    runs = read_runs(run.environment, run.spark)
    found = read_jobs(run.environment, run.plan.queries, runs=runs, client=run.stopping.client, accept_no_job=True)
    journals = read_journals(run.environment, run.spark)
    there = {job.job_id: job for job in as_before(found, journals, run.digest)}
    if not as_planned:
        return StoppedJobs(tuple(there.values()))
    if planned.keys() != there.keys():
        moves = [f"{planned[one].label} is gone" for one in planned if one not in there]
        moves += [f"{there[one].label} was not there" for one in there if one not in planned]
        raise Refused(
            f"the plan is stale: {'; '.join(moves)}",
            meaning="It would stop other jobs than those that start its stages. Nothing was changed.",
            next=plan_again(run.plan),
            do_not="edit the plan to fit.",
            code="PlanStale",
        )
    return StoppedJobs(tuple(there[one] for one in planned))
