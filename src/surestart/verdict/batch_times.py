"""Which commits of a table fell into the time of which batch: how a writer without a mark is known by its checkpoint.

    planned(3)          planned(4)          planned(5)
       |   commit          |   commit          |   commit?
       └── batch 3 ────────┴── batch 4 ────────┴── batch 5, in flight: written, as many commits as before

The driver that plans a batch also commits it, by one clock. Where the clocks of two drivers differ, the commits do not
fall into place one for each batch, or not in the order of their versions: then nothing is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surestart.facts.delta import Commit
from surestart.facts.delta.commit import WRITING
from surestart.facts.delta.commit_notes import read_remedy_note
from surestart.verdict.acceptance_case import NextBatch

_WRITING_ENDS = ("AS SELECT",)
# So many batches before the newest are looked at.
SPANS = 20


@dataclass(frozen=True)
class BatchTime:
    """From when a batch was planned to when the next one was.

    commits: those in that time which could be the batch's."""

    batch: int
    commits: tuple[Commit, ...]
    idle: bool = False

    @property
    def count(self) -> int:
        return len(self.commits)


@dataclass(frozen=True)
class Trace:
    """spans: oldest first, the newest planned batch last.
    usual: how many commits a batch makes; 0: not to be told.
    others: several batches before had more than that, so somebody else writes as well; one of them may have been a
        replay."""

    spans: tuple[BatchTime, ...] = ()
    usual: int = 0
    others: bool = False

    @property
    def newest(self) -> BatchTime | None:
        return self.spans[-1] if self.spans else None

    @property
    def before(self) -> tuple[BatchTime, ...]:
        return self.spans[:-1]

    @property
    def steady(self) -> bool:
        """Whether the batches just before the newest, two or more of them, each made the same number of commits."""
        filled = [span for span in self.before if span.count or not span.idle]
        return len(filled) >= 2 and self.usual > 0 and all(span.count == self.usual for span in filled[-2:])

    @property
    def regular(self) -> bool:
        """Whether each batch before the newest that had rows, two or more of them, made the same number of commits."""
        filled = [span for span in self.before if span.count or not span.idle]
        return len(filled) >= 2 and self.usual > 0 and all(span.count == self.usual for span in filled)

    @property
    def newest_is_alike(self) -> bool:
        """Whether the newest batch has as many commits, of the same kinds, as the one before it."""
        if self.newest is None or not self.usual or self.newest.count != self.usual:
            return False
        like = next(span for span in reversed(self.before) if span.count == self.usual)
        return Counter(map(_make, self.newest.commits)) == Counter(map(_make, like.commits))

    @property
    def owned(self) -> dict[int, int]:
        """version -> batch of the commits that fell into place."""
        return {
            commit.version: span.batch for span in self.spans if span.count == self.usual for commit in span.commits
        }


def is_unsigned(commit: Commit) -> bool:
    """Whether the commit wrote rows and does not say who wrote them."""
    said = commit.mark or commit.query_id or commit.transactions or read_remedy_note(commit.user_metadata)
    return is_writing(commit) and not said


def is_writing(commit: Commit) -> bool:
    return commit.operation in WRITING or commit.operation.endswith(_WRITING_ENDS)


def trace_unsigned(next_batch: NextBatch, commits: Sequence[Commit], app_id: str = "") -> Trace:
    """In which batches' times the commits fell that nobody signed, or that app_id signed. Empty where the times do not
    tell."""
    times = _times(next_batch.planned_at)
    newest = next_batch.batch if next_batch.replayed else next_batch.batch - 1
    if not times or times[-1][0] != newest or not _in_order(commits, times[0][1]):
        return Trace()
    ends = [begin for _, begin in times[1:]]
    spans = tuple(
        BatchTime(
            batch,
            tuple(one for one in commits if _is_of(one, app_id) and begin <= (one.timestamp or 0) < end),
            batch in next_batch.idle,
        )
        for (batch, begin), end in zip(times, [*ends, float("inf")], strict=True)
        if commits and (commits[0].version == 0 or (commits[0].timestamp or 0) <= begin)
    )
    counts = [span.count for span in spans[:-1] if span.count]
    often = Counter(counts)
    usual = max(often, key=lambda count: (often[count], -count), default=0)
    return Trace(spans, usual, sum(count > usual for count in counts) > 1)


def counts_batches(next_batch: NextBatch, commits: Sequence[Commit], app_id: str) -> bool:
    """Whether that writer numbers its commits as this checkpoint numbers its batches. A function may take any number
    that grows: ten times the batch, or the time. 0 is the same in most of them."""
    fits, differs = batches_by_time(next_batch, commits, app_id)
    times = _times(next_batch.planned_at)
    known = {batch for batch, _ in times}
    for commit in commits if times else ():
        number = dict(commit.transactions).get(app_id)
        # What fell after the newest batch was planned may be a batch that a rewound checkpoint has forgotten.
        if number is not None and number not in known and times[0][1] <= (commit.timestamp or 0) < times[-1][1]:
            differs += 1
    return fits > differs


def _is_of(commit: Commit, app_id: str) -> bool:
    return app_id in dict(commit.transactions) if app_id else is_unsigned(commit)


def batches_by_time(next_batch: NextBatch, commits: Sequence[Commit], app_id: str) -> tuple[int, int]:
    """(how many commits of that writer bear the number of the batch in whose time they fell, how many that of another
    one that is known)."""
    times = _times(next_batch.planned_at)
    begins = dict(times)
    ends = {batch: begins.get(batch + 1) for batch in begins}
    fits = differs = 0
    for commit in commits:
        number = dict(commit.transactions).get(app_id)
        if number is None and commit.query_id == app_id:
            number = commit.batch_id
        if number is None or number not in begins or commit.timestamp is None:
            continue
        end = ends[number]
        if begins[number] <= commit.timestamp and (end is None or commit.timestamp < end):
            fits += 1
        else:
            differs += 1
    return fits, differs


def _times(planned_at: Mapping[int, int]) -> list[tuple[int, int]]:
    """The newest batches without a gap and in the order of their times, oldest first."""
    times: list[tuple[int, int]] = []
    for batch in sorted(planned_at, reverse=True)[: SPANS + 1]:
        if times and (batch != times[-1][0] - 1 or planned_at[batch] > times[-1][1]):
            break
        times.append((batch, planned_at[batch]))
    return times[::-1]


def _in_order(commits: Sequence[Commit], since: int) -> bool:
    """A commit that is younger by its version and older by its clock was made by another clock."""
    times = [commit.timestamp for commit in commits]
    first = next((index for index, time in enumerate(times) if time is None or time >= since), len(times))
    late = times[first:]
    return None not in late and late == sorted(time for time in late if time is not None)


def _make(commit: Commit) -> tuple[str, str, str]:
    overwrites = commit.parameters.get("mode") == "Overwrite"
    return commit.operation, str(overwrites), commit.parameters.get("partitionBy", "")
