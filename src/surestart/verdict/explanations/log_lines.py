"""Lines of a driver log that are no errors, and still decide what happens at a restart."""

from __future__ import annotations

from surestart.verdict.explanations.explanation import DOCTOR, RUN, Explanation, Risk

EXPLANATIONS = (
    Explanation(
        "SKIPPING_COMPLETE_EPOCH",
        Risk.POSSIBLE,
        "Delta dropped a batch because it has one with this number, or a higher one, from the same query id.",
        "Harmless once, for the batch that was in flight when a run ended. For a batch that never ran "
        "before, its rows are lost: the checkpoint was rewound, or the identity kept over reused batch ids.",
        "none if it is the first batch after a crash; else stop the query and replay",
        DOCTOR,
        "let it go on when the line appears for batch after batch.",
        (r"Skipping already complete epoch", r"[Aa]lready completed batch.{0,60}skip"),
    ),
    Explanation(
        "FILE_SINK_BATCH_SKIPPED",
        Risk.POSSIBLE,
        "The file sink dropped a batch because its log in the output folder has one with this number or a higher one.",
        "Harmless once after a crash. After a new checkpoint over "
        "the same folder, every batch up to the old number is lost.",
        "none if it is the first batch after a crash; else stop the query and reset",
        DOCTOR,
        "let it go on when the line appears for batch after batch.",
        (r"Skipping already committed batch",),
    ),
    Explanation(
        "COMMIT_LOG_BEHIND",
        Risk.POSSIBLE,
        "commits/ ends two or more batches before offsets/. Spark replays "
        "the newest planned batch only and takes those in between for done.",
        "If the sink was put back as well, the batches in between are in neither place.",
        "none if the sink holds them; else replay",
        DOCTOR,
        patterns=(r"Batch completion log latest batch id is \d+, which is not trailing batchid \d+ by one",),
    ),
    Explanation(
        "PINNED_CONF_WINS",
        Risk.NO,
        "A setting of the session differs from the one in the checkpoint; Spark uses the checkpoint's.",
        "No row is concerned; the new value has no effect.",
        "none: a changed number of state partitions needs a reset",
        RUN,
        patterns=(
            r"Updating the value of conf '[^']+' in current session from",
            r"spark\.sql\.shuffle\.partitions.{0,80}(offset log|checkpoint)",
        ),
    ),
    Explanation(
        "STOPPED_BY_ANOTHER_START",
        Risk.NO,
        "The same query was started a second time in this application, and Spark stopped the first one for it.",
        "The batch in flight is replayed by the second one.",
        "none: keep one of the two starts",
        RUN,
        patterns=(r"Stopping existing streaming query \[id=", r"stopActiveRunOnRestart"),
    ),
    Explanation(
        "QUERY_TERMINATED_BY_SIGTERM",
        Risk.NO,
        "The process was told to end: a job was cancelled, a cluster stopped, or an executor lost its machine.",
        "The batch in flight is planned and not committed; it is replayed.",
        "none: run again",
        RUN,
        patterns=(r"RECEIVED SIGNAL TERM", r"SparkContext was shut down", r"Job \d+ cancelled because SparkContext"),
    ),
    Explanation(
        "NO_SPACE_LEFT",
        Risk.POSSIBLE,
        "The disk is full. Files being written in that moment may be there with 0 bytes.",
        "The batch in flight is replayed; an empty file in offsets/ or commits/ stops every start.",
        "none: make room, then ask the doctor before the next start",
        DOCTOR,
        "delete the checkpoint to make room.",
        (r"No space left on device", r"DiskErrorException", r"Disk quota exceeded"),
    ),
    Explanation(
        "READ_ONLY_FILE_SYSTEM",
        Risk.NO,
        "The file system may not be written any more: mounted "
        "read-only, or set so by the kernel after an error of the disk.",
        "The batch in flight is replayed with the same rows.",
        "none: make it writable, then run",
        RUN,
        "move the checkpoint to another disk alone: the tables stay behind.",
        (r"Read-only file system",),
    ),
    Explanation(
        "OUT_OF_MEMORY",
        Risk.NO,
        "The driver or an executor ran out of memory.",
        "The batch in flight is planned and not committed; it is replayed, at the same size.",
        "none: give it more memory; a rate limit counts from the next new batch on, not for the one in flight",
        RUN,
        patterns=(r"java\.lang\.OutOfMemoryError", r"Container killed .{0,60} for exceeding memory limits"),
    ),
    Explanation(
        "PERMISSION_DENIED",
        Risk.NO,
        "The checkpoint, a table or a source may not be read or written by this user.",
        "Nothing was written by this start.",
        "none: give the right back, then run",
        RUN,
        "start under another checkpoint that happens to be writable: it begins from nothing.",
        (
            r"AccessDeniedException",
            r"Permission denied",
            r"AccessControlException",
            r"PERMISSION_DENIED",
            r"INSUFFICIENT_PERMISSIONS",
        ),
    ),
)
