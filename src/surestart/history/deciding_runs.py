"""Of all runs of a query those that a later start is judged by: few, however many there were.

    every remedy, and of the runs before it, after it, and between any two
        the newest, and the newest that had started, that has committed a batch, that names its sources
    of each folder, and of each query id, the newest run
    the newest claim

An undo takes back a remedy and the runs since: therefore something is kept from before each. Values in, values out; a
property test holds what the gate finds in these against what it finds in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from surestart.history.run_record import REMEDY, RunRecord, merge_events

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
