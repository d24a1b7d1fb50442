"""A small workspace on 127.0.0.1 that speaks the calls of the Jobs API (2.1 and 2.2) that stopping a stage needs.

It keeps jobs and runs, lists them in pages of two, replaces top-level settings on update as the platform does, starts a
new run of a continuous job that is not paused when one ends, and ends a run some looks after it was told to: its clock
is the number of times that somebody looked. Faults are queued per call: server.fail("update", 403).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGE = 2
ACTIVE = ("QUEUED", "PENDING", "RUNNING", "TERMINATING")
CODES = {
    400: "INVALID_PARAMETER_VALUE",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    429: "RESOURCE_EXHAUSTED",
    503: "TEMPORARILY_UNAVAILABLE",
}


@dataclass
class Run:
    """ends_in: looks until it is over, None for never. after_cancel: the same once it was told to end. hidden: left out
    of the list of active runs, as one that waits for a retry may be."""

    job_id: int
    state: str = "RUNNING"
    ends_in: int | None = None
    after_cancel: int | None = 2
    hidden: bool = False


@dataclass
class Workspace:
    jobs: dict[int, dict[str, Any]] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    # What jobs/get says beside the settings, such as trigger_state.
    beside: dict[int, dict[str, Any]] = field(default_factory=dict)
    # Continuous jobs that somebody started although they are set to paused.
    by_hand: set[int] = field(default_factory=set)

    def add_run(self, job_id: int, **more: Any) -> int:
        run_id = 900 + len(self.runs) + 1
        self.runs[run_id] = Run(job_id, **more)
        return run_id

    def active_runs(self, job_id: int) -> list[int]:
        return [run_id for run_id, run in self.runs.items() if run.job_id == job_id and run.state in ACTIVE]

    def pause_status(self, job_id: int, kind: str) -> str | None:
        value: str | None = self.jobs[job_id][kind].get("pause_status")
        return value


class JobsApi(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.space = Workspace()
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.faults: list[tuple[str, int, str]] = []
        # Called with the name of a call before it is answered: what somebody else does in that moment.
        self.meanwhile: dict[str, Any] = {}
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fail(self, call: str, status: int, message: str = "said by the test", times: int = 1, after: int = 0) -> None:
        """The next calls of that name fail, or those after some that are answered (status 0)."""
        self.faults += [(call, 0, "")] * after + [(call, status, message)] * times

    def called(self, *names: str) -> list[dict[str, Any]]:
        return [what for name, what in self.calls if name in names]


class Refusal(Exception):
    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code or CODES[status]


class _Handler(BaseHTTPRequestHandler):
    server: JobsApi

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._answer(parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(urlsplit(self.path).path, json.loads(body or b"{}"))

    def _answer(self, path: str, what: dict[str, Any]) -> None:
        with self.server.lock:
            try:
                _, version, name = path.partition("/jobs/")
                if not version or path.split("/jobs/")[0] not in ("/api/2.1", "/api/2.2"):
                    raise Refusal(404, f"No API found for '{path}'", "ENDPOINT_NOT_FOUND")
                self.server.calls.append((name, what))
                if act := self.server.meanwhile.pop(name, None):
                    act(self.server.space)
                for index, (call, status, message) in enumerate(self.server.faults):
                    if call == name:
                        del self.server.faults[index]
                        if status:
                            raise Refusal(status, message)
                        break
                method = {"list": "GET", "get": "GET", "runs/list": "GET", "runs/get": "GET"}.get(name, "POST")
                if method != self.command or name.replace("/", "_") not in _CALLS:
                    raise Refusal(404, f"No API found for '{self.command} {path}'", "ENDPOINT_NOT_FOUND")
                self._send(200, _CALLS[name.replace("/", "_")](self.server.space, what))
            except Refusal as refusal:
                self._send(refusal.status, {"error_code": refusal.code, "message": str(refusal)})

    def _send(self, status: int, values: Mapping[str, Any]) -> None:
        data = json.dumps(values).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Quiet."""


def _list(space: Workspace, what: Mapping[str, Any]) -> dict[str, Any]:
    if not 1 <= int(what.get("limit", 20)) <= 100:
        raise Refusal(400, "limit must be between 1 and 100")
    jobs = [
        {"job_id": job_id, "settings": {name: value for name, value in settings.items() if name != "tasks"}}
        for job_id, settings in space.jobs.items()
    ]
    return _page("jobs", jobs, what)


