"""One real PostgreSQL for the room, one database per test.

SURESTART_TEST_POSTGRES_URL names another server (its URL has a password, its user may create databases and roles);
the tests that restart or stop a server start their own.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import psycopg.conninfo
import pytest

from tests.postgres.database import Database
from tests.servers.postgres_server import PostgresServer, postgres_server

VARIABLE = "SURESTART_POSTGRES_URL"
# Processes die in these tests, machines do not: what the kernel has been given survives them.
UNSYNCED = {"fsync": "off"}


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    given = os.environ.get("SURESTART_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    with postgres_server(UNSYNCED) as server:
        yield server.url


@pytest.fixture
def database(server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """An empty database, whose URL stands in the variable that sinks read."""
    with _fresh_database(server_url) as made:
        monkeypatch.setenv(VARIABLE, made.url)
        yield made


@pytest.fixture(scope="module")
def shared_database(server_url: str) -> Iterator[Database]:
    """A database for the examples of one property: hypothesis runs them inside one test."""
    with _fresh_database(server_url) as made:
        yield made


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server of the test's own, to be stopped and restarted."""
    with postgres_server(UNSYNCED) as server:
        yield server


@contextmanager
def _fresh_database(server_url: str) -> Iterator[Database]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    with _admin(server_url) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    try:
        parts = psycopg.conninfo.conninfo_to_dict(server_url)
        url = (
            f"postgresql://{parts['user']}:{parts.get('password', '')}@{parts['host']}:{parts.get('port', 5432)}/{name}"
        )
        yield Database(url)
    finally:
        with _admin(server_url) as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _admin(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)
