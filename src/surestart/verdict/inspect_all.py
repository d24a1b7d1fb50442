"""Every checkpoint under a root, judged one by one; two processes on a local disk, a few threads over a network.

Each is judged by the same evidence as `inspect` judges it by: a verdict does not depend on how many were asked about.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial

from surestart.errors import CannotTell, SurestartError
from surestart.facts.checkpoint.find_checkpoints import FoundPlace, find_checkpoints
from surestart.facts.storage.open_storage import open_unbounded
from surestart.facts.storage.storage import FolderStorage, Storage
from surestart.spark.spark_lines import DEFAULT
from surestart.typed import surestart
from surestart.verdict.fleet_row import FleetRow, row_not_looked_at, row_of
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Finding, Severity
from surestart.words.inert import inert

# With fewer checkpoints, starting a process takes longer than it saves.
WORTH_A_PROCESS = 60
AT_ONCE = 20
NETWORK_THREADS = 8
Say = Callable[[str], object]


@dataclass(frozen=True)
class FleetQuestion:
    """How each checkpoint is judged: with these sinks (`none`, or nothing said), on this line of Spark."""

    sinks: tuple[str, ...] = ()
    spark: str = DEFAULT


def inspect_all(
    root: str,
    asked: FleetQuestion,
    *,
    storage: Storage | None = None,
    say: Say = lambda line: None,
    processes: int = 0,
) -> list[FleetRow]:
    """A row for each checkpoint and for each place that could not be looked into, the worst first. say: hears how far
    it is. Raises CannotTell for a root that cannot be listed. Writes nothing."""
    storage = storage or open_unbounded(root)
    places = _find(root, storage, say)
    checkpoints = [place for place in places if not place.problem]
    rows = [_not_searched(_name(one), _location(storage, one), one.problem) for one in places if one.problem]
    for row in _judge(storage, checkpoints, asked, processes or os.cpu_count() or 1):
        rows.append(row)
        say(f"{len(rows):,} of {len(places):,} checkpoints read")
    return sorted(_with_neighbours(storage, rows, checkpoints), key=lambda row: row.order)


def _find(root: str, storage: Storage, say: Say) -> list[FoundPlace]:
    found: list[FoundPlace] = []
    folders = checkpoints = 0

    def heard() -> None:
        nonlocal folders
        folders += 1
        say(f"{folders:,} folders, {checkpoints:,} checkpoints so far")

    try:
        for place in find_checkpoints(storage, heard=heard):
            found.append(place)
            checkpoints += not place.problem
    except OSError as error:
        raise CannotTell(
            f"{inert(root)} cannot be listed: {type(error).__name__}: {inert(str(error))}",
            meaning="Which checkpoints are there is not known; none was judged.",
            next=surestart("inspect", "--all", root, note="once the folder is there and may be read"),
            do_not="treat it as a root without streams.",
            code="RootNotListed",
        ) from error
    return found


def _judge(storage: Storage, places: Sequence[FoundPlace], asked: FleetQuestion, processes: int) -> Iterator[FleetRow]:
    local = storage.kind == "local"
    if local and (len(places) < WORTH_A_PROCESS or processes < 2):
        for place in places:
            yield judge_local(asked, _name(place), _location(storage, place))
    elif local:
        # Spawned, not forked: a fork in a process with threads may hang, and a notebook has many.
        from multiprocessing import get_context

        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            yield from _in_parts(pool, storage, places, partial(_judge_part, asked))
    else:
        with ThreadPoolExecutor(NETWORK_THREADS) as pool:
            judge = partial(_judge_remote, storage, asked)
            yield from pool.map(judge, places)


def _in_parts(
    pool: Executor,
    storage: Storage,
    places: Sequence[FoundPlace],
    judge: Callable[[list[tuple[str, str]]], list[FleetRow]],
) -> Iterator[FleetRow]:
    parts = [places[at : at + AT_ONCE] for at in range(0, len(places), AT_ONCE)]
    named = [[(_name(place), _location(storage, place)) for place in part] for part in parts]
    waiting: list[Future[list[FleetRow]]] = [pool.submit(judge, part) for part in named]
    for part, future in zip(named, waiting, strict=True):
        try:
            yield from future.result()
        except BrokenProcessPool:
            # The process has died, for want of memory for example. Each checkpoint of its share is shown as not read.
            yield from (row_not_looked_at(*one, "the process that read it was ended") for one in part)


def _judge_part(asked: FleetQuestion, part: Iterable[tuple[str, str]]) -> list[FleetRow]:
    return [judge_local(asked, name, location) for name, location in part]


def judge_local(asked: FleetQuestion, name: str, location: str) -> FleetRow:
    return _row(asked, name, location, None)


def _judge_remote(storage: Storage, asked: FleetQuestion, place: FoundPlace) -> FleetRow:
    return _row(asked, _name(place), _location(storage, place), FolderStorage(storage, place.path))


def _row(asked: FleetQuestion, name: str, location: str, storage: Storage | None) -> FleetRow:
    try:
        return row_of(name, inspect_checkpoint(location, sinks=asked.sinks, spark=asked.spark, storage=storage))
    except SurestartError as error:
        return row_not_looked_at(name, location, error.what, error.next)
    except (OSError, RecursionError, MemoryError) as error:
        return row_not_looked_at(name, location, f"{type(error).__name__}: {error}")


def _not_searched(name: str, location: str, problem: str) -> FleetRow:
    """A folder, and not a checkpoint that could not be read: what may be below it is searched for, too."""
    again = surestart("inspect", "--all", location, note="if streams of yours are there, as somebody who may read it")
    return row_not_looked_at(name, location, problem, again)


def _name(place: FoundPlace) -> str:
    return place.path or "."


def _location(storage: Storage, place: FoundPlace) -> str:
    return FolderStorage(storage, place.path).location


def _with_neighbours(storage: Storage, rows: list[FleetRow], places: Sequence[FoundPlace]) -> Iterator[FleetRow]:
    """The rows with what only all of them together show: copies of one query, and checkpoints inside another one."""
    by_id = defaultdict(list)
    for row in rows:
        if row.query_id:
            by_id[row.query_id].append(row.location)
    inside = {_location(storage, one): one.inside for one in places if one.inside is not None}
    for row in rows:
        more = []
        others = [place for place in by_id.get(row.query_id or "", ()) if place != row.location]
        if others:
            more.append(_twice(row, others))
        if row.location in inside:
            more.append(_nested(row, _location(storage, FoundPlace(inside[row.location] or ""))))
        yield row.with_findings(more) if more else row


def _twice(row: FleetRow, others: Sequence[str]) -> Finding:
    return Finding(
        "QUERY_ID_TWICE",
        Severity.ATTENTION,
        f"query {row.query_id} has a checkpoint in {row.location} and in {others[0]}"
        + (f" and in {len(others) - 1} more" if others[1:] else ""),
        "One is a copy of the other. A sink knows the two as one query: "
        "started on both, they drop or repeat each other's batches.",
        surestart("inspect", others[0], "--sink", "none", note="its batches tell which of them runs"),
        "start the query on more than one of them.",
    )


def _nested(row: FleetRow, outer: str) -> Finding:
    return Finding(
        "CHECKPOINT_INSIDE_ANOTHER",
        Severity.ATTENTION,
        f"{row.location} is inside the checkpoint {outer}",
        "Whoever moves, copies or deletes the outer one does so to this one as well.",
        surestart("inspect", outer, "--sink", "none"),
        "move the outer checkpoint aside while the query of the inner one runs.",
    )
