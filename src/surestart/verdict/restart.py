"""What the next start does with a checkpoint, by Spark's restart rule, for each Spark line.

    N = newest id in offsets/, C = newest id in commits/

    metadata unreadable            fails          metadata missing    4.2 refuses; before, a new query id, silently
    no offsets                     batch 0        … but commits or state are there: 4.1 refuses; before, batch 0 runs
                                                  and collides with an old commit, at every start
    offsets/N or N-1 unreadable    fails          offsets/N-1 missing fails: "batch N-1 doesn't exist"
    C unreadable                   fails
    C = N      starts N+1          C = N-1        replays N
    C < N-1    replays N only      C > N          replays N, then collides with commits/N: at every start

Rule: MicroBatchExecution.populateStartOffsets; tests/diagnosis/test_calibration restarts each line of it for real."""

from __future__ import annotations

from dataclasses import dataclass, replace

from surestart.declaration import StageDeclaration
from surestart.facts.checkpoint import log_file, positions
from surestart.facts.checkpoint.batch_logs import CommitLogEntry, OffsetLogEntry
from surestart.facts.checkpoint.log_file import LogFault
from surestart.facts.checkpoint.log_folder import LogFolder
from surestart.facts.checkpoint.positions import FilesPosition, UnknownPosition
from surestart.facts.checkpoint.snapshot import Checkpoint, CheckpointSource, is_checkpoint
from surestart.facts.checkpoint.state_versions import find_missing_state
from surestart.spark.spark_lines import DEFAULT, NAMES
from surestart.verdict.next_start import NextStart, Outcome
from surestart.words.amounts import batches


def predict_all(checkpoint: Checkpoint, declaration: StageDeclaration | None = None) -> tuple[NextStart, ...]:
    return tuple(predict_next_start(checkpoint, line, declaration) for line in NAMES)


def predict_next_start(
    checkpoint: Checkpoint, spark: str = DEFAULT, declaration: StageDeclaration | None = None
) -> NextStart:
    """What a start on that Spark line does first. Never guesses: what cannot be read gives CANNOT_TELL."""
    start = _predict(_Case(checkpoint, spark, declaration))
    if not checkpoint.checks_crc:
        return start
    # Measured on 3.5, 4.1 and 4.2: the default manager on a local disk (FileContextBasedCheckpointFileManager) reads
    # the logs without their checksums, and refuses to write a file whose checksum is there already. The one that
    # surestart's local sessions set (FileSystemBasedCheckpointFileManager) does neither.
    other = _collides(checkpoint, _predict(_Case(replace(checkpoint, crc_faults={}), spark, declaration)))
    return start if other == start else replace(start, otherwise=other)


def _predict(case: _Case) -> NextStart:
    checkpoint = case.checkpoint
    if checkpoint.exists is None:
        return case.cannot_tell("the folder cannot be listed", "")
    unreadable = next((fault for fault in checkpoint.faults if fault.kind == log_file.UNREADABLE), None)
    return (
        case.whole_folder() or case.metadata() or case.nothing_planned() or case.offsets() or case.commits(unreadable)
    )


def _collides(checkpoint: Checkpoint, start: NextStart) -> NextStart:
    """The same start, unless the checksum of a file that it is going to write lies there already: then it fails."""
    if start.outcome not in (Outcome.STARTS, Outcome.REPLAYS, Outcome.FIRST) or start.batch is None:
        return start
    for folder in (checkpoint.offsets_folder, checkpoint.commits_folder):
        left = start.batch in folder.crcs and start.batch not in folder.ids
        if left and (folder is checkpoint.commits_folder or start.outcome is not Outcome.REPLAYS):
            path = f"{folder.name}/.{start.batch}.crc"
            why = f"{path} is there and its file is not"
            return replace(start, outcome=Outcome.FAILS, batch=None, why=why, error=COLLIDES, at=path, cause="leftover")
    return start


