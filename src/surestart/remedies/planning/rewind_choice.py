"""The batch that a rewind goes back to, as it was asked for; refused with those that are possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surestart.environment import Environment
from surestart.errors import Refused, SurestartError, UsageError
from surestart.facts.checkpoint.manifest import local_folder
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.facts.checkpoint.state_versions import find_missing_state
from surestart.facts.delta import Commit
from surestart.facts.delta.commit_notes import read_remedy_note
from surestart.facts.storage.open_storage import LocalStorage
from surestart.history.describe_run import named, plan_command
from surestart.journal.journal import Journal
from surestart.journal.stage_start import former_ids
from surestart.library_types import SparkSession
from surestart.remedies.basis.chain import Link
from surestart.remedies.basis.preconditions import LinkFacts
from surestart.remedies.planning.rewind_table import (
    RewindBound,
    batch_by,
    batches_with_state,
    find_fault,
    kept_batches,
    newest_whole,
    oldest_told,
    read_standing,
)
from surestart.typed import NextCommand, surestart
from surestart.words.amounts import exact_time


@dataclass(frozen=True)
class StreamNow:
    """A stream as it stands, before it goes back to one of its batches.

    checkpoint: with every entry that can be gone back to.
    standing: the commits that made each of its tables what it is, oldest first.
    ids: its query ids, the present one first."""

    facts: LinkFacts
    checkpoint: Checkpoint
    standing: Mapping[str, tuple[Commit, ...]]
    ids: tuple[str, ...]

    @property
    def link(self) -> Link:
        return self.facts.link

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(str(local_folder(self.link.checkpoint)))


def read_stream_now(spark: SparkSession, facts: LinkFacts, journals: Sequence[Journal]) -> StreamNow:
    checkpoint = read_checkpoint(facts.link.checkpoint)
    standing = {name: read_standing(spark, one.table) for name, one in facts.tables.items() if one.exists}
    return StreamNow(facts, checkpoint, standing, former_ids(journals, facts.link.name, checkpoint.query_id or ""))


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


@dataclass(frozen=True)
class _Offer:
    """kept: the batches whose entries are there.
    possible: those of them that can be gone back to.
    between: the same, for a reader."""

    kept: tuple[int, ...]
    possible: tuple[int, ...]
    between: str

    @property
    def last(self) -> int | None:
        return self.possible[-1] if self.possible else None


def choose_batch(environment: Environment, now: StreamNow, to: RewindTo, *, beside: str = "") -> Chosen:
    """beside: the folder of a fork. Of it the batch at which it stands can be chosen as well, and is where none is
    named."""
    checkpoint, kept = now.checkpoint, kept_batches(now.checkpoint)
    if checkpoint.query_id is None:
        why = "has no query id: the metadata of its checkpoint is gone or torn"
        raise not_possible(environment, now.link, why, "")
    if checkpoint.latest_committed is None or checkpoint.latest_planned is None or not kept:
        raise not_possible(environment, now.link, "has no committed batch to go back to", "")
    bounds = tuple(_bounds(now, kept))
    offer = _offer(checkpoint, kept, bounds, beside)
    if to.batch is not None:
        batch, by_time = to.batch, ""
    elif to.time is not None:
        batch, by_time = _batch_at(environment, now, offer.possible, to.time, beside)
    else:
        return Chosen(_newest_that_is_whole(environment, now, offer, beside), bounds)
    _refuse_not_offered(environment, now, offer, batch, beside)
    if fault := find_fault(now.storage, batch):
        whole = newest_whole(now.storage, [one for one in offer.possible if one < batch])
        offered = f"the newest that is whole is batch {whole}" if whole is not None else "no older one is whole"
        raise not_possible(environment, now.link, f"cannot go back to batch {batch}: {fault}", offered, whole, beside)
    return Chosen(batch, bounds, by_time)


def _offer(checkpoint: Checkpoint, kept: tuple[int, ...], bounds: Sequence[RewindBound], beside: str) -> _Offer:
    oldest = max((bound.oldest for bound in bounds if bound.oldest is not None), default=0)
    planned = checkpoint.latest_planned
    behind = kept if beside else tuple(one for one in kept if one != planned)
    possible = tuple(one for one in batches_with_state(checkpoint, behind) if one >= oldest)
    between = f"batches {_ranges(possible)} are possible" if possible else "no batch is possible"
    between += f" ({bounding(bounds)})" if bounding(bounds) else ""
    return _Offer(kept, possible, between)


def _newest_that_is_whole(environment: Environment, now: StreamNow, offer: _Offer, beside: str) -> int:
    """Where no batch was named: of a stream that cannot load its newest one, the newest that it can."""
    newest = offer.kept[-1]
    damaged = find_fault(now.storage, newest) if newest == now.checkpoint.latest_planned else ""
    whole = newest_whole(now.storage, offer.possible) if damaged or beside else None
    if whole is None:
        why = f"; its newest batch cannot be loaded ({damaged}), and no older one is whole" if damaged else ""
        told = "is not told to which batch to go back"
        raise not_possible(environment, now.link, told, f"{offer.between}{why}", offer.last, beside)
    return whole


def _refuse_not_offered(environment: Environment, now: StreamNow, offer: _Offer, batch: int, beside: str) -> None:
    committed, planned = now.checkpoint.latest_committed or 0, now.checkpoint.latest_planned or 0
    if batch == planned == committed and not beside:
        why = f"is at batch {batch} already: nothing would be taken back"
        raise not_possible(environment, now.link, why, offer.between, offer.last, beside)
    if batch in offer.possible:
        return
    why = f"has no batch {batch} yet" if batch > planned else f"cannot go back to batch {batch}"
    if committed < batch <= planned:
        why += ", which is in flight: planned, and not committed"
    elif lacks := _lacks(now.checkpoint, offer.kept, batch):
        why += f": {lacks}"
    nearest = max((one for one in offer.possible if one < batch), default=offer.last)
    raise not_possible(environment, now.link, why, offer.between, nearest, beside)


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


def _bounds(now: StreamNow, kept: Sequence[int]) -> list[RewindBound]:
    bounds = [RewindBound("offsets", kept[0], "the oldest batch whose offsets are kept")]
    if now.checkpoint.state.exists:
        stated = batches_with_state(now.checkpoint, kept)
        bounds.append(RewindBound("state", min(stated, default=None), "the oldest whose state is kept"))
    for name, commits in now.standing.items():
        oldest = oldest_told(commits, now.ids)
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
    environment: Environment, now: StreamNow, possible: Sequence[int], time: int, beside: str
) -> tuple[int, str]:
    """The newest batch that its tables held at that time, and the times that say so."""
    written = _written(now.standing, now.ids)
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
        f"at {asked} no batch of {now.link.query} that can be gone back to was its newest; they were written from "
        f"{exact_time(first)} to {exact_time(newest)}"
    )
    raise _not_at(environment, now.link, what, possible[-1] if possible else 0, beside)


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


def _not_at(environment: Environment, link: Link, what: str, batch: int, beside: str) -> UsageError:
    return UsageError(
        f"--to-time: {what}",
        meaning="Nothing was planned.",
        next=rewind_command(environment, link, batch, beside),
        code="BatchNotPossible",
    )


def rewind_command(environment: Environment, link: Link, batch: int, beside: str = "") -> NextCommand:
    """beside: whoever asked for a fork there is not told to take anything back."""
    fork = ("--beside", beside) if beside else ()
    return plan_command(environment, "rewind", link.name, "--to-batch", batch, *fork)


def not_possible(
    environment: Environment, link: Link, why: str, between: str, batch: int | None = None, beside: str = ""
) -> SurestartError:
    return Refused(
        f"{link.query} {why}" + (f"; {between}" if between else ""),
        meaning="Nothing was planned.",
        next=rewind_command(environment, link, batch, beside)
        if batch is not None
        else surestart("doctor", link.name, place=named(environment), note="says what its next start does"),
        code="BatchNotPossible",
    )
