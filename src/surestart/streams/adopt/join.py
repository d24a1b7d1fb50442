"""Which stream writes where and reads from what: joined where a file names the other, and asked where none does.

the query id of a checkpoint    =  an application id of a table's log, a query id of its commits, a note of ours,
                                   or the query id in a summary of an Iceberg snapshot
the table id in its offsets     =  the id of a Delta table; of Iceberg, the id of a snapshot
two folders with one id         are copies of each other, and which one is meant is a question
two writers of one table        share it where they took turns; one after the other they may be one stream that
                                was begun anew, which nothing here tells from two
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from surestart.facts.checkpoint.find_checkpoints import DELTA, FILE_SINK, ICEBERG
from surestart.streams.adopt.found import (
    ANOTHER_ID,
    COPIED_CHECKPOINT,
    COPIED_TABLE,
    NO_CHECKPOINT,
    NO_TABLE,
    ONE_AFTER_THE_OTHER,
    TWO_CHECKPOINTS,
    AdoptionNote,
    FoundCheckpoint,
    FoundSource,
    FoundTable,
    Writer,
)
from surestart.words.amounts import time_text

_CLONE = "CLONE"


@dataclass(frozen=True)
class JoinedSink:
    """writers: under which ids the stream writes there.
    shared: another stream was seen to write there meanwhile; None: nothing shows it.
    asks: what stays open about it."""

    table: FoundTable
    writers: tuple[Writer, ...]
    shared: bool | None = None
    asks: str = ""


@dataclass(frozen=True)
class JoinedSource:
    """location: of the table that it reads, for a source that names a table by an id.
    asks: what stays open."""

    source: FoundSource
    location: str = ""
    asks: str = ""


@dataclass(frozen=True)
class Joined:
    """One checkpoint with all that the evidence shows of it, and its questions."""

    checkpoint: FoundCheckpoint
    sources: tuple[JoinedSource, ...] = ()
    sinks: tuple[JoinedSink, ...] = ()
    asks: tuple[str, ...] = ()

    @property
    def open_sinks(self) -> bool:
        """Whether a function of its owner wrote to them, which may write elsewhere, too."""
        return any(writer.by_function for one in self.sinks if one.table.kind == DELTA for writer in one.writers)


@dataclass(frozen=True)
class FoundEvidence:
    """What joins streams and tables: the tables by each name that a checkpoint may have for them."""

    tables: Sequence[FoundTable]
    by_query: dict[str, list[FoundTable]] = field(default_factory=lambda: defaultdict(list))
    by_id: dict[str, list[FoundTable]] = field(default_factory=lambda: defaultdict(list))
    checkpoints: dict[str, list[FoundCheckpoint]] = field(default_factory=lambda: defaultdict(list))


def join_streams(
    checkpoints: Sequence[FoundCheckpoint], tables: Sequence[FoundTable]
) -> tuple[list[Joined], list[AdoptionNote]]:
    """Each checkpoint with its tables, and what a person should know beyond that."""
    evidence = FoundEvidence(tables)
    for table in tables:
        for query_id in {writer.query_id for writer in table.writers.values()} - {""}:
            evidence.by_query[query_id].append(table)
        for known in {*table.ids, *map(str, table.snapshots)}:
            evidence.by_id[known].append(table)
    for checkpoint in checkpoints:
        if checkpoint.query_id:
            evidence.checkpoints[checkpoint.query_id].append(checkpoint)
    joined = [_join(checkpoint, evidence) for checkpoint in checkpoints]
    return joined, [*_notes_of_checkpoints(joined, evidence), *_notes_of_tables(evidence)]


def _join(checkpoint: FoundCheckpoint, evidence: FoundEvidence) -> Joined:
    sources = tuple(_join_source(source, evidence) for source in checkpoint.sources)
    copies = evidence.checkpoints.get(checkpoint.query_id, [])
    tables = evidence.by_query.get(checkpoint.query_id, []) if checkpoint.query_id else []
    if len(copies) > 1 and _is_the_only_one_as_far(tables, copies) is not checkpoint:
        others = [one.location for one in copies if one is not checkpoint]
        known = [f"{one.location} knows this query" for one in tables]
        first, last = f"the same query id is in {', '.join(others)}", "only one of them is the stream's own"
        return Joined(checkpoint, sources, (), (first, *known, last))
    sinks: list[JoinedSink] = []
    asks: list[str] = []
    for table in tables:
        twins = [one for one in evidence.by_id.get(table.id, []) if one is not table and one.id == table.id]
        if table.id and any(one in tables for one in twins):
            newest = max(writer.last_batch for writer in table.of_query(checkpoint.query_id))
            asks.append(f"{table.location} knows it up to batch {newest}, and a copy of that table does too")
        elif said := _is_one_of_a_clone(table, tables, checkpoint.query_id):
            asks.append(said)
        else:
            sinks.append(_join_sink(table, checkpoint.query_id))
    modes = {mode for sink in sinks for writer in sink.writers for mode in writer.output_modes}
    mode = modes.pop() if len(modes) == 1 else ""
    if not sinks and not asks:
        asks += list(_hints(checkpoint, evidence))
    return Joined(replace(checkpoint, output_mode=mode), sources, tuple(sinks), tuple(asks))


def _is_one_of_a_clone(table: FoundTable, tables: Sequence[FoundTable], query_id: str) -> str:
    """What stays open of a table that knows the query by a CLONE alone, or that its own clone has gone past: a deep
    clone brings the batches that a stream has written with it (docs.databricks.com, delta/clone)."""

    def last_of(one: FoundTable) -> int:
        return max(writer.last_batch for writer in one.of_query(query_id))

    if _operations(table, query_id) == {_CLONE}:
        return f"{table.location} knows it up to batch {last_of(table)}, and by a CLONE alone"
    if _CLONE in _operations(table, query_id):
        return ""
    clones = [one for one in tables if {_CLONE} < _operations(one, query_id) and last_of(one) > last_of(table)]
    if not clones:
        return ""
    return f"{table.location} knows it up to batch {last_of(table)}; {clones[0].location} is a CLONE and further on"


def _operations(table: FoundTable, query_id: str) -> set[str]:
    return {operation for writer in table.of_query(query_id) for operation in writer.operations}


def _is_the_only_one_as_far(tables: Sequence[FoundTable], copies: Sequence[FoundCheckpoint]) -> FoundCheckpoint | None:
    """Whether this is the only copy that has planned the newest batch in the tables: no other can have written it."""
    query_id = copies[0].query_id
    newest = max((writer.last_batch for table in tables for writer in table.of_query(query_id)), default=None)
    if newest is None:
        return None
    able = [one for one in copies if one.last_batch is not None and one.last_batch >= newest]
    return able[0] if len(able) == 1 else None


def _join_source(source: FoundSource, evidence: FoundEvidence) -> JoinedSource:
    if source.kind not in (DELTA, ICEBERG) or not source.subject:
        return JoinedSource(source)
    found = [one for one in evidence.by_id.get(source.subject, []) if one.kind == source.kind]
    what = "table" if source.kind == DELTA else "snapshot"
    if not found:
        return JoinedSource(source, asks=f"the {source.kind} table with the {what} id {source.subject}: none of these")
    if len(found) > 1:
        places = ", ".join(one.location for one in found)
        return JoinedSource(source, asks=f"the {source.kind} table with the {what} id {source.subject}: {places}")
    made_anew = source.kind == DELTA and found[0].id != source.subject
    asks = "the table has another id by now: it was made anew" if made_anew else ""
    return JoinedSource(source, found[0].location, asks)


def _join_sink(table: FoundTable, query_id: str) -> JoinedSink:
    writers = table.of_query(query_id)
    others = [one for one in table.writers.values() if one.query_id != query_id]
    beside = [one for one in others if _took_turns(writers, one)]
    built_in = all(writer.operations == {"STREAMING UPDATE"} for writer in writers)
    unsigned = _between(writers, table.unsigned)
    if beside or (unsigned and built_in):
        return JoinedSink(table, writers, shared=True)
    if others:
        first = others[0]
        more = f" and {len(others) - 1} more" if others[1:] else ""
        return JoinedSink(table, writers, asks=f"shared = ?  {first.app_id}{more} wrote there too, {_until(first)}")
    if unsigned:
        return JoinedSink(table, writers, asks=f"shared = ?  {unsigned} commits in between name no writer")
    return JoinedSink(table, writers)


def _took_turns(ours: Iterable[Writer], other: Writer) -> bool:
    """Whether each wrote before the other had ended. A stream that takes over from another does not."""
    return any(
        one.first is not None
        and one.last is not None
        and other.first is not None
        and other.last is not None
        and one.first < other.last
        and other.first < one.last
        for one in ours
    )


def _between(writers: Iterable[Writer], versions: Iterable[int]) -> int:
    first = min((one.first for one in writers if one.first is not None), default=None)
    last = max((one.last for one in writers if one.last is not None), default=None)
    return 0 if first is None or last is None else sum(first < version < last for version in versions)


def _until(writer: Writer) -> str:
    when = f", last on {time_text(writer.last_time)}" if writer.last_time else ""
    return f"up to batch {writer.last_batch}{when}"


def _hints(checkpoint: FoundCheckpoint, evidence: FoundEvidence) -> Iterable[str]:
    """Places where a person may look to find out where the rows go. They prove nothing."""
    if not checkpoint.query_id:
        yield f"its query id is not known: {checkpoint.unread or 'metadata is gone'}"
    around = [one for one in evidence.tables if checkpoint.location.startswith(f"{one.location}/")]
    if around:
        yield f"the checkpoint lies inside {max(around, key=lambda one: len(one.location)).location}"
    alike = [one for one in evidence.tables if one.kind == FILE_SINK and one.last_batch == checkpoint.last_batch]
    if checkpoint.last_batch is not None and 0 < len(alike) <= 3:
        places = ", ".join(one.location for one in alike)
        yield f"a file sink names no query; as far as batch {checkpoint.last_batch} are {places}"
    name = checkpoint.location.rstrip("/").rpartition("/")[2]
    marked = {
        table.location
        for table in evidence.tables
        for writer in table.writers.values()
        if writer.query == name and writer.query_id not in evidence.checkpoints
    }
    yield from (f"{place} was written by a query of the name {name}, under another id" for place in sorted(marked))


def _notes_of_checkpoints(joined: Sequence[Joined], evidence: FoundEvidence) -> Iterable[AdoptionNote]:
    for query_id, copies in evidence.checkpoints.items():
        if len(copies) > 1:
            yield AdoptionNote(
                COPIED_CHECKPOINT, tuple(one.location for one in copies), f"all have the query id {query_id}"
            )
    for one in joined:
        checkpoint = one.checkpoint
        if not evidence.by_query.get(checkpoint.query_id):
            yield AdoptionNote(
                NO_TABLE, (checkpoint.location,), "; ".join(one.asks) or "nothing that was read names its query"
            )
        name = checkpoint.location.rstrip("/").rpartition("/")[2]
        for table in evidence.tables:
            own = table.of_query(checkpoint.query_id) if checkpoint.query_id else ()
            # One whose own checkpoint is here is another stream of the same name.
            alike = [writer for writer in table.writers.values() if writer.query == name]
            former = [writer for writer in alike if writer.query_id not in evidence.checkpoints]
            if former and not own:
                said = f"the checkpoint's id is {checkpoint.query_id or 'lost'}, its name wrote as {former[0].app_id}"
                yield AdoptionNote(ANOTHER_ID, (checkpoint.location, table.location), said)


def _notes_of_tables(evidence: FoundEvidence) -> Iterable[AdoptionNote]:
    for table in evidence.tables:
        by_query: dict[str, list[Writer]] = defaultdict(list)
        for writer in table.writers.values():
            by_query[writer.query_id].append(writer)
        by_query.pop("", None)
        here = [one for query_id in by_query for one in evidence.checkpoints.get(query_id, [])[:1]]
        if len(here) > 1:
            yield AdoptionNote(
                TWO_CHECKPOINTS, (table.location, *(one.location for one in here)), _turns(by_query.values())
            )
        for query_id, writers in by_query.items():
            if query_id not in evidence.checkpoints:
                newest = max(writers, key=lambda one: one.last_batch)
                yield AdoptionNote(NO_CHECKPOINT, (table.location,), f"query id {query_id} wrote {_until(newest)}")
        if len(by_query) > 1 > len(here) - 1 and not _any_took_turns(list(by_query.values())):
            yield AdoptionNote(ONE_AFTER_THE_OTHER, (table.location,), f"query ids {', '.join(by_query)}")
    for known, tables in evidence.by_id.items():
        if len([one for one in tables if one.id == known]) > 1:
            yield AdoptionNote(COPIED_TABLE, tuple(one.location for one in tables), f"all have the table id {known}")


def _turns(groups: Iterable[list[Writer]]) -> str:
    took = _any_took_turns(list(groups))
    return "they took turns" if took else "one after the other: two streams, or one that was begun anew"


def _any_took_turns(groups: Sequence[list[Writer]]) -> bool:
    pairs = itertools.combinations(groups, 2)
    return any(_took_turns(ours, other) for ours, theirs in pairs for other in theirs)
