"""One listing of `_delta_log`, sorted into commits and complete checkpoints.

    00000000000000000012.json                                     commit 12
    00000000000000000010.checkpoint.parquet                       checkpoint, one file (classic name, V1 or V2 content)
    00000000000000000010.checkpoint.0000000001.0000000003.parquet part 1 of 3
    00000000000000000010.checkpoint.<uuid>.json|parquet           V2 checkpoint, files listed in _sidecars/
    _last_checkpoint                                              a hint; the listing says the same and is never stale
    _staged_commits/                                              Delta makes the folder for every table; what counts in
                                                                  it only the catalog of a catalog-managed table knows

The layout is Delta's PROTOCOL.md. Other names (.crc, .compacted.json, .tmp) carry nothing that the commits do not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from surestart.checkpoint.storage import Storage
from surestart.deltalog.actions import damaged
from surestart.errors import CannotTell

MAX_ENTRIES = 2_000_000
MAX_FILE = 1 << 30
_COMMIT = re.compile(r"(\d{20})\.json")
_SINGLE = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_UUID = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{8,64}\.(?:json|parquet)")


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint of the log: every file that is needed to read it."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    commits: dict[int, int] = field(default_factory=dict)  # version -> size of its file
    checkpoints: tuple[Checkpoint, ...] = ()  # newest first

    @cached_property
    def latest(self) -> int:
        newest_checkpoint = self.checkpoints[0].version if self.checkpoints else -1
        return max(max(self.commits, default=-1), newest_checkpoint)

    @cached_property
    def earliest_commit(self) -> int:
        """The oldest commit of the unbroken run that ends at the latest version; latest + 1 when there is none."""
        version = self.latest
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


def commit_name(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def read_listing(files: Storage) -> Listing:
    """Everything that later reads need, from one listing call."""
    commits: dict[int, int] = {}
    whole: list[Checkpoint] = []
    parts: dict[tuple[int, int], dict[int, str]] = {}
    try:
        for count, entry in enumerate(files.list_folder("_delta_log")):
            name, size = entry.name, entry.size
            if count > MAX_ENTRIES:
                raise CannotTell(
                    f"{files.location}/_delta_log holds more than {MAX_ENTRIES:,} files",
                    meaning="That is not a log that Delta maintains; reading on would only use up memory.",
                    next=f"ls -f {files.location}/_delta_log | head",
                    code="DeltaLogTooLarge",
                )
            if match := _COMMIT.fullmatch(name):
                commits[int(match[1])] = size or 0
            elif (match := _SINGLE.fullmatch(name)) or (match := _UUID.fullmatch(name)):
                whole.append(Checkpoint(int(match[1]), (f"_delta_log/{name}",)))
            elif match := _PART.fullmatch(name):
                parts.setdefault((int(match[1]), int(match[3])), {})[int(match[2])] = f"_delta_log/{name}"
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_log(files.location) from error
    except OSError as error:
        raise unreadable(files.location, error) from error
    if not commits and not whole and not parts:
        raise _no_log(files.location)
    for (version, total), found in parts.items():
        # A missing part is a missing share of the transactions: such a checkpoint is no checkpoint.
        if len(found) == total and set(found) == set(range(1, total + 1)):
            whole.append(Checkpoint(version, tuple(found[index] for index in sorted(found))))
    whole.sort(key=lambda checkpoint: checkpoint.version, reverse=True)
    return Listing(commits, tuple(whole))


class NoDeltaLog(CannotTell):
    """There is no Delta table at that place: never written, or moved away, or the wrong path."""


def _no_log(location: str) -> NoDeltaLog:
    return NoDeltaLog(
        f"{location} has no _delta_log",
        meaning="No Delta table is there: it was never written, was moved or dropped, or the path is another one.",
        next=f"ls {location}",
        do_not="take a missing table for an empty one before the path is checked.",
        code="NoDeltaLog",
    )


def unreadable(location: str, error: OSError) -> CannotTell:
    return CannotTell(
        f"{location}/_delta_log cannot be read: {error}",
        meaning="The table may be intact; nothing about it is known from here.",
        next=f"ls -l {location}/_delta_log",
        do_not="take an unreadable table for an empty one.",
        code="DeltaLogUnreadable",
    )


def read_file(files: Storage, name: str) -> bytes:
    """The whole file. Raises FileNotFoundError when it is gone, CannotTell when it cannot be read."""
    try:
        content = files.read_file(name, MAX_FILE + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(files.location, error) from error
    if len(content) > MAX_FILE:
        raise damaged(f"{files.location}/{name}", f"is larger than {MAX_FILE:,} bytes")
    return content
