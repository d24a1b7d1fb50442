"""What PostgreSQL, its ledger and the name of its URL can end with; and storage, state, files that are written, and the
broker of this machine."""

from __future__ import annotations

from surestart.typed import surestart
from surestart.words.codes.code import DOCTOR, KAFKA, RESET, RUN, STATUS, Code, found, raised

_START = surestart("kafka", "start")
_ADOPT = surestart("adopt", "--schema")
_ALL = surestart("inspect", "--help")

CODES: tuple[Code, ...] = (
    raised("DatabaseSecretUnreadable", "usage", "The secret that holds the URL cannot be read."),
    raised("DatabaseUrlInArgument", "usage", "A URL is in an argument, where everybody sees it."),
    raised("DatabaseUrlInCode", "usage", "A URL is given where the name of its place belongs."),
    raised("DatabaseUrlMalformed", "usage", "PostgreSQL's client does not understand the URL."),
    raised("DatabaseUrlMissing", "usage", "The place of the URL is empty."),
    raised("DatabaseUrlUnnamed", "usage", "Where the URL comes from is not said, or said twice."),
    raised("PostgresBatchTaken", "refused", "The ledger holds this batch under another run's attempt."),
    raised("PostgresBusy", "stopped half-way", "The server was busy, full, locked or out of time.", RUN),
    raised("PostgresColumnUnknown", "usage", "Columns of the batch and of the table do not fit."),
    raised("PostgresInDoubt", "cannot tell", "The connection ended at a COMMIT, and the ledger cannot be asked.", RUN),
    raised("PostgresKeptDiffers", "refused", "The rows that a remedy has kept are not as they were."),
    raised("PostgresKeyMissing", "usage", "The table has no unique index on the keys of the upsert."),
    raised("PostgresLedgerAhead", "refused", "The ledger holds later batches than the checkpoint."),
    raised("PostgresLedgerBehind", "refused", "The ledger lacks batches that the checkpoint counts as written."),
    raised("PostgresLoginRefused", "usage", "The server does not let this user in."),
    raised("PostgresNoColumns", "usage", "The batch has no column that the table could take."),
    raised("PostgresNullKey", "usage", "A row of the batch has no key or no position."),
    raised("PostgresOrderNotTotal", "usage", "Two rows of one key are equally new."),
    raised("PostgresPermissionDenied", "usage", "The user may not do this in the database."),
    raised("PostgresReferenced", "refused", "Other tables refer to the rows that would be removed."),
    raised("PostgresRefused", "usage", "The server refused a statement."),
    raised("PostgresRowsRefused", "usage", "A constraint of the table refuses a row."),
    raised("PostgresSinkMisused", "usage", "The fields of a PostgresSink do not fit each other."),
    raised("PostgresStagingMismatch", "refused", "Staging does not hold the rows that were loaded.", RUN),
    raised("PostgresTargetMissing", "usage, refused", "A database, schema, table or column is not there.", RESET),
    raised("PostgresTypeMismatch", "usage", "A value does not fit its column."),
    raised("PostgresUnreachable", "cannot tell", "The database could not be reached, or ended the connection."),
    raised("PsycopgNotInstalled", "usage", "psycopg is not installed."),
    raised("NoPipelineKnown", "usage", "Neither an option nor surestart.toml says which pipeline is meant.", _ADOPT),
    raised("ProjectFileNotUnderstood", "usage", "surestart.toml says something that is not understood.", _ADOPT),
    raised("PipelineOrStreams", "usage", "A pipeline or declared streams: which is meant is open.", STATUS),
    raised("ProjectFileClosed", "refused", "surestart.toml is written so that no stream can follow.", _ADOPT),
    raised("ProjectFileMoved", "refused", "surestart.toml was changed while it was written.", _ADOPT),
    raised("ProjectFileNotWritten", "usage", "surestart.toml cannot be written there.", _ADOPT),
    raised("NoRootGiven", "usage", "No folder was named under which streams are looked for.", _ADOPT),
    raised("StreamNameRefused", "usage", "The stream's name cannot be a word of a command.", _ADOPT),
    raised("StreamCheckpointRefused", "usage", "The checkpoint of a declared stream is not an absolute path.", _ADOPT),
    raised("StreamNotOurs", "usage", "surestart judges this stream, and its owner's code runs it.", DOCTOR),
    found("PLACE_NOT_LOOKED_AT", "cannot tell", "A place under the root could not be looked into.", _ALL),
    found("QUERY_ID_TWICE", "attention", "Two checkpoints have the query id of one query.", _ALL),
    found("CHECKPOINT_INSIDE_ANOTHER", "attention", "A checkpoint is in the folder of another one.", _ALL),
    raised("RootNotListed", "cannot tell", "The root that was to be searched for checkpoints cannot be listed.", _ALL),
    raised("SinkOfOneForAll", "usage", "A sink of one checkpoint was named for all of them.", _ALL),
    raised("StorageNotInstalled", "cannot tell", "The client of that storage is not installed."),
    raised("StorageNotReachable", "cannot tell", "That storage could not be reached."),
    raised("BundleNotWritten", "usage", "The archive of the evidence could not be written.", DOCTOR),
    raised("KafkaJarsNotResolved", "cannot tell", "The jars of the local broker could not be fetched.", _START),
    raised("KafkaNotFormatted", "cannot tell", "The folder of the local broker could not be prepared.", _START),
    raised("KafkaNotRunning", "cannot tell", "No local broker runs in that folder.", _START),
    raised("KafkaNotStarted", "cannot tell", "The local broker did not start.", KAFKA),
    raised("KeyNotOfColumn", "usage", "No key column of the state can hold the text that `--key` was given."),
    raised("StateFormUnknown", "cannot tell", "A state file is of a form, or of a size, that only Spark reads."),
    raised("StateNotReadable", "cannot tell", "A state file is torn, missing or out of reach."),
    raised("StateReaderNotInstalled", "cannot tell", "The library that reads RocksDB's files is not installed."),
    raised("StateNotThere", "usage, cannot tell", "The checkpoint has no such operator, store, partition or batch."),
    raised("NoFreePort", "cannot tell", "No free port was found.", KAFKA),
)
