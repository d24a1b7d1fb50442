"""One listing of `_delta_log`, sorted into commits and complete checkpoints.

    00000000000000000012.json                                     commit 12
    00000000000000000010.checkpoint.parquet                       checkpoint, one file (classic name, V1 or V2 content)
    00000000000000000010.checkpoint.0000000001.0000000003.parquet part 1 of 3
    00000000000000000010.checkpoint.<uuid>.json|parquet           V2 checkpoint, files listed in _sidecars/
    _last_checkpoint                                              a hint; the listing says the same and is never stale,
                                                                  so a torn one is passed over, as Delta does
    _staged_commits/00000000000000000013.<uuid>.json              Delta makes the folder for every table; what counts in
                                                                  it only the catalog of a catalog-managed table knows

A listing is an answer like any other: it may be cut off. So the commit behind its newest one is looked for by name, and
of each file as many bytes are wanted as the listing gives it. And whatever names a version, the hint too, shows that
the log once went that far: where it ends before that, Delta would go on from an older table, and say nothing.

The layout is Delta's PROTOCOL.md. Other names (.crc, .compacted.json, .tmp) carry nothing that the commits do not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property

from surestart.errors import CannotTell
from surestart.facts.delta.actions import damaged, integer, log_unreadable
from surestart.facts.storage.read_budget import BoundedStorage, bounded
from surestart.facts.storage.storage import Storage
from surestart.typed import surestart, typed

_COMMIT = re.compile(r"([0-9]{20})\.json")
_SINGLE = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_PART = re.compile(r"([0-9]{20})\.checkpoint\.([0-9]{10})\.([0-9]{10})\.parquet")
_UUID = re.compile(r"([0-9]{20})\.checkpoint\.[0-9a-fA-F-]{8,64}\.(?:json|parquet)")
_STAGED = re.compile(r"([0-9]{20})\.[0-9a-fA-F-]{8,64}\.json")
# What is written once its version is committed, whether or not it is whole.
_NAMED = re.compile(r"(?:[0-9]{20}\.)?([0-9]{20})\.(?:json|crc|compacted\.json|checkpoint\..*)")
STAGED = "_staged_commits"


@dataclass(frozen=True)
class DeltaCheckpoint:
    """One complete checkpoint of the log: every file that is needed to read it."""

    version: int
    names: tuple[str, ...]
    sizes: tuple[int, ...] = ()  # -1 where the storage does not say


@dataclass(frozen=True)
class LogListing:
    commits: dict[int, int] = field(default_factory=dict)  # version -> size of its file
    checkpoints: tuple[DeltaCheckpoint, ...] = ()  # newest first
    staged: int = -1  # the highest version that was handed to a catalog under a name of its own
    named: int = -1  # the highest version of which any name speaks
    hint_size: int | None = None

    @cached_property
    def latest(self) -> int:
        newest_checkpoint = self.checkpoints[0].version if self.checkpoints else -1
        return max(max(self.commits, default=-1), newest_checkpoint)

    @cached_property
    def earliest_commit(self) -> int:
        """The oldest commit of the unbroken run that ends at the latest version; latest + 1 when there is none."""
        return self.unbroken_to(self.latest)

    def unbroken_to(self, version: int) -> int:
        """The oldest commit of the unbroken run that ends at that version; version + 1 when it is not there."""
        while version in self.commits:
            version -= 1
        return version + 1

    @cached_property
    def earliest_version(self) -> int:
        """The oldest version whose whole state can be rebuilt from what is still there."""
        first = self.earliest_commit
        if first == 0:
            return 0
        reachable = [checkpoint.version for checkpoint in self.checkpoints if checkpoint.version >= first - 1]
        return min(reachable, default=self.latest + 1)


LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
# With the transactions that it may repeat; a longer one is passed over.
HINT = 1 << 20
_HINTED = re.compile(rb'\s*\{\s*"version"\s*:\s*([0-9]{1,18})\s*[,}]')


def commit_name(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def read_listing(files: Storage, *, again: bool = False) -> LogListing:
    """Everything that later reads need, from one listing and a look behind its end; of one look at a table once, unless
    asked for again."""
    remembered = files.remembered if isinstance(files, BoundedStorage) else {}
    if again or "_delta_log" not in remembered:
        remembered["_delta_log"] = _read_listing(bounded(files))
    found: LogListing = remembered["_delta_log"]
    return found


def _read_listing(files: BoundedStorage) -> LogListing:
    listing = _list(files)
    hinted = _read_hint(files, listing)
    ahead = listing is not None and _is_there(files, commit_name(listing.latest + 1))
    if listing is None and hinted is None and not _is_there(files, commit_name(0)):
        raise _no_log(files.location)
    if listing is not None and not ahead and _reaches(listing, hinted):
        return listing
    # Written in this very moment, or left out of the listing: the next one has it.
    again = _list(files)
    if again is None or (listing is not None and ahead and again.latest <= listing.latest):
        raise damaged(
            f"{files.location}/_delta_log", "was listed incompletely: there is a commit that the listing lacks"
        )
    if not _reaches(again, hinted):
        named = max(again.named, -1 if hinted is None else hinted)
        raise damaged(
            f"{files.location}/_delta_log",
            f"names version {named} and has no commit and no whole checkpoint after {again.latest}",
        )
    return again


def _reaches(listing: LogListing, hinted: int | None) -> bool:
    """Whether it goes as far as anything in the log says. The newest of a catalog's commits lie elsewhere."""
    return max(listing.named, -1 if hinted is None else hinted) <= max(listing.latest, listing.staged)


