"""The claim on a query where drivers share nothing but the registry's table: a row that only one of them can commit.

    epoch = the query's newest epoch + 1
    append one row under the transaction (claim:<query>, epoch)
        committed by another in between   Delta refuses the commit (ConcurrentTransactionException)
        committed by another before       Delta passes over the write without a word
    read back: the row of that epoch names the owner

docs/gate.md says what a paused owner can still do: plan no batch and write none twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.registry.read_runs import read_runs
from surestart.registry.run_record import RunRecord
from surestart.registry.write_runs import append_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def claim_by_row(
    spark: SparkSession, environment: Environment, record: RunRecord, runs: Sequence[RunRecord]
) -> tuple[RunRecord, RunRecord]:
    """(our record with its epoch, the record that owns the query now): the same run when the claim is ours.

    runs: what was read before the decision to start; a claim made since then has their newest epoch + 1 as well.
    """
    epoch = 1 + max((run.epoch or 0 for run in runs if run.query == record.query), default=0)
    ours = replace(record, epoch=epoch)
    failure: Exception | None = None
    try:
        append_runs(spark, environment, (ours,), transaction=(f"claim:{record.query}", epoch))
    except Exception as problem:  # noqa: BLE001  Delta's conflict reaches Python under different types.
        # Whether it was the other driver's commit, the read below tells; if nobody won, it was something else.
        failure = problem
    owner = next((run for run in read_runs(environment, spark, record.query) if run.epoch == epoch), None)
    if owner is None:
        if failure is not None:
            raise failure
        raise RuntimeError(f"the claim of epoch {epoch} was neither written nor refused")
    return ours, owner
