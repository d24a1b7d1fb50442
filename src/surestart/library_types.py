"""Types of Spark and psycopg, for annotations alone: the doctor starts where neither is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg
    from pyspark.errors import PySparkException as PySparkException
    from pyspark.sql import Column as Column
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import DataFrameReader as DataFrameReader
    from pyspark.sql import Row as Row
    from pyspark.sql import SparkSession as SparkSession
    from pyspark.sql.readwriter import DataFrameWriter as DataFrameWriter
    from pyspark.sql.streaming.query import StreamingQuery as StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader as DataStreamReader
    from pyspark.sql.streaming.readwriter import DataStreamWriter as DataStreamWriter
    from pyspark.sql.types import StructField as StructField

    PostgresConnection = psycopg.Connection[Any]
else:
    # Nothing may be asked at run time for what is not there.
    Column = DataFrame = DataFrameReader = DataFrameWriter = DataStreamReader = DataStreamWriter = None
    PostgresConnection = PySparkException = Row = SparkSession = StreamingQuery = StructField = None
