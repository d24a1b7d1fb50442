"""The world of the protocol model: a source, Delta tables, checkpoints, claims, the journal and the history of starts.

    rows       (partition, offset, clock)      what else a row says follows from its position
    tables     versions of files; a commit that removes a file is a change, which stops a stream
    journal    the real `Entry` and `Journal`; Delta drops an entry whose number it has seen, and says nothing

Only what the protocol rests on is here: no bytes, no schemas, no Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.journal import DONE, UNDOING, UNDONE, WITHDRAWN, Journal, JournalEntry
from surestart.remedies.basis.chain import Chain, read_chain
from surestart.remedies.basis.plan import environment_facts

RAW, DESERIALIZE, GOLD = STAGES = ("raw-ingest", "deserialize", "merge-gold")
OUTPUTS = {RAW: ("raw",), DESERIALIZE: ("quarantine", "good"), GOLD: ("gold",)}
INPUT = {DESERIALIZE: "raw", GOLD: "good"}
TABLES = ("raw", "quarantine", "good", "gold")
TORN = "torn"
ENVIRONMENT = Environment(
    name="local",
    pipeline="sensor",
    checkpoint_root="/root/checkpoints",
    root="/root",
    catalog="",
    schema="",
    landing="/root/landing",
)
FACTS = environment_facts(ENVIRONMENT)
CHAIN: Chain = read_chain(ENVIRONMENT, build_stages({}))

Row = tuple[Any, int, int]
Steps = Iterator[None]


@dataclass(frozen=True)
class Rules:
    """The protocol. Each rule that is switched off is a bug that the machine has to find."""

    driver_claims: bool = True
    remedy_claims: bool = True
    gate_reads_journal: bool = True
    begun_first: bool = True
    acts_once: bool = True
    world_checked_after_claim: bool = True
    journal_read_after_claim: bool = True
    unjournaled_clear_undone: bool = True
    exact_positions: bool = True
    new_identity: bool = True
    cascade: bool = True
    clear_first: bool = True
    skip_window: bool = True
    marker_row: bool = True
    undone_has_no_say: bool = True
    every_undo_counts: bool = True
    only_appends_left_out: bool = True
    window_from_batch_start: bool = True
    last_batch_asked_again: bool = True
    passing_is_noted: bool = True
    caught_up_needs_equal_marks: bool = True
    start_version_exists: bool = True
    marks_capped_by_now: bool = True
    copy_before_marker: bool = True
    restore_checks_source: bool = True
    source_looked_at_again: bool = True
    overtaken_refused: bool = True
    undo_allows_no_anew: bool = True
    tables_back_first: bool = True
    undo_given_up: bool = True
    undo_looks_again: bool = True
    rewound_is_another: bool = True
    rewound_is_told: bool = True
    readers_go_back: bool = True
    rewinds_count: bool = True
    passing_is_passed_on: bool = True
    kept_rows_go_back: bool = True


class Violation(AssertionError):
    """What must never happen has happened."""


class File(NamedTuple):
    number: int
    rows: tuple[Row, ...]


class Commit(NamedTuple):
    """pair: who wrote it, and the number of its batch."""

    adds: tuple[File, ...]
    is_change: bool
    note: str
    time: int
    pair: tuple[str, int] = ("", 0)


class Checkpoint(NamedTuple):
    """batches: (start, end, time) as planned; so many of them are committed."""

    query_id: str
    batches: tuple[tuple[Any, Any, int], ...] = ()
    commits: int = 0

    @property
    def in_flight(self) -> bool:
        return len(self.batches) > self.commits


class TakenBack(NamedTuple):
    """Of a table: at `version` an undo has put back what it held at `before`."""

    before: int
    version: int


class Begin(NamedTuple):
    """How a stage begins. kept: partition -> below."""

    digest: str
    below: tuple[tuple[Any, int], ...] | None = None
    version: int | None = None
    kept: tuple[tuple[Any, int], ...] = ()


class Table:
    def __init__(self) -> None:
        self.commits: list[Commit] = [Commit((), False, "create", 0)]
        self.content: list[tuple[File, ...]] = [()]
        self.txns: dict[str, int] = {}

    @property
    def version(self) -> int:
        return len(self.commits) - 1

    def rows(self, version: int | None = None) -> list[Row]:
        return [row for file in self.content[-1 if version is None else version] for row in file.rows]

    def find(self, note: str) -> int | None:
        return next((version for version, commit in enumerate(self.commits) if commit.note == note), None)

    def find_restore(self, marker: str, before: int) -> int | None:
        """It has no note of its own: the first one behind the marker, to that version."""
        behind = self.find(marker)
        restores = [at for at, commit in enumerate(self.commits) if commit.note == f"restore {before}"]
        return None if behind is None else next((at for at in restores if at > behind), None)


@dataclass
class World:
    rules: Rules
    whole_files: bool = False
    now: int = 0
    source: dict[Any, tuple[int, int]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=lambda: {name: Table() for name in TABLES})
    checkpoints: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(STAGES))
    retired: dict[tuple[str, str], Any] = field(default_factory=dict)
    complete: set[tuple[str, str]] = field(default_factory=set)
    restoring: set[tuple[str, str]] = field(default_factory=set)
    claims: dict[str, str] = field(default_factory=dict)
    # Versions of a table before this one cannot be restored: VACUUM has deleted what only they have.
    vacuumed: dict[str, int] = field(default_factory=dict)
    entries: dict[str, list[JournalEntry]] = field(default_factory=dict)
    begins: list[tuple[str, str, Begin]] = field(default_factory=list)
    ran_under: set[tuple[str, str]] = field(default_factory=set)
    # (query id, table, version of the undo): streams that have begun to pass over what it has taken back.
    noted: set[tuple[str, str, int]] = field(default_factory=set)
    # What really is so, whatever the journal says.
    dirty: dict[str, set[str]] = field(default_factory=dict)
    saved: dict[str, dict[str, Any]] = field(default_factory=dict)
    may_miss: set[tuple[Any, int]] = field(default_factory=set)
    lost: set[tuple[Any, int]] = field(default_factory=set)

    def tick(self) -> int:
        self.now += 1
        return self.now

    # --- tables

    def append(self, name: str, rows: Iterable[Row], app: str = "", number: int = 0, note: str = "") -> bool:
        """False: Delta has seen the pair, and passes over the write."""
        if app and self._seen(name, app, number):
            return False
        added = tuple(rows)
        file = (File(self.tick(), added),) if added else ()
        self._commit(name, (*self.tables[name].content[-1], *file), note, (app, number))
        return True

    def keep_only(self, name: str, stays: Callable[[Row], bool], app: str, note: str) -> None:
        if self._seen(name, app, 0):
            return
        files = []
        for file in self.tables[name].content[-1]:
            rows = tuple(row for row in file.rows if stays(row))
            if len(rows) == len(file.rows):
                files.append(file)
            elif rows:
                files.append(File(self.tick(), rows))
        self._commit(name, tuple(files), note)

    def overwrite(self, name: str, rows: Iterable[Row], app: str, number: int, note: str) -> bool:
        if self._seen(name, app, number):
            return False
        self._commit(name, (File(self.tick(), tuple(rows)),), note, (app, number))
        return True

    def restore(self, name: str, version: int) -> None:
        self._commit(name, self.tables[name].content[version], f"restore {version}")

    def _seen(self, name: str, app: str, number: int) -> bool:
        """Delta compares with >=."""
        txns = self.tables[name].txns
        if txns.get(app, -1) >= number:
            return True
        txns[app] = number
        return False

    def _commit(self, name: str, files: tuple[File, ...], note: str, pair: tuple[str, int] = ("", 0)) -> None:
        table = self.tables[name]
        before = set(table.content[-1])
        adds = tuple(file for file in files if file not in before)
        table.commits.append(Commit(adds, not before <= set(files), note, self.tick(), pair))
        table.content.append(files)

    # --- journal

    def journals(self) -> tuple[Journal, ...]:
        found = [Journal(tuple(entries)) for entries in self.entries.values()]
        return tuple(sorted(found, key=lambda journal: journal.first.at))

    def write_entry(self, entry: JournalEntry) -> None:
        known = self.entries.setdefault(entry.digest, [])
        if not known or known[-1].number < entry.number:
            known.append(entry)

    # --- starts

    def begin_of(self, stage: str) -> Begin | None:
        """Of the newest remedy that stands."""
        for name, _, begin in reversed(self.begins):
            if name == stage and not (self.rules.undone_has_no_say and self._is_undone(begin.digest)):
                return begin
        return None

    def _is_undone(self, digest: str) -> bool:
        entries = self.entries.get(digest)
        return bool(entries) and Journal(tuple(entries or ())).state in (UNDOING, WITHDRAWN)

    def taken_back(self, name: str) -> tuple[TakenBack, ...]:
        """By undos, and by rewinds that stand, as the journal has them."""
        journals = self.journals() if self.rules.every_undo_counts else self.journals()[-1:]
        facts = [
            entry.facts
            for journal in journals
            for entry in journal.entries
            if "version" in entry.facts and self._takes_back(journal, entry, name)
        ]
        return tuple(sorted((TakenBack(one["restored"], one["version"]) for one in facts), key=lambda one: one.version))

    def _takes_back(self, journal: Journal, entry: JournalEntry, name: str) -> bool:
        if entry.state == UNDONE:
            return entry.step in (f"clear:{name}", f"restore:{name}")
        stands = journal.state != WITHDRAWN and entry.step not in journal.undone
        return entry.state == DONE and entry.step == f"restore:{name}" and stands and self.rules.rewinds_count

    def write_begin(self, stage: str, key: str, begin: Begin) -> None:
        if not any(name == stage and one == key for name, one, _ in self.begins):
            self.begins.append((stage, key, begin))

    # --- who is where

    def claim(self, stage: str, me: str) -> None:
        if self.claims.get(stage, me) != me:
            raise refusal("OWNER_RUNNING")
        self.claims[stage] = me

    def release(self, me: str, stages: Iterable[str] = STAGES) -> None:
        for stage in stages:
            if self.claims.get(stage) == me:
                del self.claims[stage]

    def contents(self, stages: Iterable[str]) -> dict[str, Any]:
        """Checkpoints as they are, tables as multisets."""
        found: dict[str, Any] = {}
        for stage in stages:
            found[stage] = self.checkpoints[stage]
            for name in OUTPUTS[stage]:
                found[name] = Counter(self.tables[name].rows())
        return found

    def positions(self, stage: str) -> list[tuple[Any, int]]:
        return [row[:2] for name in OUTPUTS[stage] for row in self.tables[name].rows()]


def refusal(code: str) -> Refused:
    return Refused(code, meaning="model", next="model", code=code)


def is_good(position: tuple[Any, ...]) -> bool:
    return (position[0] * 3 + position[1]) % 4 != 1


def key_of(position: tuple[Any, ...]) -> int:
    return int(position[0] + position[1]) % 3


def rank_of(position: tuple[Any, ...]) -> tuple[int, int, int]:
    """Newest is by revision, then by position."""
    return (position[1] * 7 + position[0]) % 5, position[0], position[1]


def newest_per_key(rows: Iterable[Row]) -> dict[int, Row]:
    found: dict[int, Row] = {}
    for row in rows:
        key = key_of(row)
        if key not in found or rank_of(row) > rank_of(found[key]):
            found[key] = row
    return found
