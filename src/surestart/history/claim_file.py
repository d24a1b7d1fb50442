"""The claim on a query where its drivers share a file system: a file that the running driver holds locked.

    <root>/claims/<query>.lock     {"record": the run as it started, "former": runs that died before it}

The kernel keeps the lock (flock) and drops it with the process, however it dies: two starts within a microsecond give
one owner, kill -9 leaves no owner, and a file without a lock that has content is a run that did not end by itself. It
lies beside the tables and not in the checkpoint, where only Spark writes. File and folder are their owner's alone:
whoever else could open the file could hold its lock, and no stage would start.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surestart.environment import Environment
from surestart.errors import CannotTell
from surestart.facts.storage.open_storage import LocalStorage
from surestart.history.run_record import RunRecord, read_record
from surestart.typed import typed

# Whether the last owner lives is not known: a person looks, and accepts a start by this code.
OWNER_UNKNOWN = "OWNER_UNKNOWN"
_LIMIT = 8 << 20
# A live owner says so as often; the runner asks five times a second.
BEAT_SECONDS = 30
# Starts that die one after the other: the newest of them are kept for the history.
_FORMER = 20


@dataclass(frozen=True)
class ClaimContent:
    """record None: nobody has claimed the query, or what was written cannot be read.
    beats: whoever holds it touches the file every BEAT_SECONDS.
    torn: something was written, and a crash or a full disk has left no whole of it."""

    record: RunRecord | None = None
    former: tuple[RunRecord, ...] = ()
    beats: bool = False
    torn: bool = False


class HeldClaim:
    """The lock is held from here until `release` or the end of the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._beat_at = 0.0

    def read(self) -> ClaimContent:
        return _parse(os.pread(self._descriptor, _LIMIT, 0))

    def write(self, record: RunRecord | None, former: Sequence[RunRecord] = (), *, beats: bool = False) -> None:
        """Overwritten in one call, then cut: a reader in between parses the first JSON value and ignores the rest.
        beats: the writer promises to call `beat` from now on."""
        content = {
            "record": record.as_note() if record else {},
            "former": [one.as_note() for one in former][-_FORMER:],
            "beats": beats,
        }
        data = json.dumps(content).encode()
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))

    def forget(self) -> None:
        """Nothing is claimed in it any more."""
        os.ftruncate(self._descriptor, 0)

    def beat(self) -> None:
        """The file's time is now, by the clock of its file system. Costs nothing when it was so a moment ago."""
        if time.monotonic() - self._beat_at >= BEAT_SECONDS:
            self._beat_at = time.monotonic()
            with contextlib.suppress(OSError):
                # A beat that is missed makes the owner look silent for a while, and no row is at stake.
                os.utime(self._descriptor)

    def is_current(self) -> bool:
        """False when somebody has put another file in this one's place (a takeover of a paused owner)."""
        return _is_same(self.path, self._descriptor)

    def silent_for(self) -> int:
        """Milliseconds since the file was last touched, both times by the clock of its file system: this machine's own
        may be another. For whoever has just taken the claim: it is touched by this."""
        before = os.fstat(self._descriptor).st_mtime_ns
        os.utime(self._descriptor)
        return (os.fstat(self._descriptor).st_mtime_ns - before) // 1_000_000

    def release(self, *, clear: bool) -> None:
        """clear: the run has ended and is in the history. Otherwise what the file says of a dead run stays."""
        with contextlib.suppress(FileNotFoundError):
            if clear and self.is_current():
                self.path.unlink()
        os.close(self._descriptor)


def claims_folder(environment: Environment) -> Path | None:
    """None where file locks do not reach: catalogs, object stores, and the mounts that Databricks makes of them."""
    root = environment.root
    if not root or "://" in root or root.startswith(("/Volumes/", "/dbfs/", "/Workspace/")):
        return None
    return Path(root) / "claims"


def take_claim(path: Path) -> HeldClaim | None:
    """The claim, or None while another process holds it."""
    # Not at the top: the doctor reads claims on systems that have no flock.
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    _keep_private(path.parent)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with contextlib.suppress(PermissionError):
                # A file system without modes, such as a Windows share, refuses; its own rules hold there.
                os.fchmod(descriptor, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        # The former owner removes the file when it ends: a lock on a removed file excludes nobody.
        if _is_same(path, descriptor):
            return HeldClaim(path, descriptor)
        os.close(descriptor)


def seize_claim(path: Path, run_id: str) -> HeldClaim | None:
    """The claim of that run, whose process is alive and does nothing (SIGSTOP), by putting a new locked file in its
    place. None when the claim is another's by now."""
    alone = take_claim(path.with_name(f"{path.name}.seizing"))
    if alone is None:
        return None
    try:
        content = read_claim(path)
        if content.record is None or content.record.run_id != run_id:
            return None
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        held = take_claim(fresh)
        if held is None:
            return None
        held.write(content.record, content.former)
        fresh.replace(path)
        held.path = path
        return held
    finally:
        alone.release(clear=True)


def read_claim(path: Path, size: int = 0) -> ClaimContent:
    """What is claimed; nothing when there is no such file. Raises CannotTell for one that may not be read. size: as its
    folder's listing says."""
    try:
        data = LocalStorage(str(path.parent)).read_file(path.name, _LIMIT)
    except FileNotFoundError:
        return ClaimContent()
    except OSError as problem:
        raise _unreadable(path, problem) from problem
    # One that is given up is removed, not emptied.
    return _parse(data) if data or not size else ClaimContent(torn=True)


def _unreadable(path: Path, problem: OSError) -> CannotTell:
    return CannotTell(
        f"{path} cannot be read: {problem.strerror or problem}",
        meaning="Its claim says who runs a query, and only the user who runs the stages may open it: whether it "
        "runs, and whether a run has died, is not known.",
        next=typed("ls", "-ld", path),
        do_not="treat this as a query that nobody runs.",
        code="CLAIM_UNREADABLE",
    )


def _keep_private(folder: Path) -> None:
    """Nobody but its owner may enter the folder. One that an earlier version or root has made may be open: it stays
    so."""
    there = folder.stat()
    if there.st_uid == os.geteuid() and there.st_mode & 0o077:
        with contextlib.suppress(PermissionError):
            folder.chmod(0o700)


def _parse(data: bytes) -> ClaimContent:
    try:
        content, _ = json.JSONDecoder().raw_decode(data.decode("utf-8", errors="replace"))
        record = read_record(content["record"])
        former = tuple(one for item in content.get("former", ()) if (one := read_record(item)) is not None)
        beats = content.get("beats") is True
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ClaimContent(torn=bool(data.strip()))
    return ClaimContent(record, former, beats, torn=record is None and bool(content["record"]))


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        there, held = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)
