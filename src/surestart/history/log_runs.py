"""The runs that decide, from the log of a `surestart_runs` on this machine's disks, at the cost of its newest commits.

    <table>/_surestart_runs.json    what decides of commits 0..N, the runs as notes, and the SHA-256 of commit N
    <table>/_delta_log/N+1.json …   read on top, by their numbers: commits have no gaps, and nothing is listed

The summary is derived, and only ever saves reading: where it is missing, torn, or commit N is not the one that it was
made of, the whole log is read. Whoever claims a query (a start, a remedy) makes it anew when the log has grown by FOLD
commits; readers never write it.

Of all runs of a query those that a later start is judged by: few, however many there were.

    every remedy, and of the runs before it, after it, and between any two
        the newest, and the newest that had started, that has committed a batch, that names its sources
    of each folder, and of each query id, the newest run
    the newest claim

An undo takes back a remedy and the runs since: therefore something is kept from before each. Values in, values out; a
property test holds what the gate finds in these against what it finds in all of them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surestart.errors import CannotTell
from surestart.facts.delta.actions import damaged, read_actions
from surestart.facts.delta.listing import LAST_CHECKPOINT, commit_name, read_listing
from surestart.facts.delta.pinned import read_table_rows
from surestart.facts.storage.open_storage import open_storage, open_unbounded
from surestart.facts.storage.read_budget import bounded
from surestart.facts.storage.storage import Storage
from surestart.history.run_record import REMEDY, RunRecord, merge_events, read_note, read_record

FOLD = 100
SUMMARY = "_surestart_runs.json"
_AT_ONCE = 5_000
_COMMIT_BYTES = 64 << 20
_JSON_BYTES = 16 << 20
# What reading a file of JSON raises where there is none, or another one than was written.
_NO_CONTENT = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class LogRuns:
    """runs: those that decide, oldest first.
    newest: the log's newest version, -1 for no table.
    behind: how many commits were read beside the summary."""

    runs: tuple[RunRecord, ...] = ()
    newest: int = -1
    behind: int = 0


def read_log_runs(table: str, files: Storage | None = None) -> LogRuns:
    """Of every query of the table. Raises CannotTell when there is a log and it cannot be read whole, nor within one
    look's budget where no summary shortens it. files: a storage without that budget."""
    files = files or bounded(open_storage(table))
    summed = _read_summary(files)
    if summed is not None:
        found, newest = _read_from(files, summed.newest + 1)
        # Delta has made a checkpoint of later commits: then what was taken for the end is a hole.
        if newest >= _read_version(files, LAST_CHECKPOINT, -1):
            return LogRuns(deciding_runs([*summed.runs, *found]), newest, newest - summed.newest)
    return _read_whole(table, files)


def read_recent_runs(table: str, newest: int, commits: int) -> list[RunRecord]:
    """Of the newest commits, for people to look at."""
    files = open_storage(table)
    versions = range(max(newest - commits + 1, 0), newest + 1)
    return [run for version in versions for run in _read_commit(files, version) or ()]


def fold_log_runs(table: str) -> None:
    """The summary is not much older than the log. Nothing depends on it, so whatever prevents it is passed over."""
    with contextlib.suppress(OSError, CannotTell):
        if not _has_grown(Path(table)):
            return
        # Without a budget: a log of 28,000 commits whose summary is lost could else never get one again.
        files = open_unbounded(table)
        there = read_log_runs(table, files)
        if there.behind < FOLD:
            return
        content = {
            "version": there.newest,
            "sha256": _hash_of(files, there.newest),
            "runs": [run.as_note() for run in there.runs],
        }
        draft = Path(table) / f"{SUMMARY}.{os.getpid()}"
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(Path(table) / SUMMARY)


def _has_grown(table: Path) -> bool:
    """Without reading a commit: whether there is one that lies so far behind the summary, or behind the first."""
    log = table / "_delta_log"
    summed = _read_version(open_storage(str(table)), SUMMARY, 0)
    kept = (log / Path(commit_name(summed)).name).exists()
    return not kept or (log / Path(commit_name(summed + FOLD)).name).exists()


