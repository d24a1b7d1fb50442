"""What PostgreSQL, its ledger and the name of its URL can end with."""

from __future__ import annotations

from surestart.words.codes.code import RESET, RUN, Code, raised

CODES: tuple[Code, ...] = (
    raised("DatabaseSecretUnreadable", "usage", "The secret that holds the URL cannot be read."),
    raised("DatabaseUrlInArgument", "usage", "A URL stands in an argument, where everybody sees it."),
    raised("DatabaseUrlInCode", "usage", "A URL stands where the name of its place belongs."),
    raised("DatabaseUrlMalformed", "usage", "The URL is none that PostgreSQL's client understands."),
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
)
