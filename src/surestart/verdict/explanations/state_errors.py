"""State of aggregations, joins, deduplication and transformWithState."""

from __future__ import annotations

from surestart.verdict.explanations.explanation import DOCTOR, KEEP, RESET, RESUME, RUN, Explanation, Risk

_LOAD = "CANNOT_LOAD_STATE_STORE"
_SCHEMA_RISK = "Nothing was written by this start. With the check switched off, old state would be read as garbage."
_NO_CHECK = "switch off spark.sql.streaming.stateStore.stateSchemaCheck."
_CODE = "none if the code changed by mistake: put it back; a wanted change needs a reset, which recomputes the state"


def _schema(name: str, happened: str, patterns: tuple[str, ...] = ()) -> Explanation:
    return Explanation(name, Risk.NO, happened, _SCHEMA_RISK, _CODE, RESET, _NO_CHECK, patterns)


def _load(name: str, happened: str, patterns: tuple[str, ...] = ()) -> Explanation:
    return Explanation(
        f"{_LOAD}.{name}" if name else _LOAD,
        Risk.POSSIBLE,
        happened,
        "Nothing was written by this start. Without that version of the state the query cannot go on from this batch.",
        "resume, if an older consistent version is there; else reset, which recomputes the state from the source",
        RESUME,
        "clear the checkpoint location, as Spark's own message says: the sink's identity goes with it.",
        patterns,
    )


def _reader(name: str, happened: str) -> Explanation:
    return Explanation(
        name,
        Risk.NO,
        happened,
        "The state reader only reads; the query is not concerned.",
        "none: choose a batch and an operator that are there",
        DOCTOR,
    )