def may_be_asynchronous(checkpoint: Checkpoint) -> bool:
    """Whether both logs lack the same batches: a query without state and with asyncProgressTrackingEnabled writes one
    of them now and then, and goes on from whichever it finds (Spark's AsyncProgressTrackingMicroBatchExecution)."""
    planned, committed = checkpoint.offsets_folder.ids, checkpoint.commits_folder.ids
    if not checkpoint.offsets_folder.holes or not committed or checkpoint.state.operators:
        return False
    both = max(planned[0], committed[0])
    since = [[batch for batch in ids if batch >= both] for ids in (planned, committed)]
    return since[1] in (since[0], since[0][:-1])


def may_be_continuous(checkpoint: Checkpoint) -> bool:
    """Whether no entry has a second line: continuous processing pins no settings and keeps no watermark (measured on
    4.1: the query goes on with its trigger, and fails with another one)."""
    entries = checkpoint.offsets.values()
    return bool(entries) and all(isinstance(one, OffsetLogEntry) and not one.has_metadata for one in entries)


@dataclass(frozen=True)
class _Case:
    checkpoint: Checkpoint
    spark: str
    declaration: StageDeclaration | None

    @property
    def line(self) -> tuple[int, int]:
        major, _, minor = self.spark.partition(".")
        return int(major), int(minor)

    @property
    def new_identity(self) -> bool:
        return self.checkpoint.query_id is None and self.checkpoint.metadata_fault is None

    def fails(self, error: str, why: str, at: str = "", cause: str = "") -> NextStart:
        return NextStart(self.spark, Outcome.FAILS, None, why, error, at, cause)

    def cannot_tell(self, why: str, at: str) -> NextStart:
        return NextStart(self.spark, Outcome.CANNOT_TELL, None, why, at=at, cause=log_file.UNREADABLE)

    def runs(self, outcome: Outcome, batch: int, why: str, error: str = "") -> NextStart:
        return NextStart(self.spark, outcome, batch, why, error, new_identity=self.new_identity)

    def of_fault(self, fault: LogFault) -> NextStart:
        """What Spark says when it reads a file that is not whole."""
        if fault.kind in (log_file.UNREADABLE, log_file.TOO_LARGE):
            return self.cannot_tell(fault.detail, fault.path)
        error = _ERRORS.get(fault.kind, "the file cannot be parsed")
        return self.fails(error, fault.detail, fault.path, fault.kind)

    def crc(self, path: str) -> NextStart | None:
        fault = self.checkpoint.crc_faults.get(path)
        return self.of_fault(fault) if fault else None

    def whole_folder(self) -> NextStart | None:
        checkpoint = self.checkpoint
        if checkpoint.exists is False:
            return NextStart(self.spark, Outcome.FIRST, 0, "there is no checkpoint", new_identity=True)
        if not is_checkpoint(checkpoint):
            return NextStart(self.spark, Outcome.CANNOT_TELL, None, "this is no checkpoint")
        for fault in checkpoint.other_faults:
            if fault.path in ("", "sources"):
                return self.of_fault(fault)
        for folder in (checkpoint.offsets_folder, checkpoint.commits_folder):
            for fault in folder.faults:
                if fault.path == folder.name:
                    return self.of_fault(fault)
        return None

    def metadata(self) -> NextStart | None:
        checkpoint = self.checkpoint
        if checkpoint.metadata_fault:
            return self.of_fault(checkpoint.metadata_fault)
        if crc := self.crc("metadata"):
            return crc
        used = checkpoint.latest_planned is not None or checkpoint.latest_committed is not None
        if checkpoint.query_id is None and used and self.line >= (4, 2):
            why = "metadata is missing and batches are there"
            return self.fails("STREAMING_CHECKPOINT_MISSING_METADATA_FILE", why, "metadata", "missing")
        return None

    def nothing_planned(self) -> NextStart | None:
        checkpoint = self.checkpoint
        if checkpoint.latest_planned is not None:
            return None
        commits, state = checkpoint.commits_folder, checkpoint.state
        occupied = [
            folder.name
            for folder in (checkpoint.offsets_folder, commits)
            if folder.ids or folder.strays or folder.faults
        ]
        if state.exists and (state.operators or state.files):
            occupied.append("state")
        if occupied and self.line >= (4, 1):
            why = f"no batch is planned, and {' and '.join(occupied)} {'is' if len(occupied) == 1 else 'are'} not empty"
            return self.fails("STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY", why, occupied[0], "leftover")
        if commits.ids:
            first = commits.ids[0]
            held = batches(first, commits.ids[-1])
            why = f"offsets/ is empty, commits/ holds {held}: batch {first} cannot commit again"
            return self.runs(Outcome.LOOPS, 0, why, CONCURRENT)
        return self.runs(Outcome.FIRST, 0, "no batch is planned")

    def offsets(self) -> NextStart | None:
        """Reads what Spark reads: offsets/N, then offsets/N-1."""
        checkpoint, newest = self.checkpoint, self.checkpoint.latest_planned
        assert newest is not None
        if misread := _misread(checkpoint.offsets_folder):
            return self.fails(f"offsets/{misread[1]} does not exist", *misread[2:])
        for batch in (newest, newest - 1):
            if batch < 0:
                continue
            path = f"offsets/{batch}"
            entry = checkpoint.offsets.get(batch)
            if entry is None and batch != newest and may_be_asynchronous(checkpoint):
                why = f"{path} is missing, as asynchronous progress tracking leaves it: without that option it fails"
                return self.cannot_tell(why, path)
            if entry is None:
                return self.fails(f"batch {batch} doesn't exist", f"{path} is missing", path, "missing")
            if crc := self.crc(path):
                return crc
            if isinstance(entry, LogFault):
                return self.of_fault(entry)
            if wrong := self._entry(entry, path):
                return wrong
        return None

    def _entry(self, entry: OffsetLogEntry, path: str) -> NextStart | None:
        if entry.version == 2 and self.line < (4, 2):
            why = f"{path} has version v2, which Spark {self.spark} cannot read"
            return self.fails("INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION", why, path, log_file.VERSION)
        count = len(entry.sources)
        wanted = len(self.declaration.sources) if self.declaration else self._other_count(entry)
        if entry.version == 1 and (count == 0 or (wanted is not None and wanted != count)):
            error = f"There are [{count}] sources in the checkpoint offsets and now there are [{wanted or 'n'}]"
            cause = log_file.TORN if count == 0 else "source count"
            return self.fails(error, f"{path} holds {count} sources", path, cause)
        if not entry.has_metadata and may_be_continuous(self.checkpoint):
            why = f"line 2 of {path} is empty, as a continuous trigger leaves it: with any other trigger it fails"
            return self.cannot_tell(why, path)
        if not entry.has_metadata:
            # Without line 2 Spark 3 and 4 never make the watermark tracker that they use a moment later.
            why = f"line 2 of {path} is empty"
            return self.fails("NullPointerException: WatermarkTracker is null", why, path, log_file.TORN)
        for source in entry.sources:
            if isinstance(source.position, UnknownPosition) and source.position.broken:
                why = f"{path}: the position of source {source.id} is not whole JSON"
                return self.fails(BAD_OFFSET, why, path, log_file.TORN)
            own = next((found.folder for found in self.checkpoint.sources if found.id == source.id), None)
            kept = own.kind if own else positions.NONE_YET
            if kept in _TOLD_BY_FOLDER and source.position.kind in _TOLD_BY_OFFSET and kept != source.position.kind:
                why = f"{path} has a {source.position.kind} position, sources/{source.id} is a {kept} source's"
                return self.fails(BAD_OFFSET, why, path, "source kind")
        return None

    def _other_count(self, entry: OffsetLogEntry) -> int | None:
        """How many sources the newest entry but one has: a query has the same number in both."""
        newest = self.checkpoint.latest_planned or 0
        other = self.checkpoint.offsets.get(newest - 1)
        return len(other.sources) if entry.batch == newest and isinstance(other, OffsetLogEntry) else None

    def commits(self, unreadable: LogFault | None) -> NextStart:
        checkpoint = self.checkpoint
        newest, committed = checkpoint.latest_planned, checkpoint.latest_committed
        assert newest is not None
        if misread := _misread(checkpoint.commits_folder):
            return self.fails(f"commits/{misread[1]} does not exist", *misread[2:])
        if committed is not None:
            path = f"commits/{committed}"
            entry = checkpoint.latest_commit
            if crc := self.crc(path):
                return crc
            if isinstance(entry, LogFault):
                return self.of_fault(entry)
            if entry is not None and (wrong := self._commit_version(entry, path)):
                return wrong
        if unreadable is not None:
            return self.cannot_tell(unreadable.detail, unreadable.path)
        if committed is not None and committed > newest:
            why = f"commits/ goes to {committed}, offsets/ only to {newest}"
            if missing := self._missing(newest):
                return missing
            return self.runs(Outcome.LOOPS, newest, why, CONCURRENT)
        if committed == newest:
            why = f"batch {newest} is planned and committed"
            return self._missing(newest + 1) or self._blocked(newest + 1) or self.runs(Outcome.STARTS, newest + 1, why)
        behind = "nothing is committed" if committed is None else f"the newest commit is {committed}"
        why = f"batch {newest} is planned, {behind}"
        return self._missing(newest) or self._blocked(newest) or self.runs(Outcome.REPLAYS, newest, why)

    def _blocked(self, batch: int) -> NextStart | None:
        """A folder with the batch's name: the listing passes over it, the write runs into it."""
        if batch in self.checkpoint.offsets_folder.blocked:
            return self.fails(CONCURRENT, f"offsets/{batch} is a folder", f"offsets/{batch}", log_file.NOT_A_FILE)
        if batch in self.checkpoint.commits_folder.blocked:
            return self.runs(Outcome.LOOPS, batch, f"commits/{batch} is a folder", CONCURRENT)
        return None

    def _commit_version(self, entry: CommitLogEntry, path: str) -> NextStart | None:
        if entry.version > 1 and self.line < (4, 0):
            why = f"{path} has version v{entry.version}, which Spark {self.spark} cannot read"
            return self.fails("UnsupportedLogVersion", why, path, log_file.VERSION)
        if self.line < (4, 2) and (entry.version > 2 or (entry.version == 2 and not entry.state_ids)):
            # 4.0 and 4.1 want exactly the version that the session's checkpointFormatVersion writes.
            why = f"{path} has version v{entry.version}, which Spark {self.spark} refuses"
            return self.fails("INVALID_LOG_VERSION.EXACT_MATCH_VERSION", why, path, log_file.VERSION)
        return None

    def _missing(self, batch: int) -> NextStart | None:
        """What `batch` needs beside the two logs: the file source's list, and state of version `batch`."""
        for source in self.checkpoint.sources:
            lacking = _missing_files(source, self.checkpoint)
            twin = _read_twice(source, self.checkpoint) if lacking else None
            if twin is not None:
                if self._declared_alike(source, twin):
                    continue
                return self.cannot_tell(
                    f"{lacking}, as source {twin.id} is in every batch kept: one source that the query reads twice has "
                    "one list, two sources have two",
                    f"sources/{source.id}",
                )
            if lacking:
                return self.fails("the list of files seen is not whole", lacking, f"sources/{source.id}", "source list")
        state = find_missing_state(self.checkpoint, batch, self.declaration)
        if state is None:
            return None
        if state.unclear:
            return NextStart(self.spark, Outcome.CANNOT_TELL, None, state.detail, at=state.path, cause="state")
        error = "CANNOT_LOAD_STATE_STORE"
        if self.line >= (4, 2) and state.folder_missing:
            error = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
        return self.fails(error, state.detail, state.path, "state")

    def _declared_alike(self, source: CheckpointSource, twin: CheckpointSource) -> bool:
        """Whether both sources are declared, and declared alike."""
        sources = self.checkpoint.sources
        declared = self.declaration.sources if self.declaration is not None else ()
        if len(declared) != len(sources):
            return False
        one, other = declared[sources.index(source)], declared[sources.index(twin)]
        return one.kind == other.kind == positions.FILES and bool(one.target) and one == other


