"""What a DataStreamWriter is about to start: its checkpoint, its format, its query's name. Spark tells none of it
before the query runs, and then the checkpoint may have been written already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surestart.library_types import DataStreamWriter, SparkSession
from surestart.spark.session import is_connect, read_setting

CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
BY_FUNCTION = ("foreachBatch", "foreach")


@dataclass(frozen=True)
class WriterFacts:
    """checkpoint: as it was given, "" where Spark would make one up.
    name: of the query, or "".
    format: "" where it is Spark's default.
    options: keys in lower case."""

    checkpoint: str
    name: str
    format: str
    options: Mapping[str, str]


def session_of_writer(writer: DataStreamWriter) -> SparkSession:
    found: SparkSession = writer._session if _is_connect_writer(writer) else writer._spark  # type: ignore[attr-defined]
    return found


def read_writer(writer: DataStreamWriter, given: Mapping[str, Any]) -> WriterFacts:
    """given: the arguments that the start is called with, which count over what the writer was told."""
    told = _read_connect(writer) if _is_connect_writer(writer) else _read_classic(writer)
    own = {key.lower(): str(value) for key, value in given.items() if value is not None}
    options = {**told.options, **{key: value for key, value in own.items() if key not in ("queryname", "format")}}
    name = own.get("queryname") or told.name
    checkpoint = options.get("checkpointlocation", "")
    if not checkpoint and name:
        folder = read_setting(session_of_writer(writer), CHECKPOINTS)
        checkpoint = f"{folder.rstrip('/')}/{name}" if folder else ""
    return WriterFacts(checkpoint, name, own.get("format") or told.format, options)


def _is_connect_writer(writer: Any) -> bool:
    return type(writer).__module__.startswith("pyspark.sql.connect")


def _read_connect(writer: Any) -> WriterFacts:
    said = writer._write_proto
    options = {key.lower(): value for key, value in said.options.items()}
    by_function = next((one for one, field in _FUNCTIONS.items() if said.HasField(field)), "")
    return WriterFacts("", said.query_name, by_function or said.format, options)


_FUNCTIONS = {"foreachBatch": "foreach_batch", "foreach": "foreach_writer"}


def _read_classic(writer: Any) -> WriterFacts:
    # DataStreamWriter.scala keeps them in private fields of these names, in each line from 3.5 to 4.2.
    pairs = _plain(_field(writer, "extraOptions"))
    return WriterFacts("", pairs.get("queryname", ""), _field(writer, "source"), pairs)


def _plain(options: Any) -> dict[str, str]:
    """A Scala map as a Python dict."""
    pairs, keys = {}, options.keysIterator()
    while keys.hasNext():
        key = keys.next()
        pairs[key.lower()] = options.apply(key)
    return pairs


def _field(writer: Any, name: str) -> Any:
    kind = writer._jwrite.getClass()
    while not any(field.getName() == name for field in kind.getDeclaredFields()):
        kind = kind.getSuperclass()
    field = kind.getDeclaredField(name)
    field.setAccessible(True)
    return field.get(writer._jwrite)


def read_batch_writer(writer: Any) -> tuple[str, Mapping[str, str]]:
    """Format and options, keys in lower case, of a DataFrameWriter."""
    if _is_connect_writer(writer):
        said = writer._write
        return said.source or "", {key.lower(): str(value) for key, value in said.options.items()}
    return _field(writer, "source"), _plain(_field(writer, "extraOptions"))


def writer_class(spark: SparkSession) -> type:
    """What `DataFrame.writeStream` gives in this session."""
    if is_connect(spark):
        from pyspark.sql.connect.streaming.readwriter import DataStreamWriter as ConnectWriter

        return ConnectWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter as ClassicWriter

    return ClassicWriter
