"""Which Databricks jobs run a stage, found in two ways that complete each other.

run history    job_url, else the job of job_run     the jobs that did run the query; one that is gone is passed over
tags           pipeline, stage, environment         the jobs that will, as resources/*.yml tag them

Tags alone would be wrong: everybody's copy of `dev` in one workspace has the same. So a job counts when the checkpoint
that its tasks name is the stage's own; one that names another is somebody else's and is never touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from surestart.environment import Environment, environment_from_settings
from surestart.errors import CannotTell, UsageError
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.run_record import RunRecord
from surestart.remedies.jobs.api import DENIED, MISSING, JobsApi, JobsCallFailed, open_jobs_api
from surestart.remedies.jobs.state import JobState, triggers_of
from surestart.typed import typed

RUN_HISTORY, TAGS = "run history", "tags"
# The role of a job that applies remedies (resources/sensor_reset.job.yml). It starts stages, and is no stage's own job.
REMEDY_ROLE = "remedy"
_JOB_IN_URL = re.compile(r"(?:#job|/jobs)/(\d+)")
_PLACES = ("root", "checkpoint_root", "catalog", "schema")
# A job that was deployed anew has another id: further back than this, runs say nothing of what runs now.
_NEWEST = 20


def read_jobs(
    environment: Environment,
    queries: Sequence[str],
    *,
    runs: Iterable[RunRecord] = (),
    client: Any = None,
    accept_no_job: bool = False,
) -> tuple[JobState, ...]:
    """Every job that runs one of the queries, as it is now, in the order of the queries. Nothing is changed.

    runs: the environment's run history. Raises CannotTell for a query without a job, unless `accept_no_job`, and for
    a job of which nobody can say whether it is this environment's.
    """
    api = open_jobs_api(client)
    try:
        found = dict(_recorded(api, environment, queries, tuple(runs)))
        for listed in api.list_jobs():
            job_id, settings = int(listed.get("job_id") or 0), listed.get("settings") or {}
            if job_id not in found and set(_tagged(environment, queries, settings)):
                job = api.read_job(job_id)
                if claimed := _claims(environment, queries, job, surely=False):
                    found[job_id] = _state(api, job, claimed, TAGS)
    except JobsCallFailed as failure:
        raise _cannot_ask(failure, queries) from failure
    without = [query for query in queries if not any(query in job.queries for job in found.values())]
    if without and not accept_no_job:
        raise _no_job(environment, without)
    return tuple(sorted(found.values(), key=lambda job: (min(map(queries.index, job.queries)), job.job_id)))


def _recorded(
    api: JobsApi, environment: Environment, queries: Sequence[str], runs: Sequence[RunRecord]
) -> Iterator[tuple[int, JobState]]:
    asked: dict[int, set[str]] = {}
    for query in queries:
        newest = [run for run in runs if run.query == query and (run.job_url or run.job_run)][-_NEWEST:]
        for run in {run.job_url or run.job_run: run for run in newest}.values():
            if job_id := _job_of(api, run):
                asked.setdefault(job_id, set()).add(query)
    for job_id, ran in asked.items():
        try:
            job = api.read_job(job_id)
        except JobsCallFailed as failure:
            if failure.kind == MISSING:
                continue
            raise
        if claimed := _claims(environment, [query for query in queries if query in ran], job, surely=True):
            yield job_id, _state(api, job, claimed, RUN_HISTORY)


def _job_of(api: JobsApi, run: RunRecord) -> int:
    """0 when it cannot be found out any more; runs are kept for 60 days."""
    if found := _JOB_IN_URL.search(run.job_url):
        return int(found.group(1))
    if not run.job_run.isdecimal():
        return 0
    try:
        return api.read_run(int(run.job_run)).job_id
    except JobsCallFailed as failure:
        if failure.kind == MISSING:
            return 0
        raise


def _tagged(environment: Environment, queries: Sequence[str], settings: Mapping[str, Any]) -> Iterator[str]:
    tags = settings.get("tags") or {}
    if tags.get("pipeline") != environment.pipeline or tags.get("environment", environment.name) != environment.name:
        return
    yield from (query for query in queries if query == environment.query_name(str(tags.get("stage"))))


def _claims(
    environment: Environment, queries: Sequence[str], job: Mapping[str, Any], *, surely: bool
) -> tuple[str, ...]:
    """The queries that the job runs on this environment's checkpoints. surely: it is known to have run them, so it is
    theirs unless its tasks say otherwise."""
    settings = job.get("settings") or {}
    if (settings.get("tags") or {}).get("role") == REMEDY_ROLE:
        return ()
    tagged = set(_tagged(environment, queries, settings))
    claimed: set[str] = set()
    unclear: set[str] = set()
    tasks = list(_tasks(settings)) or [("", {})]
    # Where tasks say which stage they run, the others beside them are something else.
    for stage, places in [task for task in tasks if task[0]] or tasks:
        ran = {query for query in queries if stage in ("all", query.removeprefix(f"{environment.pipeline}-"))}
        for query in ran if stage else tagged or (set(queries) if surely else set()):
            name = query.removeprefix(f"{environment.pipeline}-")
            there = _checkpoint(environment, name, places)
            if not there:
                unclear.add(query)
            elif there == checkpoint_place(environment.checkpoint(name)):
                claimed.add(query)
    for query in unclear - claimed:
        shown = environment.checkpoint(query.removeprefix(f"{environment.pipeline}-"))
        if surely or shown in str(settings.get("description")):
            claimed.add(query)
        else:
            raise _whose(environment, job, query)
    return tuple(query for query in queries if query in claimed)


def _tasks(settings: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """(stage, where it keeps its things) of each task; stage "" where a task does not say."""
    given = {str(one.get("name")): str(one.get("default", "")) for one in settings.get("parameters") or []}
    for task in settings.get("tasks") or []:
        code = task.get("python_wheel_task") or task.get("spark_python_task") or {}
        words = [str(word) for word in code.get("parameters") or []]
        named = {**dict(_options(words)), **(code.get("named_parameters") or {})}
        notebook = task.get("notebook_task")
        if notebook:
            # Job parameters win over a task's own, and reach a notebook by themselves.
            named = {**(notebook.get("base_parameters") or {}), **given}
        stage = words[1] if words[:1] == ["run"] and len(words) > 1 else ""
        yield stage, {name: str(named[name]) for name in _PLACES if named.get(name)}


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    following = iter(words)
    for word in following:
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        value = value if equals else next(following, "")
        if name == "set":
            name, _, value = value.partition("=")
        yield name.replace("-", "_"), value


def _checkpoint(environment: Environment, stage: str, places: Mapping[str, str]) -> str:
    """Where the task keeps the stage's checkpoint, built as the task itself will; "" when that cannot be told."""
    if not places:
        return ""
    try:
        there = environment_from_settings(environment.name, environment.pipeline, places, environ={})
        return checkpoint_place(there.checkpoint(stage))
    except UsageError:
        # A path or name that surestart refuses, such as one that is decided at run time ({{...}}).
        return ""


