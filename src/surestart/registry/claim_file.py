"""The claim on a query where its drivers share a file system: a file that the running driver holds locked.

    <root>/claims/<query>.lock     {"record": the run as it started, "former": runs that died before it}

The kernel keeps the lock (flock) and drops it with the process, however it dies: two starts within a microsecond give
one owner, kill -9 leaves no owner, and a file without a lock that has content is a run that did not end by itself. It
lies beside the tables and not in the checkpoint, where only Spark writes.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surestart.environment import Environment
from surestart.registry.run_record import RunRecord, read_record

_LIMIT = 8 << 20
# Starts that die one after the other: the newest of them are kept for the history.
_FORMER = 20


@dataclass(frozen=True)
class ClaimContent:
    """record None: nobody has claimed the query, or what was written cannot be read."""

    record: RunRecord | None = None
    former: tuple[RunRecord, ...] = ()


class HeldClaim:
    """The lock is held from here until `release` or the end of the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def read(self) -> ClaimContent:
        return _parse(os.pread(self._descriptor, _LIMIT, 0))

    def write(self, record: RunRecord | None, former: Sequence[RunRecord] = ()) -> None:
        """Overwritten in one call, then cut: a reader in between parses the first JSON value and ignores the rest."""
        content = {"record": record.as_note() if record else {}, "former": [one.as_note() for one in former][-_FORMER:]}
        data = json.dumps(content).encode()
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))

    def is_current(self) -> bool:
        """False when somebody has put another file in this one's place (a takeover of a paused owner)."""
        return _is_same(self.path, self._descriptor)

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
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
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


def read_claim(path: Path) -> ClaimContent:
    try:
        return _parse(path.read_bytes()[:_LIMIT])
    except OSError:
        return ClaimContent()


def _parse(data: bytes) -> ClaimContent:
    try:
        content, _ = json.JSONDecoder().raw_decode(data.decode("utf-8", errors="replace"))
        record = read_record(content["record"])
        former = tuple(one for item in content.get("former", ()) if (one := read_record(item)) is not None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ClaimContent()
    return ClaimContent(record, former)


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        there, held = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)
