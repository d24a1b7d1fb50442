"""The batch that a rewind goes back to, as it was asked for; refused with those that are possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surestart.environment import Environment
from surestart.errors import Refused, SurestartError, UsageError
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.checkpoint.state_versions import find_missing_state
from surestart.facts.delta import Commit
from surestart.facts.delta.commit_notes import read_remedy_note
from surestart.facts.storage.open_storage import LocalStorage
from surestart.history.describe_run import named, plan_command
from surestart.remedies.basis.chain import Link
from surestart.remedies.planning.rewind_table import (
    RewindBound,
    batch_by,
    batches_with_state,
    find_fault,
    kept_batches,
    newest_whole,
    oldest_told,
)
from surestart.typed import NextCommand, surestart
from surestart.words.amounts import exact_time


@dataclass(frozen=True)
class RewindTo:
    """At most one of them is given; none: the newest batch whose state is whole."""

    batch: int | None = None
    time: int | None = None


@dataclass(frozen=True)
class Chosen:
    """The batch that stays last, what keeps it from being an older one, and how a time came to mean this batch."""

    batch: int
    bounds: tuple[RewindBound, ...]
    by_time: str = ""


def choose_batch(
    environment: Environment,
    link: Link,
    checkpoint: Checkpoint,
    standing: Mapping[str, Sequence[Commit]],
    ids: Sequence[str],
    to: RewindTo,
    *,
    newest_too: bool = False,
) -> Chosen:
    """newest_too: the batch at which it stands can be chosen as well, and is where none is named."""
    committed, planned = checkpoint.latest_committed, checkpoint.latest_planned
    kept = kept_batches(checkpoint)
    if checkpoint.query_id is None:
        raise not_possible(environment, link, "has no query id: the metadata of its checkpoint is gone or torn", "")
    if committed is None or planned is None or not kept:
        raise not_possible(environment, link, "has no committed batch to go back to", "")
    bounds = tuple(_bounds(checkpoint, kept, standing, ids))
    oldest = max((bound.oldest for bound in bounds if bound.oldest is not None), default=0)
    newest = kept[-1] if newest_too or kept[-1] < planned else kept[-2] if len(kept) > 1 else None
    stated = set(batches_with_state(checkpoint, kept))
    possible = [one for one in kept if one >= oldest and newest is not None and one <= newest and one in stated]
    storage = LocalStorage(str(local_folder(link.checkpoint)))
    damaged = find_fault(storage, kept[-1]) if kept[-1] == planned else ""
    between = f"batches {_ranges(possible)} are possible" if possible else "no batch is possible"
    between += f" ({bounding(bounds)})" if bounding(bounds) else ""
    last = possible[-1] if possible else None
    if to.batch is None and to.time is None:
        whole = newest_whole(storage, possible) if damaged or newest_too else None
        why = f"; its newest batch cannot be loaded ({damaged}), and no older one is whole" if damaged else ""
        if whole is None:
            raise not_possible(environment, link, "is not told to which batch to go back", f"{between}{why}", last)
        return Chosen(whole, bounds)
    by_time = ""
    if to.batch is not None:
        batch = to.batch
    else:
        batch, by_time = _batch_at(environment, link, standing, ids, possible, to.time or 0)
    if batch == planned == committed and not newest_too:
        raise not_possible(
            environment, link, f"is at batch {batch} already: nothing would be taken back", between, last
        )
    if batch not in possible:
        why = f"has no batch {batch} yet" if batch > planned else f"cannot go back to batch {batch}"
        if committed < batch <= planned:
            why += ", which is in flight: planned, and not committed"
        elif lacks := _lacks(checkpoint, kept, batch):
            why += f": {lacks}"
        nearest = max((one for one in possible if one < batch), default=last)
        raise not_possible(environment, link, why, between, nearest)
    fault = find_fault(storage, batch)
    if fault:
        whole = newest_whole(storage, [one for one in possible if one < batch])
        offered = f"the newest that is whole is batch {whole}" if whole is not None else "no older one is whole"
        raise not_possible(environment, link, f"cannot go back to batch {batch}: {fault}", offered, whole)
    return Chosen(batch, bounds, by_time)


def _lacks(checkpoint: Checkpoint, kept: Sequence[int], batch: int) -> str:
    """What of a batch between those that are kept is not there; "" where it is older than all of them."""
    if batch in kept:
        missing = find_missing_state(checkpoint, batch + 1)
        return missing.detail if missing else ""
    if batch < kept[0]:
        return ""
    entries = {"offsets": set(checkpoint.offsets_folder.ids), "commits": set(checkpoint.commits_folder.ids)}
    read = (("offsets", batch), ("commits", batch), ("offsets", batch - 1))
    return next((f"{log}/{number} is not there" for log, number in read if number not in entries[log]), "")


def _ranges(batches: Sequence[int]) -> str:
    """Of 1, 2, 3, 7: "1 to 3, 7 to 7"."""
    begins = [one for one in batches if one - 1 not in batches]
    ends = [one for one in batches if one + 1 not in batches]
    return ", ".join(f"{first} to {last}" for first, last in zip(begins, ends, strict=True))


def _bounds(
    checkpoint: Checkpoint, kept: Sequence[int], standing: Mapping[str, Sequence[Commit]], ids: Sequence[str]
) -> list[RewindBound]:
    bounds = [RewindBound("offsets", kept[0], "the oldest batch whose offsets are kept")]
    stated = batches_with_state(checkpoint, kept)
    if checkpoint.state.exists:
        bounds.append(RewindBound("state", min(stated, default=None), "the oldest whose state is kept"))
    for name, commits in standing.items():
        oldest = oldest_told(commits, ids)
        if oldest is not None and oldest >= 0:
            bounds.append(RewindBound("table", oldest, f"the oldest that the log of {name} still tells"))
    return bounds


def bounding(bounds: Sequence[RewindBound]) -> str:
    known = [bound for bound in bounds if bound.oldest is not None]
    if not known:
        return ""
    if none := next((bound for bound in bounds if bound.oldest is None), None):
        return f"its {none.what} is whole for no batch that is kept"
    oldest = max(bound.oldest or 0 for bound in known)
    which = next(bound for bound in known if bound.oldest == oldest)
    return "from the first batch on" if oldest == 0 else f"bounded by its {which.what}: {which.why} is {oldest}"


def _batch_at(
    environment: Environment,
    link: Link,
    standing: Mapping[str, Sequence[Commit]],
    ids: Sequence[str],
    possible: Sequence[int],
    time: int,
) -> tuple[int, str]:
    """The newest batch that its tables held at that time, and the times that say so."""
    written = _written(standing, ids)
    found = [one for one in possible if written.get(one, time + 1) <= time]
    later = {one: then for one, then in written.items() if then > time}
    asked = exact_time(time)
    if found and later:
        first = min(later)
        return found[-1], (
            f"At {asked} its newest batch was {found[-1]}, written {exact_time(written[found[-1]])}; batch {first} was "
            f"written {exact_time(later[first])}."
        )
    first, newest = min(written.values(), default=0), max(written.values(), default=0)
    what = (
        f"at {asked} no batch of {link.query} that can be gone back to was its newest; they were written from "
        f"{exact_time(first)} to {exact_time(newest)}"
    )
    raise _not_at(environment, link, what, possible[-1] if possible else 0)


def _written(standing: Mapping[str, Sequence[Commit]], ids: Sequence[str]) -> dict[int, int]:
    """When each batch was in all of its tables, by their logs. Like Delta: a commit is no older than the one before it,
    whatever the clock of its driver said."""
    written: dict[int, int] = {}
    for commits in standing.values():
        newest, own = 0, set[int]()
        for one in commits:
            newest, batch = max(newest, one.timestamp or 0), batch_by(one, ids)
            # What a rewind told the table of a batch is no writing of it.
            if batch is None or not newest or (batch in own and read_remedy_note(one.user_metadata)):
                continue
            own.add(batch)
            written[batch] = max(newest, written.get(batch, 0))
    return written


def _not_at(environment: Environment, link: Link, what: str, batch: int) -> UsageError:
    return UsageError(
        f"--to-time: {what}",
        meaning="Nothing was planned.",
        next=rewind_command(environment, link, batch),
        code="BatchNotPossible",
    )


def rewind_command(environment: Environment, link: Link, batch: int) -> NextCommand:
    return plan_command(environment, "rewind", link.name, "--to-batch", batch)


def not_possible(
    environment: Environment, link: Link, why: str, between: str, batch: int | None = None
) -> SurestartError:
    return Refused(
        f"{link.query} {why}" + (f"; {between}" if between else ""),
        meaning="Nothing was planned.",
        next=rewind_command(environment, link, batch)
        if batch is not None
        else surestart("doctor", link.name, place=named(environment), note="says what its next start does"),
        code="BatchNotPossible",
    )
