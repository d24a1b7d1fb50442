"""Under which query id a batch is written: that of the running query, which is the one in its checkpoint."""

from __future__ import annotations

from surestart.errors import Refused, UsageError
from surestart.sinks.delta.transaction import read_query_id
from surestart.spark.session import is_connect, running_query_id
from surestart.spark_types import SparkSession
from surestart.typed import in_the_code, surestart


def identity_of_batch(spark: SparkSession, checkpoint: str = "") -> str:
    """The pair's query id. Raises when no query is running here, or when several are and nobody has said which one it
    is."""
    running = _running_ids(spark)
    if checkpoint:
        own = read_query_id(checkpoint, spark, lambda: running[0] if len(running) == 1 else "")
        if running and own not in running:
            raise Refused(
                f"the batch comes from query {' or '.join(running)}, and {checkpoint} is that of {own}",
                meaning="Written under another query's id, batches would be dropped for each other. Nothing of this "
                "one was written.",
                next=surestart("inspect", checkpoint),
                do_not="write under an id of your own.",
                code="OnceOfAnotherQuery",
            )
        return own
    if len(running) == 1:
        return running[0]
    raise UsageError(
        f"surestart.once was called where {len(running)} queries run, and which one the batch is of cannot be told",
        meaning="Without the query's id a batch that comes again cannot be told from a new one. Nothing was written.",
        next=in_the_code("surestart.once(batch, batch_id, checkpoint='/the/checkpoint/of/the/query')"),
        do_not="give a constant in its place.",
        code="OnceWithoutQuery",
    )


def _running_ids(spark: SparkSession) -> list[str]:
    """Classic Spark: the query whose batch this thread runs. Spark Connect: those of the session."""
    if not is_connect(spark):
        found = running_query_id(spark, "")
        return [found] if found else []
    return [str(one.id) for one in spark.streams.active]
