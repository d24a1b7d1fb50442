"""Connections to the sink's database: one encoding, time zone and date style, and errors without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surestart.errors import SurestartError, UsageError
from surestart.facts.postgres.errors import error_in_four_parts
from surestart.facts.postgres.url import Secret
from surestart.words.extras import install_extra

if TYPE_CHECKING:
    import psycopg

# Without these a dead network is noticed after two hours (Linux's tcp_keepalive_time), and a batch hangs that long.
_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}


def open_connection(url: Secret, purpose: str, *, autocommit: bool = True) -> psycopg.Connection[Any]:
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
        connection: psycopg.Connection[Any] = pg.connect(**settings, autocommit=True)
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