def _get(space: Workspace, what: Mapping[str, Any]) -> dict[str, Any]:
    job_id, settings = _job(space, what)
    page = _page("tasks", settings.get("tasks", []), what)
    answer = {"job_id": job_id, "settings": {**settings, "tasks": page.pop("tasks", [])}, **page}
    if what.get("include_trigger_state") == "true" and settings.get("continuous"):
        shown = "UNPAUSED" if job_id in space.by_hand else settings["continuous"].get("pause_status", "UNPAUSED")
        answer["trigger_state"] = {"pause_status": shown}
    return answer


def _update(space: Workspace, what: Mapping[str, Any]) -> dict[str, Any]:
    job_id, settings = _job(space, what)
    new = what["new_settings"]
    schedule = new.get("schedule")
    if schedule is not None and not (schedule.get("quartz_cron_expression") and schedule.get("timezone_id")):
        raise Refusal(400, "Missing required field: settings.schedule.quartz_cron_expression")
    if "triggers" in new and any(kind in settings for kind in ("schedule", "continuous", "trigger")):
        raise Refusal(400, "triggers cannot be set together with schedule, continuous or trigger")
    settings.update(new)
    space.by_hand.discard(job_id)
    _restart(space, job_id)
    return {}


def _runs_list(space: Workspace, what: Mapping[str, Any]) -> dict[str, Any]:
    if "page_token" not in what:
        _tick(space, int(what["job_id"]))
    if what.get("active_only") != "true":
        raise Refusal(400, "this server lists active runs only")
    runs = [
        _shown(run_id, run)
        for run_id, run in space.runs.items()
        if run.job_id == int(what["job_id"]) and run.state in ACTIVE and not run.hidden
    ]
    return _page("runs", runs, what)


def _runs_get(space: Workspace, what: Mapping[str, Any]) -> dict[str, Any]:
    run_id, run = _run(space, what)
    if run.hidden or run.job_id not in space.jobs:
        _tick(space, run.job_id)
    return _shown(run_id, run)


def _runs_cancel(space: Workspace, what: Mapping[str, Any]) -> dict[str, Any]:
    run_id, run = _run(space, what)
    if run.state not in ACTIVE and not run.hidden:
        raise Refusal(400, f"Run {run_id} is in state {run.state} and cannot be cancelled", "INVALID_STATE")
    run.state, run.ends_in = "TERMINATING", run.after_cancel
    return {}


_CALLS = {
    "list": _list,
    "get": _get,
    "update": _update,
    "runs_list": _runs_list,
    "runs_get": _runs_get,
    "runs_cancel": _runs_cancel,
}


def _job(space: Workspace, what: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    job_id = int(what["job_id"])
    if job_id not in space.jobs:
        # Not 404: the platform says it like this, and the SDK knows.
        raise Refusal(400, f"Job {job_id} does not exist.")
    return job_id, space.jobs[job_id]


def _run(space: Workspace, what: Mapping[str, Any]) -> tuple[int, Run]:
    run_id = int(what["run_id"])
    if run_id not in space.runs:
        raise Refusal(400, f"Run {run_id} does not exist.")
    return run_id, space.runs[run_id]


def _shown(run_id: int, run: Run) -> dict[str, Any]:
    return {"run_id": run_id, "job_id": run.job_id, "state": {"life_cycle_state": run.state}}


def _tick(space: Workspace, job_id: int) -> None:
    for run in [run for run in space.runs.values() if run.job_id == job_id and run.ends_in is not None]:
        run.ends_in = None if run.ends_in is None else run.ends_in - 1
        if run.ends_in is not None and run.ends_in <= 0:
            run.state, run.ends_in = "TERMINATED", None
    _restart(space, job_id)


def _restart(space: Workspace, job_id: int) -> None:
    """A continuous job has a run at any time unless it is paused."""
    continuous = space.jobs.get(job_id, {}).get("continuous")
    active = continuous and (continuous.get("pause_status") != "PAUSED" or job_id in space.by_hand)
    if active and not space.active_runs(job_id):
        space.add_run(job_id, state="PENDING")


def _page(name: str, items: list[Any], what: Mapping[str, Any]) -> dict[str, Any]:
    start = int(what.get("page_token", 0))
    # As the platform: no key at all for an empty page.
    answer: dict[str, Any] = {name: items[start : start + PAGE]} if items[start:] else {}
    if items[start + PAGE :]:
        answer["next_page_token"] = str(start + PAGE)
    return answer


@contextmanager
def jobs_api() -> Iterator[JobsApi]:
    server = JobsApi()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
