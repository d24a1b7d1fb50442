"""Two writers, or what looks like two."""

from __future__ import annotations

from surestart.verdict.explanations.explanation import DOCTOR, HISTORY, RUN, Explanation, Risk

EXPLANATIONS = (
    Explanation(
        "CONCURRENT_STREAM_LOG_UPDATE",
        Risk.POSSIBLE,
        "A batch ran and its entry in offsets/ or commits/ was there already. Either "
        "a second query uses this checkpoint, or files of offsets/ were removed and "
        "those of commits/ kept, which gives the same message at every start.",
        "The batch's output was written before the error. A sink without (query id, batch id) gets it again at every "
        "start; Delta sinks that carry the pair drop it.",
        "resume, once the doctor has said which of the two it is",
        DOCTOR,
        "start it again before you know: each start runs the batch once more.",
        (r"Multiple streaming jobs detected for", r"Concurrent update to the log\b(?!.*file)"),
    ),
    Explanation(
        "_LEGACY_ERROR_TEMP_2207",
        Risk.POSSIBLE,
        "Another process created the same file in the checkpoint "
        "first: two queries use this checkpoint at this moment.",
        "Both may have written the batch. Sinks that carry (query id, batch id) have it once, others twice.",
        "none: stop one of the two, then run the other again",
        HISTORY,
        "start a third one to see whether it helps.",
        (r"Multiple streaming queries are concurrently using", r"SparkConcurrentModificationException"),
    ),
    Explanation(
        "CONCURRENT_QUERY",
        Risk.NO,
        "Two sessions started the same query at the same moment; this one lost and did not begin.",
        "Nothing was read or written by the one that failed.",
        "none: let the other one run",
        HISTORY,
        "start it again in a loop.",
        (r"Another instance of this query was just started by a concurrent session",),
    ),
    Explanation(
        "QUERY_ALREADY_ACTIVE",
        Risk.NO,
        "This session already runs a query with this checkpoint, "
        "and spark.sql.streaming.stopActiveRunOnRestart is false.",
        "Nothing was read or written by the second start.",
        "none: stop the running query first",
        HISTORY,
        "give the second start a checkpoint of its own: it would read everything again.",
        (r"Cannot start query with id .{0,80} as another query with same id is already active", r"already active"),
    ),
    Explanation(
        "DELTA_CONCURRENT_TRANSACTION",
        Risk.NO,
        "Two writers with the same application id (the query id, or txnAppId) "
        "committed to the table at once: two copies of one query are running.",
        "Delta let one of them in and refused this one, so the batch is "
        "in this table once. Sinks without the pair may have it twice.",
        "none: find and stop the second copy, then run",
        HISTORY,
        "change the application id to get past it: then both copies are let in.",
        (r"ConcurrentTransactionException",),
    ),
    Explanation(
        "DELTA_CONCURRENT_APPEND",
        Risk.NO,
        "While a MERGE, UPDATE or DELETE ran, another commit added files that it would have had to read.",
        "This write was rolled back as a whole; the batch is in flight and is replayed.",
        "none: run again; if it repeats, keep OPTIMIZE and other writers apart from this table or partition",
        RUN,
        patterns=(r"ConcurrentAppendException",),
    ),
    Explanation(
        "DELTA_CONCURRENT_DELETE_READ",
        Risk.NO,
        "While this write ran, another commit deleted files that it had read.",
        "This write was rolled back as a whole; the batch is in flight and is replayed.",
        "none: run again; if it repeats, do not run DELETE or OPTIMIZE against this table while the stream merges",
        RUN,
        patterns=(r"ConcurrentDeleteReadException",),
    ),
    Explanation(
        "DELTA_CONCURRENT_DELETE_DELETE",
        Risk.NO,
        "Two commits removed the same file: another MERGE, DELETE or OPTIMIZE was quicker.",
        "This write was rolled back as a whole; the batch is in flight and is replayed.",
        "none: run again",
        RUN,
        patterns=(r"ConcurrentDeleteDeleteException",),
    ),
    Explanation(
        "DELTA_CONCURRENT_WRITE",
        Risk.NO,
        "Another commit changed the table after this write had read it.",
        "This write was rolled back as a whole; the batch is in flight and is replayed.",
        "none: run again",
        RUN,
        patterns=(r"ConcurrentWriteException",),
    ),
    Explanation(
        "DELTA_PROTOCOL_CHANGED",
        Risk.NO,
        "Another commit changed the table's protocol (a table feature was switched on) while this write ran.",
        "This write was rolled back as a whole; the batch is in flight and is replayed.",
        "none: run again",
        RUN,
        patterns=(r"ProtocolChangedException",),
    ),
    Explanation(
        "DELTA_METADATA_CHANGED",
        Risk.NO,
        "Another commit changed the table's schema or properties while this write ran.",
        "This write was rolled back as a whole; the batch is in flight and is replayed.",
        "none: run again",
        RUN,
        patterns=(r"MetadataChangedException",),
    ),
)
