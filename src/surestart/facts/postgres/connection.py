"""Connections to the sink's database: one encoding, time zone and date style, and errors without secrets.

PostgreSQL's errors as four-part errors, sorted by SQLSTATE, without a password in any of them.

    28…                        cannot log in                              PostgresLoginRefused
    08…, 57P…, no state        cannot reach, thrown out                   PostgresUnreachable
    3D, 3F, 42P01, 42703       database, schema, table, column not there  PostgresTargetMissing
    42501                      not allowed                                PostgresPermissionDenied
    22…, 42804                 a value does not fit its column            PostgresTypeMismatch
    23…                        a constraint refuses a row                 PostgresRowsRefused
    40, 53, 54, 55, 57014      busy, full, locked, timed out              PostgresBusy

psycopg has no SQLSTATE for a connection that failed, only libpq's text: what it says in English is sorted by that.

Whatever it is, the batch's transaction is rolled back: nothing of it is in the target, and the next start replays it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from surestart.errors import CannotTell, Refused, StoppedHalfway, SurestartError, UsageError
from surestart.facts.postgres.url import Secret
from surestart.library_types import PostgresConnection
from surestart.typed import in_the_code
from surestart.words.next_commands import install_extra

if TYPE_CHECKING:
    import psycopg


# Without these a dead network is noticed after two hours (Linux's tcp_keepalive_time), and a batch hangs that long.
_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}


def open_connection(url: Secret, purpose: str, *, autocommit: bool = True) -> PostgresConnection:
    """A connection that speaks UTF-8, UTC and ISO dates. `purpose` is its application_name, for pg_stat_activity."""
    pg = driver()
    failure: SurestartError | None = None
    try:
        given = pg.conninfo.conninfo_to_dict(url.reveal())
    except pg.Error:
        # No word of the parser's message: it quotes what it could not parse, password included.
        failure = UsageError(
            "the database URL is not one that libpq can parse",
            meaning="The database was not reached, so nothing was written.",
            next=url.place.put,
            code="DatabaseUrlMalformed",
        )
    if failure is not None:
        raise failure
    settings = {**_PATIENCE, **given, "application_name": purpose[:63], "client_encoding": "UTF8"}
    where = f"connecting to {settings.get('host', 'the default host')}:{settings.get('port', 5432)}"
    try:
        connection: PostgresConnection = pg.connect(**settings, autocommit=True)
        try:
            connection.execute(
                # Below 1, a float's text, which numeric and text columns are given, is rounded.
                "SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO, YMD', false),"
                " set_config('extra_float_digits', '1', false)"
            )
            if connection.info.server_version >= 140000:
                # The driver's connection is idle while the executors load; a server that ends idle sessions would
                # take the batch's lock away.
                connection.execute("SELECT set_config('idle_session_timeout', '0', false)")
            connection.autocommit = autocommit
        except BaseException:
            connection.close()
            raise
        return connection
    except pg.Error as error:
        failure = error_in_four_parts(error, url, where)
    raise failure


def driver() -> Any:
    """The module psycopg, version 3."""
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError:
        psycopg = None  # type: ignore[assignment]
    if psycopg is None:
        raise UsageError(
            "the module psycopg is not installed in this Python",
            meaning="It is what talks to PostgreSQL, on the driver and on every executor.",
            next=install_extra("postgres"),
            code="PsycopgNotInstalled",
        )
    return psycopg


def name(*parts: str) -> str:
    """A quoted SQL name."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


_KINDS: dict[str, type[SurestartError]] = {
    kind.__name__: kind for kind in (CannotTell, Refused, StoppedHalfway, UsageError, SurestartError)
}
# A server's word when it refuses a connection, and the SQLSTATE that it sends along and psycopg does not pass on.
_FATAL = (
    (r"FATAL: +password authentication failed|no password supplied", "28P01"),
    (r"FATAL: +(no pg_hba\.conf entry|pg_hba\.conf rejects|\S+ authentication failed)", "28000"),
    (r'FATAL: +role ".*" (does not exist|is not permitted to log in)', "28000"),
    (r'FATAL: +database ".*" does not exist', "3D000"),
    (r"FATAL: +permission denied for database", "42501"),
    (r"FATAL: +(sorry, )?(too many (clients|connections)|remaining connection slots)", "53300"),
)
ROLLED_BACK = "Nothing of the batch is in the target; the next start replays it."
UNCHANGED = "Nothing was changed there."