COLLIDES = "Multiple streaming queries are concurrently using the checkpoint (said once; the next start goes on)"
CONCURRENT = "CONCURRENT_STREAM_LOG_UPDATE"
BAD_OFFSET = "the source cannot parse its offset"
_TOLD_BY_FOLDER = frozenset({positions.KAFKA, positions.FILES})
_TOLD_BY_OFFSET = frozenset({positions.KAFKA, positions.FILES, positions.DELTA, positions.AUTO_LOADER})
_ERRORS = {
    log_file.EMPTY: "Incomplete log file",
    log_file.TORN: "MALFORMED_LOG_FILE, or the JSON parser's own error",
    log_file.VERSION: "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION",
    log_file.NOT_A_FILE: "the file system's own error: not a file",
    log_file.STALE_CRC: "org.apache.hadoop.fs.ChecksumException: Checksum error",
}


def _misread(folder: LogFolder) -> tuple[str, int, str, str, str] | None:
    """A name that Java's parseLong takes for a batch newer than the newest: (name, batch, why, path, cause)."""
    newest = folder.last if folder.last is not None else -1
    found = next(((name, batch) for name, batch in folder.misread if batch > newest), None)
    if found is None:
        return None
    name, batch = found
    return name, batch, f"Spark takes {folder.name}/{name} for batch {batch}", f"{folder.name}/{name}", "stray"