def _read_hint(files: Storage, listing: LogListing | None) -> int | None:
    """The version that the hint names; -1 for a torn one, None where there is none."""
    try:
        data = files.read_file(LAST_CHECKPOINT, HINT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise log_unreadable(files.location, error) from error
    try:
        hint = json.loads(data) if data.count(b"[") + data.count(b"{") < 10_000 else None
    except (ValueError, RecursionError):
        hint = None
    if isinstance(hint, dict):
        found = integer(hint.get("version"))
        return -1 if found is None else found
    if listing is not None and len(data) < min(listing.hint_size or 0, HINT):
        short = OSError(f"{LAST_CHECKPOINT} gave {len(data):,} bytes of {listing.hint_size:,}")
        raise log_unreadable(files.location, short)
    begun = _HINTED.match(data)
    return int(begun[1]) if begun else -1


def _counts(name: str) -> bool:
    return name.endswith((".json", ".parquet")) or name in (STAGED, "_last_checkpoint")


def _list(files: BoundedStorage) -> LogListing | None:
    """None when the listing has no commit and no checkpoint."""
    commits: dict[int, int] = {}
    whole: list[DeltaCheckpoint] = []
    parts: dict[tuple[int, int], dict[int, str]] = {}
    staged = named = -1
    hint_size = None

    def counts(name: str) -> bool:
        nonlocal named
        if match := _NAMED.fullmatch(name):
            named = max(named, int(match[1]))
        return _counts(name)

    try:
        for entry in files.list_matching("_delta_log", counts):
            name, size = entry.name, entry.size
            if match := _COMMIT.fullmatch(name):
                commits[int(match[1])] = -1 if size is None else size
            elif (match := _SINGLE.fullmatch(name)) or (match := _UUID.fullmatch(name)):
                whole.append(DeltaCheckpoint(int(match[1]), (f"_delta_log/{name}",), (-1 if size is None else size,)))
            elif match := _PART.fullmatch(name):
                parts.setdefault((int(match[1]), int(match[3])), {})[int(match[2])] = f"_delta_log/{name}"
            elif name == STAGED:
                staged = _newest_staged(files)
            elif name == "_last_checkpoint":
                hint_size = size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise log_unreadable(files.location, error) from error
    if not commits and not whole and not parts:
        if staged >= 0:
            raise _in_the_catalog(files.location, staged)
        return None
    for (version, total), found in parts.items():
        # A missing part is a missing share of the transactions: such a checkpoint is no checkpoint.
        if len(found) == total and set(found) == set(range(1, total + 1)):
            whole.append(DeltaCheckpoint(version, tuple(found[index] for index in sorted(found))))
    whole.sort(key=lambda checkpoint: checkpoint.version, reverse=True)
    return LogListing(commits, tuple(whole), staged, named, hint_size)


def _newest_staged(files: Storage) -> int:
    """The highest staged version. The names come in no order, so all of them are looked at."""
    names = (entry.name for entry in files.list_folder(f"_delta_log/{STAGED}"))
    return max((int(match[1]) for name in names if (match := _STAGED.fullmatch(name))), default=-1)


def _is_there(files: Storage, name: str) -> bool:
    try:
        files.read_file(name, 1)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise log_unreadable(files.location, error) from error
    return True


def _in_the_catalog(location: str, staged: int) -> CannotTell:
    return CannotTell(
        f"{location} holds its commits in _staged_commits, up to version {staged} at least: its catalog manages them",
        meaning="Which of them count only the catalog knows; read by path, the table looks empty.",
        next=surestart("doctor", note="through a session that knows the catalog"),
        do_not="treat it as an empty table.",
        code="DeltaLogInCatalog",
    )


class NoDeltaLog(CannotTell):
    """There is no Delta table at that place: never written, or moved away, or the wrong path."""


def _no_log(location: str) -> NoDeltaLog:
    return NoDeltaLog(
        f"{location} has no _delta_log",
        meaning="No Delta table is there: it was never written, was moved or dropped, or the path is another one.",
        next=typed("ls", location),
        do_not="treat a missing table as an empty one before the path is checked.",
        code="NoDeltaLog",
    )