def _state(api: JobsApi, job: Mapping[str, Any], queries: tuple[str, ...], found_in: str) -> JobState:
    job_id = int(job.get("job_id") or 0)
    return JobState(
        job_id=job_id,
        name=str((job.get("settings") or {}).get("name") or "job without a name"),
        queries=queries,
        triggers=triggers_of(job),
        active_runs=tuple(sorted(run.run_id for run in api.list_active_runs(job_id))),
        found_in=found_in,
    )


def _cannot_ask(failure: JobsCallFailed, queries: Sequence[str]) -> CannotTell:
    denied = failure.kind == DENIED
    return CannotTell(
        f"the jobs of {', '.join(queries)} cannot be read: {failure}",
        meaning="This login may not see them. "
        if denied
        else "The workspace gave no usable answer. "
        "Whether a job would start a stage in the middle of the remedy is unknown. Nothing was changed.",
        next=typed("databricks", "current-user", "me", note="then ask an admin for CAN_MANAGE on the jobs")
        if denied
        else typed("databricks", "jobs", "list", note="when it answers, run the same command again"),
        do_not="treat a job that cannot be seen as one that does not exist.",
        code="JobsNotReachable",
    )


def _no_job(environment: Environment, queries: Sequence[str]) -> CannotTell:
    return CannotTell(
        f"no job was found for {', '.join(queries)}: none in the run history that is still there, and none with the "
        f"tags pipeline={environment.pipeline}, environment={environment.name}, stage=... and this checkpoint",
        meaning="There may be none, or this login may not see it: the platform leaves out what one may not view. "
        "Nothing was changed.",
        next=typed("databricks", "jobs", "list", note="as somebody who sees every job"),
        do_not="go on while something may start these stages: it would fill what the remedy is about to clear.",
        code="JobNotFound",
    )


def _whose(environment: Environment, job: Mapping[str, Any], query: str) -> CannotTell:
    job_id, settings = job.get("job_id"), job.get("settings") or {}
    return CannotTell(
        f"job {job_id} ({settings.get('name')}) is tagged as {query} in {environment.name}, and its tasks do not say "
        "which checkpoint they use",
        meaning="It may be this environment's, or somebody else's of the same name. Nothing was changed.",
        next=typed(
            "databricks", "jobs", "get", job_id, note="put the checkpoint's path into its description if it is yours"
        ),
        do_not="pause it unseen: it may be another person's stream.",
        code="JobUnclear",
    )