def _read_twice(source: CheckpointSource, checkpoint: Checkpoint) -> CheckpointSource | None:
    """The source that this one may be once more. A query that joins a stream of files with itself writes the offset
    twice and keeps one list: Spark makes one source of two equal relations (seen on 3.5 to 4.2)."""
    if source.folder is not None:
        return None
    index = checkpoint.sources.index(source)
    entries = [entry for entry in checkpoint.offsets.values() if isinstance(entry, OffsetLogEntry)]
    for place, twin in enumerate(checkpoint.sources[:index]):
        if twin.kind != source.kind or twin.folder is None or twin.folder.file_log is None:
            continue
        if entries and all(
            len(entry.sources) > index and entry.sources[place].text == entry.sources[index].text for entry in entries
        ):
            return twin
    return None


def _missing_files(source: CheckpointSource, checkpoint: Checkpoint) -> str:
    """Why the file source cannot give the batch between its last two positions again, or ""."""
    if source.kind != positions.FILES or not isinstance(source.end, FilesPosition):
        return ""
    log = source.folder.file_log if source.folder else None
    if log is None:
        return f"sources/{source.id} holds no list, and the offsets are at entry {source.end.log_offset}"
    faults = source.folder.faults if source.folder else ()
    stopping = [fault for fault in faults if fault.kind != log_file.FORGETFUL]
    if stopping:
        return stopping[0].detail
    if isinstance(source.start, FilesPosition) and source.start.log_offset > source.end.log_offset:
        return (
            f"the position of source {source.id} moved back from {source.start.log_offset} to {source.end.log_offset}"
        )
    if log.last < source.end.log_offset:
        return f"sources/{source.id} ends at entry {log.last}, the offsets are at {source.end.log_offset}"
    return f"sources/{source.id} lacks entry {log.missing[0]}" if log.missing else ""
