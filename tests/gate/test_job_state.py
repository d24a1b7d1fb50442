"""The state of a Databricks job run tells whether a far owner lives: asked through the real SDK, of a local server."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from surestart.errors import CannotTell, Refused
from surestart.history.claim_file import take_claim
from surestart.history.run_record import RunRecord
from surestart.runs.find_owner import claim_by_file
from surestart.runs.owner import Life, judge_owner, read_job_state
from surestart.words.next_commands import Commands

NOW = 1_800_000_000_000
STATES = {"1": "RUNNING", "2": "TERMINATED", "3": "INTERNAL_ERROR"}


class _Jobs(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        run = parse_qs(url.query).get("run_id", [""])[0]
        if url.path.endswith("/jobs/runs/get") and run in STATES:
            code, body = 200, {"run_id": int(run), "state": {"life_cycle_state": STATES[run]}}
        elif url.path.endswith("/jobs/runs/get"):
            code, body = 403, {"error_code": "PERMISSION_DENIED", "message": "not yours"}
        else:
            code, body = 404, {"error_code": "NOT_FOUND", "message": "no such call"}
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def workspace() -> Iterator[None]:
    """The SDK's settings lead to a server that knows three runs and may not show any other."""
    pytest.importorskip("databricks.sdk")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Jobs)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    settings = {"DATABRICKS_HOST": f"http://127.0.0.1:{server.server_address[1]}", "DATABRICKS_TOKEN": "not-a-secret"}
    former = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in former.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        server.shutdown()
        server.server_close()


def judged(job_run: str) -> Life:
    far = RunRecord(run_id="r", host="elsewhere", process_started="b/n/1", job_run=job_run, started_at=NOW - 1000)
    return judge_owner(far, now=NOW, last_activity=None, job_state=read_job_state).life


@pytest.mark.usefixtures("workspace")
def test_a_job_run_that_goes_on_is_a_live_owner_and_one_that_is_over_a_dead_one() -> None:
    assert [read_job_state(run) for run in "123"] == list(STATES.values())
    assert [judged(run) for run in "123"] == [Life.ALIVE, Life.DEAD, Life.DEAD]


@pytest.mark.usefixtures("workspace")
def test_a_run_that_may_not_be_seen_is_never_taken_for_dead() -> None:
    assert read_job_state("4") == ""
    assert judged("4") is Life.UNKNOWN
    assert judged("not a number") is Life.UNKNOWN


@pytest.mark.usefixtures("workspace")
def test_a_free_lock_does_not_outweigh_a_job_run_that_goes_on(tmp_path: Path) -> None:
    """Two clusters on one mounted root: the file system may not show the one's lock to the other."""
    far = RunRecord(run_id="r", query="q", checkpoint="/nowhere/q", host="elsewhere", job_run="1")
    mine = RunRecord(run_id="mine", query="q", environment="prod")

    def start(owner: RunRecord) -> str:
        claim = take_claim(tmp_path / "q.lock")
        assert claim is not None
        claim.write(owner)
        claim.release(clear=False)
        taken = claim_by_file(tmp_path, mine, (), Commands("q", "prod"))
        assert taken.held is not None
        taken.held.release(clear=True)
        return taken.record.taken_over

    with pytest.raises(Refused, match="job run 1 is RUNNING"):
        start(far)
    assert "job run 2 is TERMINATED" in start(replace(far, job_run="2"))
    with pytest.raises(CannotTell, match="job run 4 cannot be asked"):
        start(replace(far, job_run="4"))
    with pytest.raises(CannotTell, match="elsewhere is not this one"):
        start(replace(far, job_run=""))
