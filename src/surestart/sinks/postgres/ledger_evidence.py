"""What a Postgres sink's ledger says of every writer of its target. Reads only, in a read-only session.

query_id, step ─> last batch, when       who wrote, in the order of their last commits
target         ─> has it any row         an empty one cannot get a row twice
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from surestart.errors import SurestartError
from surestart.facts.delta import Commit, CommitMark, Transaction
from surestart.facts.evidence.sink_evidence import LEDGER, SinkEvidence, sink_missing, sink_unreadable

if TYPE_CHECKING:
    from surestart.facts.postgres.url import DatabaseUrl

# A remedy's own rows in the ledger, (remedy-<digest>, 0) and of its undo (…, 1): surestart.sinks.postgres.once.
REMEDY, RESTORED = "remedy-", 1
_NO_ROW = "the database answered without the row that was asked for"


def read_ledger_evidence(url: DatabaseUrl, target: str) -> SinkEvidence:
    """What the database says; its own reason when it does not answer."""
    from surestart.facts.postgres.connection import UNCHANGED, driver, error_in_four_parts, open_connection

    try:
        psycopg = driver()
        secret = url.read()
        try:
            with open_connection(secret, "surestart doctor") as connection:
                connection.execute("SET default_transaction_read_only = on")
                return _read(connection, target)
        except psycopg.Error as error:
            problem = error_in_four_parts(error, secret, f"reading the ledger of {target}", UNCHANGED)
            return sink_unreadable(problem, LEDGER)
        except OSError as error:
            # Not the server's own error: the way to it. Its words hold no part of the URL.
            return sink_unreadable(f"{type(error).__name__}: {error.strerror or 'no answer'}", LEDGER)
    except SurestartError as error:
        return sink_unreadable(error, LEDGER)


def _read(connection: Any, target: str) -> SinkEvidence:
    from surestart.facts.postgres.connection import name
    from surestart.facts.postgres.ledger import TABLE
    from surestart.facts.postgres.target import find_target

    found = connection.execute("SELECT to_regclass(%s)", (name(*target.split(".")),)).fetchone()
    if found is None:
        return sink_unreadable(_NO_ROW, LEDGER)
    if not found[0]:
        return sink_missing(LEDGER)
    place = find_target(connection, target)
    filled = connection.execute(f"SELECT EXISTS (SELECT 1 FROM {place.sql})").fetchone()
    ledger = name(place.schema, TABLE)
    there = connection.execute("SELECT to_regclass(%s)", (ledger,)).fetchone()
    if filled is None or there is None:
        return sink_unreadable(_NO_ROW, LEDGER)
    has_rows = bool(filled[0])
    if not there[0]:
        return SinkEvidence(source=LEDGER, has_rows=has_rows)
    rows = connection.execute(
        "SELECT query_id, step, max(batch_id), max(query), max(stage), max(committed_at), min(committed_at),"
        " count(*) OVER ()"
        f" FROM {ledger} WHERE target = %s GROUP BY query_id, step ORDER BY max(committed_at) NULLS FIRST",
        (place.label,),
    ).fetchall()
    if rows and rows[0][7] != len(rows):
        return sink_unreadable(f"its ledger gave {len(rows)} of {rows[0][7]} rows", LEDGER)
    commits = tuple(_commit(number, row) for number, row in enumerate(rows))
    transactions = {
        commit.mark.app_id: Transaction(commit.mark.batch_id, commit.timestamp) for commit in commits if commit.mark
    }
    commits = _without_undone(commits, rows)
    evidence = SinkEvidence(source=LEDGER, transactions=transactions, commits=commits, has_rows=has_rows)
    return replace(evidence, table_id=place.label)


def _without_undone(commits: tuple[Commit, ...], rows: list[tuple[Any, ...]]) -> tuple[Commit, ...]:
    """Without what was written between a remedy and its undo: the undo has taken it out again."""
    undone = [
        (row[6], row[5]) for row in rows if row[0].startswith(REMEDY) and row[2] == RESTORED and row[6] and row[5]
    ]
    kept = []
    for commit, row in zip(commits, rows, strict=True):
        stream, written = not row[0].startswith(REMEDY), row[5]
        if not (stream and written and any(first < written < last for first, last in undone)):
            kept.append(commit)
    return tuple(kept)


def _commit(number: int, row: tuple[Any, ...]) -> Commit:
    query_id, step, batch, query, stage, committed, _, _ = row
    return Commit(
        version=number,
        timestamp=int(committed.timestamp() * 1000) if committed else None,
        operation=LEDGER,
        mark=CommitMark(query=query, query_id=query_id, batch_id=int(batch), stage=stage, step=step),
    )
