"""The claim: one owner at a time, whatever the offset of two starts, and none after kill -9."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from surestart.environment import environment_from_settings
from surestart.errors import CannotTell
from surestart.history.claim_file import ClaimContent, read_claim, seize_claim, take_claim
from surestart.history.describe_run import is_paused, read_process_start
from surestart.history.run_record import RunRecord
from surestart.history.run_table import read_runs
from surestart.runs.find_owner import OWNER_UNKNOWN, claim_by_file
from surestart.words.next_commands import Commands

HOLD_MS = 800


def start(path: Path, at: int, hold: int = HOLD_MS) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.gate.claimant", str(path), str(at), str(hold)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def race(path: Path, offset_ms: int) -> list[str]:
    at = time.time_ns() + 1_500_000_000
    drivers = [start(path, at), start(path, at + offset_ms * 1_000_000)]
    ended = [driver.communicate(timeout=60) for driver in drivers]
    assert [error for _, error in ended] == ["", ""]
    return sorted(output.strip() for output, _ in ended)


LONG = pytest.mark.long(instead="test_of_two_starts_exactly_one_runs")


@pytest.mark.parametrize("offset", [pytest.param(-20, marks=LONG), 0, pytest.param(20, marks=LONG)])
def test_of_two_starts_exactly_one_runs(tmp_path: Path, offset: int) -> None:
    assert race(tmp_path / "q.lock", offset) == ["ran", "refused"]


@pytest.mark.chaos
@pytest.mark.parametrize("offset", range(-500, 501, 20))
def test_of_two_starts_at_any_offset_exactly_one_runs(tmp_path: Path, offset: int) -> None:
    assert race(tmp_path / "q.lock", offset) == ["ran", "refused"]


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while read_claim(path).record is None and time.monotonic() < deadline:
        pass
    assert read_claim(path).record is not None


def test_a_killed_owner_leaves_its_record_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "q.lock"
    owner = start(path, time.time_ns(), 60_000)
    wait_for(path)
    assert take_claim(path) is None

    owner.kill()
    owner.communicate()

    claim = take_claim(path)
    assert claim is not None
    content = claim.read()
    assert content.record is not None
    assert content.record.query == "q"
    claim.release(clear=True)
    assert not path.exists()


def test_the_claim_of_a_paused_owner_is_seized_once_and_stays_seized_when_it_wakes(tmp_path: Path) -> None:
    path = tmp_path / "q.lock"
    owner = start(path, time.time_ns(), 3_000)
    wait_for(path)
    run_id = read_claim(path).record.run_id  # type: ignore[union-attr]
    os.kill(owner.pid, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 30
        while not is_paused(owner.pid) and time.monotonic() < deadline:
            pass
        assert is_paused(owner.pid)
        assert take_claim(path) is None
        assert seize_claim(path, "another run") is None
        seized = seize_claim(path, run_id)
        assert seized is not None
        seized.write(RunRecord(run_id="second", query="q"))
    finally:
        os.kill(owner.pid, signal.SIGCONT)
    owner.communicate(timeout=60)

    # The owner has ended and cleared what it thought was its own claim.
    assert seized.is_current()
    assert take_claim(path) is None
    assert read_claim(path).record == RunRecord(run_id="second", query="q")
    seized.release(clear=True)
    assert list(tmp_path.glob("*.lock*")) == []


TORN = ("{", '{"record": {"run_id": "a", "que', '{"record": 7}', '{"record": {"run_id": 3}}', "[]", "\xff", "\0\0\0")
WHOLE = ("", '{"record": {}, "former": []}', '{"record": {}, "former": [], "beats": false}')


@pytest.mark.parametrize(("text", "torn"), [*((text, True) for text in TORN), *((text, False) for text in WHOLE)])
def test_a_claim_torn_by_a_crash_names_nobody_and_is_known_as_torn(tmp_path: Path, text: str, torn: bool) -> None:
    path = tmp_path / "q.lock"
    path.write_text(text)
    assert read_claim(path) == ClaimContent(torn=torn)


@pytest.mark.parametrize("text", TORN)
def test_after_a_torn_claim_a_start_says_what_to_accept_and_is_accepted(tmp_path: Path, text: str) -> None:
    """Of every stage: a claim that one cannot read stands in the way of all."""
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    path = tmp_path / "claims/sensor-deserialize.lock"
    path.parent.mkdir()
    path.write_text(text)
    accept = f"surestart run deserialize --accept {OWNER_UNKNOWN}"
    mine = RunRecord(run_id="mine", query="sensor-deserialize", environment="local")
    with pytest.raises(CannotTell) as unread:
        read_runs(environment)
    assert str(unread.value.next).startswith("surestart run deserialize ")
    assert f"--accept {OWNER_UNKNOWN}" in str(unread.value.next)

    for _ in range(2):
        with pytest.raises(CannotTell) as refused:
            claim_by_file(path.parent, mine, (), Commands("deserialize", "local"))
        assert (refused.value.code, path.read_text()) == (OWNER_UNKNOWN, text)
    assert " ".join(str(refused.value.next).replace(" -e local", "").split()) == accept
    taken = claim_by_file(path.parent, mine, (OWNER_UNKNOWN,), Commands("deserialize", "local"))

    assert taken.held is not None
    assert (taken.record.accepted, path.read_text()) == ((OWNER_UNKNOWN,), "")
    assert read_runs(environment) == ()
    taken.held.release(clear=True)


def test_an_old_longer_text_behind_a_claim_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "q.lock"
    claim = take_claim(path)
    assert claim is not None
    claim.write(RunRecord(run_id="short", query="q"))
    with path.open("ab") as file:
        file.write(b'"left over"}')
    assert read_claim(path).record == RunRecord(run_id="short", query="q")
    claim.release(clear=True)


def test_a_process_start_is_never_that_of_another_process() -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    first = read_process_start(other.pid)
    assert first
    assert first != read_process_start(os.getpid())
    other.communicate(b"\n")
    assert read_process_start(other.pid) == ""


NOBODY = 65534
LOCK_IT = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)"
READ_IT = "import sys; open(sys.argv[1], 'rb').read(1)"
LIST_IT = "import os, sys; os.listdir(os.path.dirname(sys.argv[1]))"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of this machine may enter, as a root under /data is; pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="surestart-claims-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody(script: str, path: Path) -> str:
    """The last line on stderr of what another user of this machine tries; "" when it succeeded."""
    python = "/usr/bin/python3"
    tried = subprocess.run([python, "-c", script, path], user=NOBODY, group=NOBODY, capture_output=True, text=True)
    return tried.stderr.strip().rpartition("\n")[2]


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/usr/bin/python3").exists(), reason="only root can be another user")
@pytest.mark.parametrize("former", [None, 0o644], ids=["new", "left by an earlier version"])
def test_no_other_user_of_the_machine_reads_or_locks_a_claim(open_folder: Path, former: int | None) -> None:
    path = open_folder / "claims" / "q.lock"
    if former is not None:
        path.parent.mkdir(mode=0o755)
        path.touch()
        path.chmod(former)
        assert as_nobody(LOCK_IT, path) == ""

    claim = take_claim(path)

    assert claim is not None
    claim.write(RunRecord(run_id="r", query="q"))
    assert [stat.S_IMODE(there.stat().st_mode) for there in (path.parent, path)] == [0o700, 0o600]
    for script in (READ_IT, LOCK_IT, LIST_IT):
        assert "PermissionError" in as_nobody(script, path)
    claim.release(clear=True)


def test_a_claim_that_may_not_be_read_is_not_an_absent_one(tmp_path: Path) -> None:
    """Whoever cannot read it does not know whether the query runs. A folder in its place is what root cannot read."""
    path = tmp_path / "q.lock"
    assert read_claim(path).record is None
    path.mkdir()
    with pytest.raises(CannotTell) as unread:
        read_claim(path)
    assert unread.value.code == "CLAIM_UNREADABLE"
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(CannotTell):
        read_claim(path)


def test_a_claim_of_gigabytes_is_not_read_into_memory(tmp_path: Path) -> None:
    with (tmp_path / "q.lock").open("wb") as file:
        file.truncate(1 << 30)
    tracemalloc.start()
    assert read_claim(tmp_path / "q.lock").torn
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


def test_a_beat_is_seen_by_the_clock_of_the_file_system(tmp_path: Path) -> None:
    path = tmp_path / "q.lock"
    claim = take_claim(path)
    assert claim is not None
    claim.write(RunRecord(run_id="r", query="q"), beats=True)
    assert read_claim(path).beats
    hour = 3_600_000
    long_ago = time.time_ns() - hour * 1_000_000
    os.utime(path, ns=(long_ago, long_ago))
    assert hour <= claim.silent_for() < 2 * hour
    # Asking has touched it; a beat does, and one right behind it is none.
    os.utime(path, ns=(long_ago, long_ago))
    claim.beat()
    assert claim.silent_for() < hour
    os.utime(path, ns=(long_ago, long_ago))
    claim.beat()
    assert claim.silent_for() >= hour
    claim.release(clear=True)
