"""The calls of Databricks' Jobs API that stopping a stage needs, through databricks-sdk, as plain JSON.

    GET  /api/2.2/jobs/list    jobs/get    jobs/runs/list?active_only    jobs/runs/get
    POST /api/2.2/jobs/update  jobs/runs/cancel

A job goes in and out as JSON and not as the SDK's JobSettings: those forget every field that their version does not
know, and `jobs/update` replaces a whole schedule, so pausing one would delete what somebody has set in it. Logging in,
retries after 429 and 503, and time-outs are the SDK's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from surestart.errors import CannotTell
from surestart.typed import NextCommand, typed
from surestart.words.next_commands import install_extra

_API = "/api/2.2/jobs"
_OVER = ("TERMINATED", "SKIPPED", "INTERNAL_ERROR")
DENIED, MISSING, BAD_STATE, UNREACHABLE = "denied", "missing", "bad state", "unreachable"


class JobsCallFailed(Exception):
    """kind: denied, missing, bad state (the thing is not in a state for this call), unreachable."""

    def __init__(self, kind: str, call: str, text: str) -> None:
        super().__init__(f"{call}: {text}")
        self.kind = kind
        self.call = call
        self.text = text


@dataclass(frozen=True)
class JobRun:
    """state: the platform's word, "" when it gives none; then the run counts as going on."""

    run_id: int
    job_id: int
    state: str

    @property
    def is_over(self) -> bool:
        return self.state in _OVER


def open_jobs_api(client: Any = None) -> JobsApi:
    """Raises CannotTell when databricks-sdk is absent or finds no login. `client` is a WorkspaceClient."""
    if client is not None:
        return JobsApi(client)
    try:
        from databricks.sdk import WorkspaceClient
    except ImportError as error:
        raise _no_client("databricks-sdk is not installed", install_extra("databricks")) from error
    try:
        return JobsApi(WorkspaceClient())
    except (ValueError, OSError) as error:
        # ValueError: the SDK found no way to log in. OSError covers DatabricksError and everything of the network.
        raise _no_client(f"no login to Databricks: {str(error)[:200]}", typed("databricks", "auth", "login")) from error


@dataclass(frozen=True)
class JobsApi:
    """Every method raises JobsCallFailed and nothing else."""

    client: Any

    def list_jobs(self) -> Iterator[dict[str, Any]]:
        """All jobs that this login may see, without their tasks."""
        yield from self._pages("list", {"limit": 100}, "jobs")

    def read_job(self, job_id: int) -> dict[str, Any]:
        """The job with all its tasks and parameters, which come in pages of 100."""
        query: dict[str, Any] = {"job_id": job_id, "include_trigger_state": True}
        job = self._get("get", query)
        page = job
        while token := page.get("next_page_token"):
            page = self._get("get", {**query, "page_token": token})
            for name in ("tasks", "parameters"):
                more = (page.get("settings") or {}).get(name) or []
                settings = job.setdefault("settings", {})
                settings[name] = [*(settings.get(name) or []), *more]
        return job

    def is_deleted(self, job_id: int) -> bool:
        """Two answers say so: it cannot be read, and it is not in the list of all jobs. One alone may be that of a
        proxy that knows nothing."""
        try:
            self.read_job(job_id)
        except JobsCallFailed as failure:
            if failure.kind != MISSING:
                raise
            return all(int(listed.get("job_id") or 0) != job_id for listed in self.list_jobs())
        return False

    def list_active_runs(self, job_id: int) -> tuple[JobRun, ...]:
        found = self._pages("runs/list", {"job_id": job_id, "active_only": True}, "runs")
        # The list may be older than the runs in it.
        return tuple(run for one in found if not (run := _run(one)).is_over)

    def read_run(self, run_id: int) -> JobRun:
        return _run(self._get("runs/get", {"run_id": run_id}))

    def update_job(self, job_id: int, settings: Mapping[str, Any]) -> None:
        """The named settings are replaced; all others are as they were."""
        self._do("POST", "update", body={"job_id": job_id, "new_settings": dict(settings)})

    def cancel_run(self, run_id: int) -> None:
        """The run was told to end; it may go on for a while."""
        self._do("POST", "runs/cancel", body={"run_id": run_id})

    def _pages(self, path: str, query: Mapping[str, Any], items: str) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            page = self._get(path, {**query, "page_token": token} if token else query)
            yield from page.get(items) or []
            token = page.get("next_page_token") or ""
            if not token:
                return

    def _get(self, path: str, query: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._do("GET", path, query=dict(query))
        if not isinstance(answer, dict):
            raise JobsCallFailed(UNREACHABLE, f"jobs/{path}", f"the answer is a {type(answer).__name__}, not an object")
        return answer

    def _do(self, method: str, path: str, **what: Any) -> Any:
        # As the SDK's own calls do: one host may serve several workspaces.
        workspace = getattr(self.client.config, "workspace_id", None)
        headers = {"X-Databricks-Workspace-Id": workspace} if workspace else {}
        with _failures(f"jobs/{path}"):
            return self.client.api_client.do(
                method, f"{_API}/{path}", headers={"Accept": "application/json", **headers}, **what
            )


def _run(values: Mapping[str, Any]) -> JobRun:
    """`state` is the older field and `status` the newer one; a platform may leave out either."""
    old, new = values.get("state") or {}, values.get("status") or {}
    return JobRun(
        int(values.get("run_id") or 0),
        int(values.get("job_id") or 0),
        str(old.get("life_cycle_state") or new.get("state") or ""),
    )


@contextmanager
def _failures(call: str) -> Iterator[None]:
    """The SDK's errors by name, so that the SDK is imported only where a client is made."""
    try:
        yield
    except (OSError, ValueError) as error:
        # DatabricksError and everything of `requests` is an OSError; ValueError is an answer that is not JSON.
        names = {kind.__name__ for kind in type(error).__mro__}
        text = f"{type(error).__name__}: {str(error)[:300]}"
        if names & {"PermissionDenied", "Unauthenticated"}:
            raise JobsCallFailed(DENIED, call, text) from error
        if "NotFound" in names or ("BadRequest" in names and "does not exist" in str(error)):
            raise JobsCallFailed(MISSING, call, text) from error
        if names & {"BadRequest", "ResourceConflict"}:
            raise JobsCallFailed(BAD_STATE, call, text) from error
        raise JobsCallFailed(UNREACHABLE, call, text) from error


def _no_client(what: str, command: NextCommand) -> CannotTell:
    return CannotTell(
        what,
        meaning="Whether a job will start this stage in the middle of the remedy is asked through the Jobs API; "
        "nothing was changed.",
        next=command,
        do_not="go on without: a schedule or a continuous job restarts the stream over half-cleared output.",
        code="JobsNotReachable",
    )