def _read_summary(files: Storage) -> LogRuns | None:
    """None: there is none, or it is not one of this log."""
    try:
        content = _read_json(files, SUMMARY)
        version, runs = int(content["version"]), [read_record(run) for run in content["runs"]]
        if _hash_of(files, version) != content["sha256"]:
            return None
    except (CannotTell, AttributeError, *_NO_CONTENT):
        return None
    return None if None in runs else LogRuns(tuple(run for run in runs if run is not None), version)


def _read_whole(table: str, files: Storage) -> LogRuns:
    listing = read_listing(files)
    former: list[RunRecord] = []
    if listing.earliest_commit > 0:
        # Older commits are gone from the log; their rows are in the table.
        former = [record for row in read_table_rows(table) if (record := read_record(row)) is not None]
    found, newest = _read_from(files, listing.earliest_commit)
    if newest < listing.latest:
        raise damaged(f"{table}/_delta_log", f"lacks commit {newest + 1}")
    return LogRuns(deciding_runs([*former, *found]), newest, newest + 1)


def _read_from(files: Storage, version: int) -> tuple[list[RunRecord], int]:
    """The runs of this commit and all that follow, and the number of the newest. What decides is picked on the way: the
    runs of a hundred thousand commits are not held in memory."""
    found: list[RunRecord] = []
    while (notes := _read_commit(files, version)) is not None:
        found += notes
        version += 1
        if len(found) > _AT_ONCE:
            found = list(deciding_runs(found))
    return found, version - 1


def _read_commit(files: Storage, version: int) -> list[RunRecord] | None:
    try:
        infos = [info for _, info in read_actions(files, commit_name(version), ("commitInfo",))]
    except FileNotFoundError:
        return None
    notes = [info.get("userMetadata") for info in infos]
    return [run for note in notes if isinstance(note, str) for run in read_note(note)]


def _hash_of(files: Storage, version: int) -> str:
    return hashlib.sha256(files.read_file(commit_name(version), _COMMIT_BYTES)).hexdigest()


def _read_version(files: Storage, name: str, absent: int) -> int:
    try:
        return int(_read_json(files, name)["version"])
    except _NO_CONTENT:
        return absent


def _read_json(files: Storage, name: str) -> Any:
    """Of a file no larger than it may be: whoever may write there could put a pipe or gigabytes in its place."""
    data = files.read_file(name, _JSON_BYTES + 1)
    if len(data) > _JSON_BYTES or data.count(b"[") + data.count(b"{") > len(data) // 20 + 100:
        raise ValueError(f"{name} is not what was written there")
    return json.loads(data)


# Behind so many later remedies nobody undoes one; so many folders and query ids are remembered.
REMEMBERED = 50


def deciding_runs(runs: Iterable[RunRecord]) -> tuple[RunRecord, ...]:
    """One record per run that decides, of every query, in the order in which they started."""
    merged = merge_events(runs)
    queries: dict[tuple[str, str], list[RunRecord]] = {}
    for run in merged:
        queries.setdefault((run.environment, run.query), []).append(run)
    kept = {run.run_id for own in queries.values() for run in _decide(own)}
    return tuple(run for run in merged if run.run_id in kept)


def _decide(own: Sequence[RunRecord]) -> Iterator[RunRecord]:
    remedies = [index for index, run in enumerate(own) if run.event == REMEDY][-REMEMBERED:]
    yield from (own[index] for index in remedies)
    for first, last in zip([0, *remedies], [*remedies, len(own)], strict=True):
        segment = [run for run in own[first:last] if run.event != REMEDY]
        started = [run for run in segment if run.query_id]
        yield from (*segment[-1:], *started[-1:])
        for some in (started, segment):
            yield from [run for run in some if run.last_batch is not None][-1:]
        # Each source by its newest run: not every run could ask for the id.
        yield from {name: run for run in segment for name in run.sources}.values()
    yield from _newest_of_each(own, lambda run: run.place)
    yield from _newest_of_each(own, lambda run: run.query_id)
    yield from sorted(own, key=lambda run: run.epoch or 0)[-1:]


def _newest_of_each(own: Sequence[RunRecord], key: Callable[[RunRecord], str]) -> list[RunRecord]:
    found: dict[str, RunRecord] = {}
    for run in reversed(own):
        found.setdefault(key(run), run)
    return list(found.values())[:REMEMBERED]
