"""The split of good and quarantined rows by Avro records whose schemas are in a registry.

prepare        the registry answers these credentials, and has the subject; else nothing is started
batch_writer   the credentials are read here: on Spark Connect the function of a batch runs in the server's worker,
               which has neither this process' variables nor its secret scopes
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from surestart.avro.decode import refuse_without_avro
from surestart.environment import Environment
from surestart.sinks.delta.split import DeltaSplit, SplitBatch
from surestart.stage import BatchContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class AsksRegistry(Protocol):
    """What decides about the rows of a batch by the schemas of a registry. It is pickled once it has credentials."""

    def check(self) -> None:
        """Raises when the registry cannot be used."""

    def with_credentials(self) -> AsksRegistry: ...

    def __call__(self, raw: DataFrame) -> DataFrame: ...


@dataclass(frozen=True)
class RegistrySplit(DeltaSplit):
    """A split whose batches ask a schema registry.

    per_batch: what asks it; the credentials are read when a run starts."""

    per_batch: AsksRegistry | None = None

    def prepare(self, spark: SparkSession, environment: Environment) -> None:
        if self.per_batch is not None:
            refuse_without_avro(spark)
            self.per_batch.check()
        super().prepare(spark, environment)

    def batch_writer(self, context: BatchContext) -> SplitBatch:
        per_batch = self.per_batch.with_credentials() if self.per_batch is not None else None
        return replace(super().batch_writer(context), per_batch=per_batch)
