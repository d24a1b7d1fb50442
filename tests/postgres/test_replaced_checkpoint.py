"""A batch for PostgreSQL of a run whose checkpoint is another's by now: before it is loaded, and before its COMMIT."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from surestart.history.claim_file import take_claim
from surestart.history.run_record import RunRecord
from surestart.runs.running_query import start_query
from surestart.runs.stage_failures import StageFailed
from surestart.sinks.delta.same_identity import RunReplaced, refuse_replaced
from surestart.sinks.postgres.batch import write_batch
from surestart.sinks.postgres.copy import copy_batches
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.stage import BatchContext, Sink
from tests.gate.held_driver import HeldBack
from tests.gate.test_woken_driver import CODE, until
from tests.postgres.database import EVENTS, QUERY_ID, Database, append, arrow, readings
from tests.postgres.stream import APPEND, land, local, stage

OTHER = "5f6c1c0e-0000-4000-8000-000000000000"


def stopped_stream(spark: Any, root: Path, sink: Sink, claim: tuple[str, str] = ("", ""), **acts: Any) -> StageFailed:
    """How the stream ends. meanwhile: what happens before its first batch is written."""
    land(root, 0)
    with applied(spark, pairs(EVERYWHERE)):
        running = start_query(spark, local(root), stage(sink), claim=claim)
        try:
            acts.get("meanwhile", lambda: None)()
            # Not by `poll`, which would see it too: the batch itself has to stop.
            until(lambda: not running.query.isActive)
            with pytest.raises(StageFailed) as stopped:
                running.poll(0.1)
        finally:
            running.stop()
    return stopped.value


def put_another_in_its_place(checkpoint: Path) -> None:
    checkpoint.rename(checkpoint.with_name("aside"))
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(json.dumps({"id": OTHER}))


def assert_nothing_written(database: Database) -> None:
    assert database.rows("SELECT * FROM events") == Counter()
    assert database.one("SELECT count(*) FROM surestart_ledger") == 0
    assert database.staging_tables() == set()


def test_in_the_first_batch_of_a_new_checkpoint(spark: Any, database: Database, tmp_path: Path) -> None:
    database.execute(EVENTS)
    reached = tmp_path / "reached"

    def meanwhile() -> None:
        until(reached.exists)
        put_another_in_its_place(Path(local(tmp_path).checkpoint("load")))
        reached.with_name("go").touch()

    problem = stopped_stream(spark, tmp_path, HeldBack(APPEND, reached, 0), meanwhile=meanwhile)
    assert problem.code == CODE
    assert "Nothing of batch 0 was written" in problem.meaning
    assert OTHER in problem.what
    assert_nothing_written(database)


@pytest.mark.usefixtures("classic_only")
def test_in_a_batch_while_the_claim_is_anothers(spark: Any, database: Database, tmp_path: Path) -> None:
    """As in the middle of a remedy: the table is cleared, and the checkpoint not yet moved aside."""
    database.execute(EVENTS)
    claim = take_claim(tmp_path / "q.lock")
    assert claim is not None
    claim.write(RunRecord(run_id="another", query="q"))
    problem = stopped_stream(spark, tmp_path, APPEND, claim=(str(claim.path), "mine"))
    claim.release(clear=True)
    assert (problem.code, "is that of run another" in problem.what) == (CODE, True)
    assert_nothing_written(database)


def test_while_the_batch_is_being_loaded(database: Database, tmp_path: Path) -> None:
    """The last look is made when no remedy can clear the table any more."""
    database.execute(EVENTS)
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(json.dumps({"id": QUERY_ID}))
    context = BatchContext(local(tmp_path), "load", "sensor-load", str(checkpoint), query_id=QUERY_ID)
    batch = replace(append(database, 0), query_id=QUERY_ID)

    def load(staging: Any) -> Any:
        put_another_in_its_place(checkpoint)
        return (copy_batches([arrow(readings(0))], batch.url, staging),)

    with pytest.raises(RunReplaced, match=f"is that of {OTHER}"):
        write_batch(batch, load, lambda: refuse_replaced(context, QUERY_ID, QUERY_ID, 0))
    assert_nothing_written(database)
