"""Landed files as a source: one row per line, its bytes untouched, its position the file's path and the line's number.

    landing/part-0000000000.jsonl    {"sensor_id": …}\\n      ->  payload, source=<path>, partition=0, offset=0
                                     not json at all\\n       ->  payload, source=<path>, partition=0, offset=1

Files are read whole, because neither Spark's text source nor Auto Loader tells a line's number. The bytes pass through
ISO-8859-1, which maps each of the 256 bytes to one character and back; UTF-8 would replace the broken ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment
from surestart.sources.auto_loader import file_batch, file_stream
from surestart.spark.session import runs_on_databricks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class FileSource:
    """Line-delimited files of the environment's landing folder. A file must appear complete, under its final name."""

    options: tuple[tuple[str, str], ...] = ()

    def read_stream(self, spark: SparkSession, environment: Environment) -> DataFrame:
        files = file_stream(spark, environment.landing, runs_on_databricks(), self._options())
        return split_lines(files)

    def read_batch(self, spark: SparkSession, environment: Environment, names: Sequence[str] = ()) -> DataFrame:
        """names: only files of these names, whatever their folder; no other file is opened."""
        return split_lines(file_batch(spark, environment.landing, runs_on_databricks(), self._options(), names))

    def declare(self, environment: Environment) -> SourceDeclaration:
        return SourceDeclaration("files", environment.landing, environment.landing, self.options)

    def _options(self) -> Mapping[str, str]:
        return dict(self.options)


def split_lines(files: DataFrame) -> DataFrame:
    """Rows of path, modificationTime and content become one row per line. The part after the last newline is a line
    only if it is not empty."""
    from pyspark.sql import functions as F

    content = F.col("content")
    ends = F.when(F.endswith(content, F.lit(b"\n")), 1).otherwise(0)
    # Cut as bytes, and decoded once, in a selection of its own: decoding a file is the dearest step here, and Spark
    # evaluates every mention of an expression that stands in the same one.
    bare = F.substr(content, F.lit(1), F.length(content) - ends)
    texts = files.where(F.length(content) > 0).select(
        F.col("path").alias("source"),
        F.col("modificationTime").alias("source_time"),
        F.length(bare).alias("bytes"),
        F.decode(bare, "ISO-8859-1").alias("text"),
    )
    # Asked of the file, below the split: counting the characters of each line took a quarter of an ingest's time.
    judged = texts.select(
        "source", "source_time", "text", (F.octet_length("text") == F.col("bytes")).alias("ascii_only")
    )
    lines = judged.select(
        "source", "source_time", "ascii_only", F.posexplode(F.split("text", "\n")).alias("offset", "line")
    )
    line = F.col("line")
    # A text of ASCII characters only is its own bytes already.
    ascii_only = F.col("ascii_only")
    return lines.select(
        F.when(ascii_only, line.cast("binary")).otherwise(F.encode(line, "ISO-8859-1")).alias("payload"),
        F.lit(None).cast("binary").alias("key"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
        F.col("source"),
        F.lit(0).alias("partition"),
        F.col("offset").cast("bigint").alias("offset"),
        F.col("source_time"),
    )