def error_in_four_parts(error: psycopg.Error, url: Secret, doing: str, so: str = ROLLED_BACK) -> SurestartError:
    """The error to raise in its place. Raise it outside the `except` block: libpq may quote a URL, and a chained
    exception would carry that text into the log."""
    what, state = f"{doing}: {url.redact(_told(error))}", error.sqlstate or _state_told(error)
    found = _to_be_put_right(state, what, url, so)
    if found is not None:
        return found
    where = url.place.psql("select 1")
    if state[:2] in ("40", "53", "54", "55") or state == "57014":
        return StoppedHalfway(
            what,
            meaning=f"The server was busy, full, locked or out of time. {so}",
            next=where.noting("once it answers, run the same command again"),
            code="PostgresBusy",
        )
    if not state or state[:2] in ("08", "57"):
        return CannotTell(
            what,
            meaning=f"The database could not be reached or ended the connection. {so}",
            next=where,
            do_not="delete the checkpoint: it knows which batch is still to be written.",
            code="PostgresUnreachable",
        )
    return UsageError(
        what,
        meaning=f"The server refused a statement. {so}",
        next=where,
        code="PostgresRefused",
    )


def _to_be_put_right(state: str, what: str, url: Secret, so: str) -> UsageError | None:
    """What fails in the same way each time, until somebody puts it right."""
    if state.startswith("28"):
        return UsageError(
            what,
            meaning=f"The database refused the user or the password. {so}",
            next=url.place.psql("select 1"),
            code="PostgresLoginRefused",
        )
    if state in ("3D000", "3F000", "42P01", "42703"):
        return UsageError(
            what,
            meaning=f"A database, schema, table or column that the sink names does not exist. {so}",
            next=url.place.psql("\\d") if state != "3D000" else url.place.put,
            do_not="delete the checkpoint: it knows which batch is still to be written.",
            code="PostgresTargetMissing",
        )
    if state == "42501":
        return UsageError(
            what,
            meaning=f"The user may not do this. {so}",
            next=url.place.psql(
                "\\du", note="grant the rights listed in docs/postgres.md, then the same command again"
            ),
            do_not="run the pipeline as a superuser.",
            code="PostgresPermissionDenied",
        )
    if state.startswith("22") or state == "42804":
        return UsageError(
            what,
            meaning=f"A value does not fit the column it is meant for. {so}",
            next=in_the_code("change the column's type or the stage's transform, then run the same command again"),
            do_not="skip the batch: its other rows are good and would be lost.",
            code="PostgresTypeMismatch",
        )
    if state.startswith("23"):
        return UsageError(
            what,
            meaning=f"A constraint refuses a row: another writer was there or the data is wrong. {so}",
            next=in_the_code("correct the row named above, or use mode='upsert'; then run the same command again"),
            do_not="drop the constraint to get past it: that is how a second copy gets in.",
            code="PostgresRowsRefused",
        )
    return None


def as_values(error: SurestartError) -> dict[str, str]:
    """The error as text, to carry it from an executor to the driver without its traceback."""
    return {
        "kind": type(error).__name__,
        "what": error.what,
        "meaning": error.meaning,
        "next": str(error.next),
        "do_not": error.do_not,
        "code": error.code,
    }


def from_values(values: dict[str, str]) -> SurestartError:
    kind = _KINDS.get(values["kind"], SurestartError)
    rest = {name: values[name] for name in ("meaning", "next", "do_not", "code")}
    return kind(values["what"], **rest)


def _state_told(error: psycopg.Error) -> str:
    return next((state for pattern, state in _FATAL if re.search(pattern, str(error))), "")


def _told(error: psycopg.Error) -> str:
    lines = [error.diag.message_primary or str(error).strip() or type(error).__name__]
    if error.diag.message_detail:
        lines.append(error.diag.message_detail)
    if error.diag.context:
        # The first line of a COPY's context names the line and the column; the rest is the call stack.
        lines.append(error.diag.context.splitlines()[0])
    return " ".join(" ".join(lines).split()) + (f" [SQLSTATE {error.sqlstate}]" if error.sqlstate else "")
