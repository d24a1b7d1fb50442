"""A Delta table as a source: another table, history gone, rewritten data, changed schema."""

from __future__ import annotations

from surestart.verdict.explanations.explanation import BACKFILL, DOCTOR, REPLAY, RESET, RUN, Explanation, Risk

_NO_DELETE = "delete the checkpoint, as the message says: over output that was kept, every row is written again."
_RESTART = "none: run again, once; only if it repeats, ask the doctor"
_SCHEMA_LOG = "none: give the stream a new schema tracking folder under its own checkpoint, then run"


def _schema_log(name: str, happened: str, patterns: tuple[str, ...] = ()) -> Explanation:
    return Explanation(
        name,
        Risk.NO,
        happened,
        "Nothing was read or written.",
        _SCHEMA_LOG,
        DOCTOR,
        "point it at another query's schema folder.",
        patterns,
    )


EXPLANATIONS = (
    Explanation(
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
        Risk.POSSIBLE,
        "The source table has another id than the one that the checkpoint has read: it was dropped and made again, "
        "replaced, or the path leads elsewhere.",
        "Nothing was read or written. What the old table held beyond the last batch is not known to be in the new one.",
        "replay of this stage from its output: it begins anew with the new table, and leaves out what the output has",
        REPLAY,
        _NO_DELETE,
        (r"reading from an unexpected Delta table",),
    ),
    Explanation(
        "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        Risk.YES,
        "A commit of the source table that the stream still had to read was cleaned "
        "up: the stream was stopped or slow for longer than delta.logRetentionDuration.",
        "This start lost nothing. The rows are still in the table unless "
        "they were deleted from it; only the record of what is new is gone.",
        "replay of this stage from its output: it begins anew with what the table holds, and leaves out what it has",
        REPLAY,
        _NO_DELETE,
        (r"it's likely your query is lagging behind",),
    ),
    Explanation(
        "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
        Risk.YES,
        "The source table's log begins later than the version that the checkpoint goes on with.",
        "This start lost nothing. With failOnDataLoss=false the commits in between would be skipped.",
        "replay of this stage from its output: it begins anew with what the table holds, and leaves out what it has",
        REPLAY,
        "set failOnDataLoss to false.",
        (r"Delta stream cannot resume from version \d+",),
    ),
    Explanation(
        "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
        Risk.YES,
        "The newest commits that the stream had seen are not in the source table's log: the table was put back to an "
        "older copy, or log files were removed. Delta before 4.4 loses such commits without a word.",
        "Rows of the vanished commits may have been passed on already.",
        "reset of this stage, after it is known what became of the table",
        DOCTOR,
        "switch off trailingCommitValidation.",
    ),
    Explanation(
        "RESERVOIR_VERSION_MOVED_BACK",
        Risk.POSSIBLE,
        "The position in the source table is before an earlier one: "
        "offsets of another run are mixed in, or the table was put back.",
        "Nothing was read or written.",
        "resume, if the sink can say what it holds; else reset",
        DOCTOR,
        patterns=(r"'?reservoirVersion'? .{0,60}moved back",),
    ),
    Explanation(
        "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
        Risk.POSSIBLE,
        "A commit of the source table rewrote existing rows (UPDATE, MERGE, "
        "overwrite or RESTORE); a stream of appended rows cannot express that.",
        "Nothing was passed on. skipChangeCommits leaves out the whole commit, its new rows included; ignoreChanges "
        "passes rewritten rows on again.",
        "replay of this stage from its output: it begins anew after the commit, and leaves out what the output has",
        REPLAY,
        "set ignoreChanges in front of a sink that appends, or take a fresh checkpoint as the message says.",
        (r"Detected a data update .{0,300} in the source table",),
    ),
    Explanation(
        "DELTA_SOURCE_IGNORE_DELETE",
        Risk.NO,
        "A commit of the source table deleted rows (TRUNCATE, a full DELETE, or a partition).",
        "Nothing was passed on. Rows that were deleted before they were read are missing downstream, as upstream.",
        "replay of this stage from its output: it begins anew after the commit, and leaves out what the output has",
        REPLAY,
        "set ignoreDeletes: deletions that a RESTORE has brought back come again as new rows, each of them twice.",
        patterns=(r"Detected deleted data .{0,300} from streaming source",),
    ),
    Explanation(
        "DELTA_SCHEMA_CHANGED",
        Risk.NO,
        "The source table's schema changed while the stream ran. Stopping is how the stream picks the new one up.",
        "The batch was not written and is run again.",
        _RESTART,
        RUN,
        _NO_DELETE,
        (r"Detected schema change(?! in version)",),
    ),
    Explanation(
        "DELTA_SCHEMA_CHANGED_WITH_VERSION",
        Risk.NO,
        "The source table's schema changed in the version that the "
        "message names. Stopping is how the stream picks it up.",
        "The batch was not written and is run again.",
        _RESTART,
        RUN,
        _NO_DELETE,
        (r"Detected schema change in version \d+",),
    ),
    Explanation(
        "DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS",
        Risk.NO,
        "The schema at the asked-for starting version differs from the present one.",
        "Nothing was written.",
        "none: run again; if it repeats, begin at a version after the change",
        RUN,
        _NO_DELETE,
    ),
    Explanation(
        "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART",
        Risk.NO,
        "The query was planned with another schema than the table has now.",
        "Nothing was written.",
        _RESTART,
        RUN,
        _NO_DELETE,
    ),
    Explanation(
        "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE",
        Risk.NO,
        "Columns of the source table were renamed, dropped or changed in type; a stream cannot read across that.",
        "Nothing was written.",
        "reset of this stage from the version after the change, once everything before it is read",
        RESET,
        _NO_DELETE,
    ),
    Explanation(
        "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
        Risk.NO,
        "Columns of the source table were renamed, dropped or changed in "
        "type; without schema tracking a stream cannot read across that.",
        "Nothing was written.",
        "none: set schemaTrackingLocation to a folder under the checkpoint, then run",
        RUN,
        _NO_DELETE,
        (r"Please provide a 'schemaTrackingLocation'",),
    ),
    Explanation(
        "DELTA_STREAMING_METADATA_EVOLUTION",
        Risk.NO,
        "The source table's schema, properties or protocol changed and "
        "the change was noted. Stopping is how the stream picks it up.",
        "The batch was not written and is run again.",
        _RESTART,
        RUN,
        _NO_DELETE,
    ),
    Explanation(
        "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
        Risk.NO,
        "Columns were renamed, dropped or changed in type, and "
        "Delta wants a yes before the stream goes past the change.",
        "The batch was not written.",
        "none: check the code against the new columns, set the conf that the message names, then run",
        RUN,
        "allow all future changes at once (…allowSourceColumnRenameAndDrop=always).",
    ),
    _schema_log(
        "DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT",
        "schemaTrackingLocation is not inside the checkpoint: the checkpoint was moved, or the option is wrong.",
    ),
    _schema_log(
        "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT",
        "Two sources use one schema tracking folder.",
    ),
    _schema_log(
        "DELTA_SOURCE_METADATA_PATH_DIFFERS",
        "The schema log remembers another checkpoint path: the checkpoint was moved or copied.",
        (r"Delta source metadata path used for execution .{0,300} is different",),
    ),
    _schema_log("DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED", "The schema log is torn."),
    _schema_log("DELTA_STREAMING_SCHEMA_LOG_PARSE_SCHEMA_FAILED", "The schema in the schema log cannot be parsed."),
    _schema_log(
        "DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID",
        "The schema log belongs to another table: the source was made again, or the folder is shared.",
    ),
    _schema_log(
        "DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_PARTITION_SCHEMA",
        "The schema log has other partition columns than the table.",
    ),
    _schema_log(
        "DELTA_STREAMING_SCHEMA_LOG_INIT_FAILED_INCOMPATIBLE_METADATA",
        "Schema tracking was switched on in the middle of an incompatible change.",
    ),
    _schema_log("DELTA_STREAMING_SCHEMA_LOG", "The schema log of the source cannot be used."),
    Explanation(
        "DELTA_STREAMING_INITIAL_SNAPSHOT_TOO_LARGE",
        Risk.NO,
        "The first read of the table would list more files than the limit allows.",
        "Nothing was read or written.",
        "none: begin at an explicit startingVersion and backfill the rest, or raise the limit",
        BACKFILL,
    ),
    Explanation(
        "DELTA_STREAMING_CHECK_COLUMN_MAPPING_NO_SNAPSHOT",
        Risk.NO,
        "The version at which the stream begins cannot be rebuilt, so column changes since then cannot be checked.",
        "Nothing was read or written.",
        "reset of this stage from a version that can be read",
        RESET,
        _NO_DELETE,
    ),
    Explanation(
        "DELTA_INVALID_SOURCE_VERSION",
        Risk.NO,
        "The offset of the Delta source has a format that this Delta does not know: a newer one wrote it.",
        "Nothing was read or written.",
        "none: run with the Delta version that wrote it, or a newer one",
        DOCTOR,
    ),
    Explanation(
        "DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION",
        Risk.NO,
        "The offset of the Delta source was written by a newer Delta.",
        "Nothing was read or written.",
        "none: run with that Delta version, or a newer one",
        DOCTOR,
    ),
    Explanation(
        "DELTA_INVALID_SOURCE_OFFSET_FORMAT",
        Risk.POSSIBLE,
        "The offset of the Delta source cannot be parsed: the offsets file is torn, or of another kind of source.",
        "Nothing was read or written.",
        "resume, if the sink can say what it holds; else reset",
        DOCTOR,
    ),
    Explanation(
        "DELTA_VERSION_NOT_FOUND",
        Risk.NO,
        "A version was asked for that the table's log does not reach.",
        "Nothing was read or written.",
        "none: choose a version within the bounds that the message names",
        DOCTOR,
    ),
)
