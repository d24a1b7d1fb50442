"""The batch that a rewind goes back to, as it was asked for; refused with those that are possible."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.errors import Refused, SurestartError, UsageError
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.delta import Commit
from surestart.facts.storage.local_files import LocalStorage
from surestart.journal.next_command import named, plan_command
from surestart.remedies.plan.chain import Link
from surestart.remedies.planning.rewind_batches import (
    Bound,
    batches_with_state,
    find_fault,
    kept_batches,
    newest_whole,
)
from surestart.remedies.planning.rewind_table import (
    batch_by,
)
from surestart.typed import surestart
from surestart.words.time_text import time_text

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class To:
    """At most one of them is given; none: the newest batch whose state is whole."""

    batch: int | None = None
    time: int | None = None


def choose_batch(
    environment: Environment,
    link: Link,
    checkpoint: Checkpoint,
    standing: Mapping[str, Sequence[Commit]],
    ids: Sequence[str],
    to: To,
) -> tuple[int, list[Bound]]:
    """The batch that stays last, and what keeps it from being an older one."""
    committed, planned = checkpoint.latest_committed, checkpoint.latest_planned
    kept = kept_batches(checkpoint)
    if committed is None or planned is None or not kept:
        raise not_possible(environment, link, "has no committed batch to go back to", "")
    bounds = _bounds(checkpoint, kept, standing, ids)
    oldest = max((bound.oldest for bound in bounds if bound.oldest is not None), default=0)
    newest = kept[-1] if kept[-1] < planned else kept[-2] if len(kept) > 1 else None
    possible = [one for one in kept if one >= oldest and newest is not None and one <= newest]
    storage = LocalStorage(str(local_folder(link.checkpoint)))
    damaged = find_fault(storage, kept[-1]) if kept[-1] == planned else ""
    between = f"batches {possible[0]} to {possible[-1]} are possible" if possible else "no batch is possible"
    between += f" ({bounding(bounds)})" if bounding(bounds) else ""
    last = possible[-1] if possible else None
    if to.batch is None and to.time is None:
        whole = newest_whole(storage, possible) if damaged else None
        why = f"; its newest batch cannot be loaded ({damaged}), and no older one is whole" if damaged else ""
        if whole is None:
            raise not_possible(environment, link, "is not told to which batch to go back", f"{between}{why}", last)
        return whole, bounds
    batch = to.batch if to.batch is not None else _batch_at(environment, link, checkpoint, standing, ids, possible, to)
    if batch == planned == committed:
        raise not_possible(
            environment, link, f"stands at batch {batch} already: nothing would be taken back", between, last
        )
    if batch not in possible:
        why = f"has no batch {batch} yet" if batch > planned else f"cannot go back to batch {batch}"
        raise not_possible(environment, link, why, between, last)
    fault = find_fault(storage, batch)
    if fault:
        whole = newest_whole(storage, [one for one in possible if one < batch])
        offered = f"; the newest that is whole is batch {whole}" if whole is not None else "; no older one is whole"
        why = f"cannot go back to batch {batch}: {fault}"
        raise not_possible(environment, link, why, between + offered, whole)
    return batch, bounds


def _bounds(
    checkpoint: Checkpoint, kept: Sequence[int], standing: Mapping[str, Sequence[Commit]], ids: Sequence[str]
) -> list[Bound]:
    bounds = [Bound("offsets", kept[0], "the oldest batch whose offsets are kept")]
    stated = batches_with_state(checkpoint, kept)
    if checkpoint.state.operators:
        bounds.append(Bound("state", min(stated, default=None), "the oldest whose state is kept"))
    for name, commits in standing.items():
        own = [number for one in commits if (number := batch_by(one, ids)) is not None]
        if own and commits[0].version > 0:
            bounds.append(Bound("table", max(min(own) - 1, 0), f"the log of {name} begins there"))
    return bounds


def bounding(bounds: Sequence[Bound]) -> str:
    known = [bound for bound in bounds if bound.oldest is not None]
    if not known:
        return ""
    oldest = max(bound.oldest or 0 for bound in known)
    which = next(bound for bound in known if bound.oldest == oldest)
    return "from the first batch on" if oldest == 0 else f"bounded by its {which.what}: {which.why} is {oldest}"


def _batch_at(
    environment: Environment,
    link: Link,
    checkpoint: Checkpoint,
    standing: Mapping[str, Sequence[Commit]],
    ids: Sequence[str],
    possible: Sequence[int],
    to: To,
) -> int:
    """The newest batch that its tables held at that time."""
    written: dict[int, int] = {}
    for commits in standing.values():
        for one in commits:
            batch = batch_by(one, ids)
            if batch is not None and one.timestamp is not None:
                written[batch] = max(one.timestamp, written.get(batch, 0))
    found = [one for one in possible if one in written and written[one] <= (to.time or 0)]
    if found and any(time > (to.time or 0) for time in written.values()):
        return found[-1]
    when = datetime.datetime.fromtimestamp((to.time or 0) / 1000, datetime.UTC)
    first, newest = min(written.values(), default=0), max(written.values(), default=0)
    last = possible[-1] if possible else 0
    what = (
        f"at {when:%Y-%m-%d %H:%M:%S} UTC no batch of {link.query} that can be gone back to was its newest; they were "
        f"written from {time_text(first)} to {time_text(newest)}"
    )
    raise _not_at(environment, link, what, last)


def _not_at(environment: Environment, link: Link, what: str, batch: int) -> UsageError:
    return UsageError(
        f"--to-time: {what}",
        meaning="A time without a zone is UTC. Nothing was planned.",
        next=rewind_command(environment, link, batch),
        code="BatchNotPossible",
    )


def rewind_command(environment: Environment, link: Link, batch: int) -> str:
    return plan_command(environment, "rewind", link.name, f"--to-batch {batch}")


def not_possible(
    environment: Environment, link: Link, why: str, between: str, batch: int | None = None
) -> SurestartError:
    return Refused(
        f"{link.query} {why}" + (f"; {between}" if between else ""),
        meaning="Nothing was planned.",
        next=rewind_command(environment, link, batch)
        if batch is not None
        else surestart("doctor", link.name, place=named(environment)),
        code="BatchNotPossible",
    )
