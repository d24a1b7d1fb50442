"""The pair as settings of the batch's own session, for classic Spark: every Delta command takes it from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surestart.sinks.delta.identity import TXN_APP_ID, TXN_VERSION, USER_METADATA
from surestart.spark.session import applied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Delta takes the version away with the write that uses it. A second write then fails; without this it is dropped.
AUTO_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"
_HALF_A_PAIR = "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"


@contextmanager
def session_carries(spark: SparkSession, app_id: str, version: int, note: str) -> Iterator[None]:
    """Inside the block the session's next Delta command carries this pair, and any after it fails. After the block the
    session has what an outer block had not used, or nothing of it."""
    outer_id, outer_version = spark.conf.get(TXN_APP_ID, None), spark.conf.get(TXN_VERSION, None)
    inside = spark.conf.get(AUTO_RESET, None) == "true" and outer_id is not None
    with applied(spark, {AUTO_RESET: "true", USER_METADATA: note}):
        try:
            spark.conf.set(TXN_APP_ID, app_id)
            spark.conf.set(TXN_VERSION, str(version))
            yield
        finally:
            spark.conf.unset(TXN_APP_ID)
            spark.conf.unset(TXN_VERSION)
            if inside and outer_id is not None:
                # An outer pair that was used stays without its version: a further write would go without any.
                spark.conf.set(TXN_APP_ID, outer_id)
                if outer_version is not None:
                    spark.conf.set(TXN_VERSION, outer_version)


@contextmanager
def explaining_second_write(second_write: Callable[[], Exception]) -> Iterator[None]:
    """Inside the block Delta's error about options that nobody has set becomes one about the second write."""
    try:
        yield
    except Exception as problem:
        if _HALF_A_PAIR in str(problem):
            raise second_write() from problem
        raise
