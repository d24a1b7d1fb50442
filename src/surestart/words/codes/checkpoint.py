"""What a checkpoint tells, alone or beside the run history."""

from __future__ import annotations

from surestart.words.codes.code import HISTORY, REPLAY, RESET, RUN, Code, found

CODES: tuple[Code, ...] = (
    found("CHECKPOINT_ABSENT", "attention, info", "There is no such folder: a first start begins at batch 0."),
    found("CHECKPOINT_UNREADABLE", "cannot tell", "The folder, or a file in it that decides, could not be read."),
    found("NOT_A_CHECKPOINT", "cannot tell", "The folder holds other things: a table, or a root with checkpoints."),
    found("NEVER_STARTED", "cannot tell, attention, info", "No batch was ever planned: the next start begins at 0."),
    found("LOGS_EMPTY", "cannot tell", "No batch is planned, and a source has left notes: cut off, or both logs gone."),
    found("LOGS_DELETED", "unsafe, cannot tell", "Both logs are empty, and other files show that it has run.", REPLAY),
    found("METADATA_MISSING", "unsafe, cannot tell, attention", "No query id: a start makes one, or fails.", REPLAY),
    found("METADATA_TORN", "unsafe", "`metadata` holds no query id that can be read: every start fails.", REPLAY),
    found("METADATA_APPENDED", "attention", "Something that Spark did not write follows the query id."),
    found("IN_FLIGHT", "info", "The newest batch is planned and not committed: the next start replays it.", RUN),
    found("OFFSETS_TORN", "unsafe, attention", "An entry of `offsets/` is empty, cut off or no text.", REPLAY),
    found("OFFSETS_APPENDED", "attention", "Something that Spark did not write follows an offset entry."),
    found("OFFSETS_HOLE", "unsafe, cannot tell, attention", "A batch is missing between others in `offsets/`.", REPLAY),
    found("OFFSETS_DELETED", "unsafe", "`commits/` holds batches and `offsets/` none.", REPLAY),
    found("COMMITS_TORN", "unsafe, attention", "An entry of `commits/` is empty or cut off.", REPLAY),
    found("COMMITS_APPENDED", "attention", "Something that Spark did not write follows a commit."),
    found("COMMIT_CUT_TO_VERSION", "attention", "A commit lost its content and counts as whole: late rows come again."),
    found("COMMITS_HOLE", "attention", "A commit is missing between others; no start notices it."),
    found(
        "COMMITS_DELETED", "attention", "Several batches are planned and none is committed: only the newest replays."
    ),
    found("COMMITS_BEHIND", "attention", "`commits/` is two or more behind `offsets/`: only the newest replays."),
    found(
        "COMMIT_AHEAD",
        "unsafe",
        "`commits/` goes further than `offsets/`: every start runs a batch, then fails.",
        REPLAY,
    ),
    found("CHECKSUM_STALE", "unsafe", "A file was changed after Spark wrote it: its checksum differs.", REPLAY),
    found("CHECKSUM_WITHOUT_FILE", "attention", "A checksum is there without its file: somebody deleted the file."),
    found("LOG_VERSION", "unsafe", "An entry has a version that this Spark line cannot read."),
    found(
        "STATE_FORMAT_V2", "info", "The commits name state files: Spark 4.0 and 4.1 need a setting to read them.", RUN
    ),
    found("NAME_MISREAD", "unsafe, attention", "A file in a log has a name that Java takes for a number."),
    found(
        "FOLDER_IN_LOG", "unsafe, attention", "A folder has a batch's name: the batch runs and cannot be noted.", REPLAY
    ),
    found(
        "FOREIGN_ENTRY", "unsafe", "An entry is of other sources than the one before it: another query's file.", REPLAY
    ),
    found("CONTROL_BATCH", "info", "A batch was planned by an operation on the checkpoint; it moved no row."),
    found("CONTROL_BATCH_PENDING", "cannot tell", "An operation on the checkpoint was begun and not finished."),
    found("SOURCE_COUNT_CHANGED", "unsafe", "The stage declares another number of sources than it began with.", RESET),
    found("SOURCE_KIND_CHANGED", "unsafe", "The stage declares another kind of source than it began with.", RESET),
    found("POSITION_VOID", "unsafe", "A source that had a position has none in the newest batch.", REPLAY),
    found("POSITION_BACKWARD", "unsafe, attention", "A position moved back from one batch to the next.", REPLAY),
    found("POSITION_INVALID", "unsafe", "A position is negative or impossible.", REPLAY),
    found("FILE_LIST_DAMAGED", "unsafe", "The list of files that were read is missing, cut off or has a hole.", REPLAY),
    found("START_NOT_KNOWN", "cannot tell", "What the next start does cannot be told from the checkpoint alone."),
    found("SOURCE_NOTES_DAMAGED", "unsafe, attention", "A file that a source wrote for itself cannot be read.", REPLAY),
    found("KAFKA_INITIAL_OFFSETS", "unsafe, attention", "Where Kafka reading began is not known any more.", REPLAY),
    found("AUTO_LOADER_OPAQUE", "info", "Auto Loader keeps its list of files where only Databricks reads it."),
    found("STATE_MISSING", "unsafe", "The state that the next batch loads is not there, or is damaged.", RESET),
    found("STATE_EMPTY", "cannot tell", "state/ is there and holds nothing: what it may have lost is not known."),
    found("STATE_DAMAGED", "attention", "A state file or its description is not what Spark wrote."),
    found("STATE_PARTITIONS_UNCLEAR", "cannot tell", "How many partitions the state has to have cannot be told."),
    found("STATE_NOT_LISTED", "cannot tell", "The state has too many folders to list them over a network."),
    found("STATE_BEHIND_SINK", "unsafe", "The sink holds the batch in flight, and its state was never written.", RESET),
    found("REWOUND", "unsafe, cannot tell", "Batches after the newest planned one have run, and come again.", REPLAY),
    found("TAKEN_FROM_CHECKPOINT", "cannot tell", "Something was taken from the folder, and there is no state/."),
    found("COPIED", "attention, info", "The files are much younger than the batches that they describe."),
    found("SCHEMA_LOG_MOVED", "unsafe", "Delta's schema log was written for another path, and a start fails.", RESET),
    found("STATE_SCHEMA_MOVED", "attention", "The state names schema files at the place it was moved from."),
    found("TWO_WRITERS", "attention", "Two runs wrote into this checkpoint, or a clock was set back.", HISTORY),
    found("STRANGE_FILES", "attention", "The folder holds files that Spark did not make."),
    found("CHECKPOINT_IN_TABLE", "attention", "The checkpoint is in a Delta table's folder, where VACUUM deletes."),
    found("LEFTOVERS", "info", "Temporary files of writers that died; Spark passes over them.", RUN),
    found("START_FAILS", "unsafe", "The next start fails for a reason that has no code of its own.", REPLAY),
    found("CHECKPOINT_SHARED", "unsafe", "The folder is the checkpoint of another query or environment.", HISTORY),
    found("CHECKPOINT_PATH_CHANGED", "unsafe, cannot tell", "The last run used another folder than this one.", RESET),
    found(
        "CHECKPOINT_DELETED", "unsafe, cannot tell", "A run has committed batches in it, and it is empty now.", RESET
    ),
    found("CHECKPOINT_SWAPPED", "unsafe, cannot tell", "It has another query id than the last run had.", RESET),
)