EXPLANATIONS = (
    _schema(
        "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        "The query's stateful operators are not those that the checkpoint was written with: one was added, removed, "
        "changed or moved.",
        (r"Streaming stateful operator name does not match",),
    ),
    _load(
        "",
        "State that the next batch needs cannot be loaded.",
        (r"Error reading (delta|snapshot|streaming state) file", r"Could not load state store"),
    ),
    _load("CANNOT_READ_STREAMING_STATE_FILE", "A state file is torn: it ends before its end mark."),
    _load(
        "CANNOT_READ_DELTA_FILE_NOT_EXISTS",
        "A change file of the state is missing: removed by hand or by a storage lifecycle "
        "rule, or never written because a foreachBatch function did not read the whole batch.",
        (r"delta file .{0,200} does not exist",),
    ),
    _load("CANNOT_READ_MISSING_SNAPSHOT_FILE", "A snapshot of the state that later changes build on is missing."),
    _load("CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT", "No snapshot is left from which the wanted version can be rebuilt."),
    _load(
        "INVALID_CHECKPOINT_LINEAGE",
        "The ids in commits/ and the state files do not belong together: "
        "files of two runs are mixed, as after a partial restore.",
    ),
    _load("AUTO_SNAPSHOT_REPAIR_FAILED", "A snapshot is damaged and could not be rebuilt from older ones."),
    _load("CANNOT_READ_CHECKPOINT", "A RocksDB checkpoint of the state cannot be read: of another version, or torn."),
    _load("CANNOT_READ_DELTA_FILE_KEY_SIZE", "A change file of the state is damaged: a key's length is impossible."),
    _load("CANNOT_READ_SNAPSHOT_FILE_KEY_SIZE", "A snapshot of the state is damaged: a key's length is impossible."),
    _load(
        "CANNOT_READ_SNAPSHOT_FILE_VALUE_SIZE", "A snapshot of the state is damaged: a value's length is impossible."
    ),
    _load("UNEXPECTED_VERSION", "The wanted version of the state is below the oldest that can exist."),
    _load("UNEXPECTED_FILE_SIZE", "A state file has another size than its index says: copied in part."),
    _load("INVALID_CHANGE_LOG_READER_VERSION", "A change log of the state has a format that this Spark does not read."),
    _load(
        "INVALID_CHANGE_LOG_WRITER_VERSION", "A change log of the state has a format that this Spark does not write."
    ),
    _load("SNAPSHOT_PARTITION_ID_NOT_FOUND", "The asked-for snapshot of a state partition is not there."),
    _load("UNCATEGORIZED", "State could not be loaded, for a reason that comes further down in the message."),
    Explanation(
        f"{_LOAD}.UNRELEASED_THREAD_ERROR",
        Risk.NO,
        "A task held a state store longer than the one that needed it was willing to wait: a slow or stuck task.",
        "The batch was not committed and is replayed.",
        "none: run again; if it repeats, look for the slow task",
        RUN,
    ),
    Explanation(
        f"{_LOAD}.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY",
        Risk.NO,
        "An executor ran out of memory while it loaded state.",
        "The batch was not committed and is replayed.",
        "none: give the executors more memory, or use smaller batches",
        RUN,
    ),
    Explanation(
        f"{_LOAD}.HDFS_STORE_PROVIDER_OUT_OF_MEMORY",
        Risk.NO,
        "An executor ran out of memory while it loaded state, which this provider keeps in memory as a whole.",
        "The batch was not committed and is replayed.",
        "none: give the executors more memory; the provider itself can only be changed with a reset",
        RUN,
    ),
    Explanation(
        "CANNOT_WRITE_STATE_STORE",
        Risk.NO,
        "State could not be written: storage full, gone, or permission withdrawn.",
        "The batch was not committed and is replayed.",
        "none: repair the storage, then run again",
        RUN,
    ),
    Explanation(
        "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        Risk.POSSIBLE,
        "The checkpoint counts batches, and the folder of a stateful operator "
        "is missing. Spark before 4.2 begins with empty state, without a word.",
        "Nothing was written by this start. With empty state, aggregates and deduplication begin from nothing.",
        "resume from a copy that has the folder; else reset",
        RESUME,
    ),
    _schema(
        "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        "The keys of the state (grouping, deduplication or join "
        "columns) have other types or another number than before.",
        (r"key schema does not match existing state key schema",),
    ),
    _schema(
        "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        "The values of the state (aggregates or state class) have other types or another number than before.",
        (r"value schema does not match existing state value schema",),
    ),
    _schema(
        "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
        "A key read from the state does not fit the query: another query's state, or another Spark's encoding.",
        (r"The streaming query failed to validate written state for key row",),
    ),
    _schema(
        "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
        "A value read from the state does not fit the query: another query's state, or another Spark's encoding.",
        (r"The streaming query failed to validate written state for value row",),
    ),
    _schema(
        "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION", "The state's values changed in a way that cannot be evolved."
    ),
    _schema(
        "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
        "The state's values have changed more often than the limit allows.",
    ),
    _schema(
        "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
        "The state has more schema files than the limit allows: state variables were changed too often.",
    ),
    _schema(
        "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
        "A setting of transformWithState differs from the one the checkpoint was begun with.",
    ),
    _schema(
        "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
        "A state variable of transformWithState has another kind (value, list, map) than before.",
    ),
    _schema(
        "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
        "A state variable of transformWithState has another schema than before.",
    ),
    Explanation(
        "STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED",
        Risk.NO,
        "State format version 2 was asked for with a provider that does not know it; only RocksDB does.",
        "Nothing was read or written.",
        "none: put spark.sql.streaming.stateStore.checkpointFormatVersion back",
        RUN,
    ),
    Explanation(
        "STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH",
        Risk.POSSIBLE,
        "The state that is loaded is not the one that the last commit "
        "names: files of two runs are mixed, or a second query writes here.",
        "The batch was not committed.",
        "resume, once the second writer or the mixed copy is found; else reset",
        DOCTOR,
    ),
    Explanation(
        "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
        Risk.YES,
        "A row of the state differs from its checksum: it was damaged in storage or in memory.",
        "The batch was not committed. Results computed from that row since the damage may be wrong.",
        "resume from an older version of the state; else reset, which recomputes it",
        RESUME,
        "switch the checksum off.",
    ),
    Explanation(
        "STATE_STORE_COMMIT_VALIDATION_FAILED",
        Risk.YES,
        "The foreachBatch function did not read every partition of the batch, so some state was not saved.",
        "The batch was not committed; rows that the function did not read were not written either.",
        "none: change the function so that it reads the whole batch, then run",
        RUN,
        "switch off spark.sql.streaming.stateStore.commitValidation.enabled.",
    ),
    Explanation(
        "STATE_STORE_INVALID_PROVIDER",
        Risk.NO,
        "The class in spark.sql.streaming.stateStore.providerClass is not a state store provider.",
        "Nothing was read or written.",
        "none: correct the setting; on an existing checkpoint the pinned one is used anyway",
        RUN,
    ),
    Explanation(
        "STATE_STORE",
        Risk.POSSIBLE,
        "The state store refused an operation.",
        "The batch was not committed and is replayed.",
        "none: read the message's own words; if the code is unchanged, resume",
        DOCTOR,
        KEEP,
    ),
    _reader("STDS_COMMITTED_BATCH_UNAVAILABLE", "The state reader finds no committed batch in the checkpoint."),
    _reader("STDS_OFFSET_LOG_UNAVAILABLE", "The state reader finds no offsets of the asked-for batch."),
    _reader("STDS_OFFSET_METADATA_LOG_UNAVAILABLE", "The offsets of the asked-for batch have no settings in them."),
    _reader("STDS_FAILED_TO_READ_OPERATOR_METADATA", "The state reader cannot read which operators the query had."),
    _reader("STDS_FAILED_TO_READ_STATE_SCHEMA", "The state reader cannot read the schema of the state."),
    _reader("STDS_NO_PARTITION_DISCOVERED_IN_STATE_STORE", "The state reader finds no partition in the state folder."),
    _reader("STDS", "The state reader was asked for something that is not there."),
)
