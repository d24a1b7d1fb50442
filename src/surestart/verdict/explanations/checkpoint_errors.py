"""The checkpoint's own files: missing, torn, of another version, left over."""

from __future__ import annotations

from surestart.verdict.explanations.explanation import DOCTOR, RESET, RESUME, RUN, Explanation, Risk

_EVOLUTION = "STREAMING_QUERY_EVOLUTION_ERROR"
_REPARTITION = "STATE_REPARTITION_INVALID_CHECKPOINT"
# Of Databricks; its error page is the source, the wording is not.
_METADATA = "STREAMING_CHECKPOINT_METADATA_ERROR"

EXPLANATIONS = (
    Explanation(
        "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
        Risk.POSSIBLE,
        "The checkpoint has batches and no `metadata`, the file with the query id. Spark 4.2 and later refuse to "
        "start; "
        "earlier ones make a new id without a word.",
        "Nothing happened yet. Under a new id the sink does not recognise a batch in flight and takes it a second "
        "time.",
        "resume with the former id, which stands in the sink's own record; else reset",
        RESUME,
        "switch the check off (verifyMetadataExists.enabled) or let an older Spark start it.",
        (r"verifyMetadataExists",),
    ),
    Explanation(
        "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
        Risk.POSSIBLE,
        "The query would begin at batch 0, and the checkpoint holds commits, state or offsets of an earlier one: it "
        "was "
        "deleted in part.",
        "Nothing happened yet. What the sink does with batch 0 depends on whether `metadata` was kept.",
        "reset: the whole directory is moved aside, not a part of it",
        RESET,
        "delete the rest by hand and start: over output that was kept, every row comes twice or not at all.",
        (r"verifyCheckpointDirectoryEmptyOnStart",),
    ),
    Explanation(
        "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION",
        Risk.NO,
        "A file of the checkpoint has a format that this Spark does not know: a newer Spark wrote it.",
        "Nothing was read or written.",
        "none: run with the Spark version that wrote it, or a newer one",
        DOCTOR,
        "edit the version line.",
        (r"maximum supported log version is", r"UnsupportedLogVersion"),
    ),
    Explanation(
        "INVALID_LOG_VERSION.EXACT_MATCH_VERSION",
        Risk.NO,
        "The commit log's version differs from the one the session is set to (stateStore.checkpointFormatVersion). "
        "Spark "
        "4.0 and 4.1 want them equal.",
        "Nothing was read or written.",
        "none: set spark.sql.streaming.stateStore.checkpointFormatVersion to what the checkpoint has",
        DOCTOR,
        "edit the version line.",
        (r"only supported log version is",),
    ),
    Explanation(
        "INVALID_LOG_VERSION",
        Risk.NO,
        "A file of the checkpoint has a version that this Spark does not read.",
        "Nothing was read or written.",
        "none: run with the Spark version that wrote it",
        DOCTOR,
        "edit the version line.",
    ),
    Explanation(
        "MALFORMED_LOG_FILE",
        Risk.POSSIBLE,
        "The first line of a file in the checkpoint is not a version such as v1: the file is torn, overwritten or "
        "not "
        "Spark's.",
        "Nothing was read or written by this start. Whether the batch of that file is in the sink, the sink knows.",
        "resume, if the sink can say what it holds; else reset",
        RESUME,
        patterns=(r"Log file was malformed",),
    ),
    Explanation(
        "INCOMPLETE_LOG_FILE",
        Risk.POSSIBLE,
        "A file in offsets/ or commits/ has 0 bytes: the disk was full or the machine died while it was written.",
        "An empty commits/N means that batch N ran and is replayed. An empty offsets/N without commits/N means that "
        "N "
        "had not begun.",
        "resume: the doctor names the file and what removing it replays",
        RESUME,
        patterns=(r"Incomplete log file", r"Failed to read log file"),
    ),
    Explanation(
        "BATCH_DOES_NOT_EXIST",
        Risk.POSSIBLE,
        "offsets/ lacks the entry before the newest one. Spark needs two consecutive entries to start.",
        "Nothing was read or written by this start, and every further start fails in the same way.",
        "resume from the last consecutive pair, if the sink agrees; else reset",
        RESUME,
        "remove newer files of offsets/ and commits/ until it starts: the sink drops batches that it has seen.",
        (r"batch \d+ doesn.?t exist",),
    ),
    Explanation(
        "BATCH_METADATA_NOT_FOUND",
        Risk.POSSIBLE,
        "A file that a listing showed, or that the other log needs, is not there: a batch's entry was removed.",
        "Nothing was read or written by this start.",
        "resume, if the sink can say what it holds; else reset",
        RESUME,
        patterns=(r"Unable to find batch ",),
    ),
    Explanation(
        "SOURCE_COUNT_CHANGED",
        Risk.NO,
        "The checkpoint was written by a query with another number of sources, or its offsets file is cut off.",
        "Nothing was read or written.",
        "none if the code changed by mistake: put the sources back; else reset",
        DOCTOR,
        "delete the checkpoint to make the message go away.",
        (r"There are \[\d+\] sources in the checkpoint offsets and now there are \[\d+\] sources",),
    ),
    Explanation(
        "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
        Risk.POSSIBLE,
        "A state file differs from the checksum beside it. Spark 4.1 also says so after a retried batch, when the "
        "file is "
        "good and the checksum stale (SPARK-56461).",
        "Nothing was written by this start. If the file itself is damaged, state is lost from that version on.",
        "resume; 4.2 does not make stale checksums any more",
        RESUME,
        "delete .crc files before the state file was compared with a backup.",
    ),
    Explanation(
        "HADOOP_CHECKSUM_ERROR",
        Risk.NO,
        "A checkpoint file on a local disk was edited or moved without its hidden .crc file, and Hadoop refuses to "
        "read "
        "it.",
        "Nothing was read or written.",
        "resume: put the file back as it was, or move its hidden .crc along",
        RESUME,
        "delete all .crc files: they are the only sign of which file was changed.",
        (r"org\.apache\.hadoop\.fs\.ChecksumException", r"ChecksumException: Checksum error"),
    ),
    Explanation(
        "CANNOT_LOAD_CHECKPOINT_FILE_MANAGER",
        Risk.NO,
        "The class in spark.sql.streaming.checkpointFileManagerClass cannot be made: a wrong name or a missing jar.",
        "Nothing was read or written.",
        "none: correct the setting or add the jar",
        RUN,
    ),
    Explanation(
        "STREAMING_UNFINISHED_REPARTITION_DETECTED",
        Risk.NO,
        "An offline repartition of the state was begun and not finished.",
        "Nothing was read or written by this start.",
        "none: run the same repartition again, with the same number of partitions",
        DOCTOR,
        "start it with another number of partitions, or remove the newest batch.",
    ),
    Explanation(
        f"{_METADATA}.DETECTED_PENDING_CONTROL_BATCH",
        Risk.NO,
        "The newest batch of the checkpoint is a control batch that is not committed: an operation on the checkpoint "
        "(a rewind, a repartition of its state, a change of its properties) was begun and not finished.",
        "Nothing was read or written by this start. No row is in a control batch.",
        "none: run the same operation again until it ends, then the query",
        DOCTOR,
        "remove the newest batch, or start the query with other settings to get past it.",
        (r"Detected pending control batch",),
    ),
    Explanation(
        _METADATA,
        Risk.POSSIBLE,
        "An operation on the checkpoint, such as a rewind, found something that it cannot work with.",
        "Nothing was changed by the operation that says so.",
        "none: the doctor says what state the checkpoint is in",
        DOCTOR,
    ),
    Explanation(
        "STREAMING_UNRESUMABLE_CONTROL_BATCH_DETECTED",
        Risk.NO,
        "A control batch is unfinished, and this start asks for other settings than it was begun with: another number "
        "of state partitions, or another value of a checkpoint property.",
        "Nothing was read or written by this start.",
        "none: start it with the settings that the message names; change them when that has finished",
        DOCTOR,
        "remove the newest batch.",
        (r"Unfinished control batch",),
    ),
    Explanation(
        _REPARTITION,
        Risk.NO,
        "The checkpoint is not in a shape in which its state can be repartitioned.",
        "Nothing was changed.",
        "none: run the query until its last batch is committed, then repartition",
        RUN,
    ),
    Explanation(
        f"{_REPARTITION}.LAST_BATCH_FAILED",
        Risk.NO,
        "The last batch is planned and not committed. It must finish first, because exactly-once sinks know it by "
        "its "
        "number.",
        "Nothing was changed.",
        "none: run the query until the batch is committed, then repartition",
        RUN,
    ),
    Explanation(
        f"{_REPARTITION}.NO_COMMITTED_BATCH",
        Risk.NO,
        "No batch is committed, so there is no state to repartition.",
        "Nothing was changed.",
        "none: run the query once",
        RUN,
    ),
    Explanation(
        f"{_REPARTITION}.NO_BATCH_FOUND",
        Risk.NO,
        "The checkpoint has no batch at all: an empty or a wrong directory.",
        "Nothing was changed.",
        "none: check the path",
        DOCTOR,
    ),
    Explanation(
        f"{_REPARTITION}.OFFSET_SEQ_NOT_FOUND",
        Risk.POSSIBLE,
        "The offsets of the last batch are missing.",
        "Nothing was changed.",
        "resume, if the sink can say what it holds; else reset",
        RESUME,
    ),
    Explanation(
        _EVOLUTION,
        Risk.NO,
        "The names of the query's sources or sinks do not fit what the checkpoint was written with, or naming is not "
        "switched on.",
        "Nothing was read or written.",
        "none: put the names back, or take .name(...) out of the sources",
        DOCTOR,
    ),
    Explanation(
        f"{_EVOLUTION}.SOURCE_NAMING_NOT_SUPPORTED",
        Risk.NO,
        "A source was given a name while spark.sql.streaming.queryEvolution.enableSourceEvolution is false.",
        "Nothing was read or written.",
        "none: take .name(...) out; surestart's sources are matched by position",
        RUN,
    ),
    Explanation(
        f"{_EVOLUTION}.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT",
        Risk.NO,
        "Source evolution was switched on for a checkpoint that was begun without it.",
        "Nothing was read or written.",
        "none: switch it off again; a new checkpoint needs a reset",
        DOCTOR,
    ),
    Explanation(
        "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE",
        Risk.NO,
        "An asynchronous write to offsets/ or commits/ failed: storage full, gone, or permission withdrawn.",
        "The batch may be in the sink; it is replayed and a sink with (query id, batch id) recognises it.",
        "none: repair the storage, then run again",
        RUN,
    ),
    Explanation(
        "_LEGACY_ERROR_TEMP_1298",
        Risk.NO,
        "The query has no checkpoint location.",
        "Nothing was read or written. With a temporary location it would begin anew at every start.",
        "none: start it through surestart, which sets one fixed path",
        RUN,
        "set spark.sql.streaming.checkpointLocation for all queries: an unnamed query gets a random folder in it.",
        (r"checkpointLocation must be specified",),
    ),
    Explanation(
        "_LEGACY_ERROR_TEMP_2263",
        Risk.POSSIBLE,
        "Spark 2 wrote this checkpoint to a folder with an escaped name (%20 and the like), which stands beside the "
        "right "
        "one.",
        "Nothing was read or written. Started without moving it, the query would begin anew.",
        "none: move the escaped folder to the right name while the query is stopped",
        DOCTOR,
        "switch the check off.",
        (r"detected a possible problem with the location of your checkpoint",),
    ),
    Explanation(
        "WATERMARK_TRACKER_IS_NULL",
        Risk.NO,
        "The second line of the newest offsets file is empty: the file is torn, or of Spark 2.1.",
        "Nothing was read or written.",
        "resume, if the sink can say what it holds; else reset",
        RESUME,
        patterns=(r"WatermarkTracker.{0,40}(is|because).{0,20}null",),
    ),
    Explanation(
        "FILE_SOURCE_LOG_CONFLICT",
        Risk.POSSIBLE,
        "The file source's list of seen files has an entry that this run wanted to write: two queries share the "
        "checkpoint.",
        "The batch had not begun. The other query may have taken the files.",
        "none: find and stop the second query, then run",
        DOCTOR,
        patterns=(r"Concurrent update to the log.{0,80}(file|FileStreamSource)",),
    ),
    Explanation(
        "STREAM_METADATA_UNREADABLE",
        Risk.POSSIBLE,
        "`metadata`, the file with the query id, cannot be parsed: it is torn or overwritten.",
        "Nothing was read or written. Under a new id the sink does not recognise a batch in flight.",
        "resume with the former id, which stands in the sink's own record; else reset",
        RESUME,
        patterns=(r"Error reading stream metadata from", r"StreamMetadata.{0,80}(MappingException|ParseException)"),
    ),
)
