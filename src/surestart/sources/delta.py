"""A Delta table as a source. Spark keeps the table's id in every offset and refuses another table at the same path."""

from __future__ import annotations

from dataclasses import dataclass

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment, Table
from surestart.library_types import DataFrame, SparkSession
from surestart.spark.delta_table import read_table


@dataclass(frozen=True)
class DeltaSource:
    """Reads a table of the environment from its first row on, or from the position given in `options`
    (startingVersion, startingTimestamp), which Spark uses on a new checkpoint only."""

    table: str
    options: tuple[tuple[str, str], ...] = ()

    def read_stream(self, spark: SparkSession, environment: Environment) -> DataFrame:
        table = self.find_input_table(environment)
        reader = spark.readStream.format("delta").options(**dict(self.options))
        return reader.load(table.path) if table.path else reader.table(table.sql)

    def read_batch(self, spark: SparkSession, environment: Environment) -> DataFrame:
        return read_table(spark, self.find_input_table(environment))

    def as_delta_source(self) -> DeltaSource:
        return self

    def find_input_table(self, environment: Environment) -> Table:
        return environment.table(self.table)

    def declare(self, environment: Environment) -> SourceDeclaration:
        table = self.find_input_table(environment)
        return SourceDeclaration("delta", table.label, table.path, self.options)
