"""A Delta table as a sink, and tables whose own log is damaged."""

from __future__ import annotations

from surestart.verdict.explanations.explanation import DOCTOR, RESET, RUN, Explanation, Risk

EXPLANATIONS = (
    Explanation(
        "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
        Risk.NO,
        "txnAppId or txnVersion stands alone: one is set without the "
        "other, or autoReset took the version away after a first write.",
        "This write was refused, so nothing was doubled. A pair "
        "left behind in a session makes Delta drop its next write.",
        "none: set and unset both around one command (surestart.sinks.delta.merge.transaction)",
        RUN,
        "set a constant pair for the whole session.",
        (r"Invalid options for idempotent Dataframe writes",),
    ),
    Explanation(
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        Risk.NO,
        "Two rows of the batch match one row of the table, so MERGE cannot decide.",
        "The batch was not written and is replayed, with the same result.",
        "none: choose one row per key before the MERGE (surestart.sinks.delta.merge.newest_per_key), then run",
        RUN,
    ),
    Explanation(
        "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY",
        Risk.NO,
        "Executors were lost again and again while MERGE kept its source in memory.",
        "The batch was not written and is replayed.",
        "none: look for the lost executors (memory, spot instances), then run",
        RUN,
    ),
    Explanation(
        "DELTA_MERGE_SOURCE_CACHED_DURING_EXECUTION",
        Risk.NO,
        "The batch was cached while MERGE was reading it.",
        "The batch was not written and is replayed.",
        "none: cache before the MERGE or not at all",
        RUN,
    ),
    Explanation(
        "DELTA_LOG_FILE_NOT_FOUND",
        Risk.YES,
        "Commits between the last checkpoint of the table's log and the wanted "
        "version are missing: removed by hand or by a storage lifecycle rule.",
        "The table's newest versions cannot be rebuilt.",
        "none for the query: restore the table's log first, then ask the doctor",
        DOCTOR,
        "make log files by hand or delete the table's checkpoint files.",
    ),
    Explanation(
        "DELTA_TRUNCATED_TRANSACTION_LOG",
        Risk.YES,
        "The table's log lacks files that its state is made of.",
        "The table cannot be read at that version.",
        "none for the query: restore the table's log first, then ask the doctor",
        DOCTOR,
        "make log files by hand.",
        (r"the transaction log has been truncated due to manual deletion",),
    ),
    Explanation(
        "DELTA_TXN_LOG_FAILED_INTEGRITY",
        Risk.YES,
        "The table's log contradicts its own checksums.",
        "What the table holds cannot be relied on from that version on.",
        "none for the query: restore the table first, then ask the doctor",
        DOCTOR,
        "switch the check off.",
    ),
    Explanation(
        "DELTA_FAILED_TO_MERGE_FIELDS",
        Risk.NO,
        "A column of the batch has another type than in the table.",
        "The batch was not written and is replayed.",
        "none: change the code or the table's column, then run",
        RUN,
        "overwrite the table's schema: overwriteSchema replaces its rows.",
        (r"Failed to merge fields",),
    ),
    Explanation(
        "DELTA_METADATA_MISMATCH",
        Risk.NO,
        "The batch has columns that the table has not.",
        "The batch was not written and is replayed.",
        "none: add the column to the table, or set mergeSchema for one run, then run",
        RUN,
        "overwrite the table's schema.",
        (r"A schema mismatch detected when writing to the Delta table",),
    ),
    Explanation(
        "DELTA_TABLE_NOT_FOUND",
        Risk.POSSIBLE,
        "The table is not there: dropped, renamed, or another environment.",
        "Nothing was written. A table made anew is empty, and the checkpoint counts its rows as written.",
        "reset, once it is known where the table went",
        RESET,
        "let the next start make an empty table.",
        (r"is not a Delta table",),
    ),
    Explanation(
        "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        Risk.NO,
        "The table is append-only (delta.appendOnly), and the write would change or delete rows.",
        "Nothing was written.",
        "none: use an append sink for this table",
        RUN,
    ),
)
