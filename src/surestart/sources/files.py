"""Landed files as a source: one row per line, its bytes untouched, its position the file's path and the line's number.

    landing/part-0000000000.jsonl    {"sensor_id": …}\\n      ->  payload, source=<path>, partition=0, offset=0
                                     not json at all\\n       ->  payload, source=<path>, partition=0, offset=1

Files are read whole, because neither Spark's text source nor Auto Loader tells a line's number. The bytes pass through
ISO-8859-1, which maps each of the 256 bytes to one character and back; UTF-8 would replace the broken ones.

One reader of landed files for two places: Auto Loader (`cloudFiles`) on Databricks, Spark's file source elsewhere.

    option                          on Databricks                    elsewhere
    maxFilesPerTrigger              cloudFiles.maxFilesPerTrigger    maxFilesPerTrigger
    maxBytesPerTrigger ("10m")      cloudFiles.maxBytesPerTrigger    maxBytesPerTrigger, as a number
    pathGlobFilter                  the same                         the same
    cloudFiles.useNotifications …   passed on                        refused: it changes how files are found there
    cleanSource, includeExistingFiles=false, allowOverwrites=true, modifiedAfter, latestFirst, …      refused in both

Either spelling of an option is understood in both places. Both read every file below the folder, whole, once, with the
columns of COLUMNS. An option without a twin is refused in both places, because a pipeline that was tried out with it in
one place would lose or repeat rows in the other.
Option lists: docs.databricks.com "Auto Loader options"; FileStreamOptions.scala of Spark 4.0."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment
from surestart.errors import UsageError
from surestart.library_types import DataFrame, SparkSession
from surestart.spark.session import runs_on_databricks
from surestart.typed import in_the_code


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

    def as_file_source(self) -> FileSource:
        return self

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


COLUMNS = ("path", "modificationTime", "content")
# BinaryFileFormat's own schema, spelled out: cloudFiles would otherwise infer one and want a place to keep it.
SCHEMA = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"

_PREFIX = "cloudFiles."
_RATES = {"maxfilespertrigger": "maxFilesPerTrigger", "maxbytespertrigger": "maxBytesPerTrigger"}
_SAME = {"pathglobfilter": "pathGlobFilter"}

# How Auto Loader finds files, not which ones: without meaning for a folder that is simply listed.
_DISCOVERY = {
    name.lower(): _PREFIX + name
    for name in (
        "backfillInterval",
        "fetchParallelism",
        "pathRewrites",
        "resourceTag",
        "useIncrementalListing",
        "useManagedFileEvents",
        "useNotifications",
        "validateOptions",
    )
}

# The value that means "what the other place does anyway", and what any other value would do.
_ONLY = {
    "format": ("binaryfile", "the raw stage keeps the bytes untouched, so it reads whole files"),
    "includeexistingfiles": ("true", "the file source always reads what is already there; the rows would be missing"),
    "allowoverwrites": (
        "false",
        "the file source reads a path once, so overwriting a file would count in one place",
    ),
    "cleansource": (
        "off",
        "files would vanish after 30 days in one place, at once in the other; a replay needs them",
    ),
    "ignoremissingfiles": ("false", "a file deleted before it was read would be lost without a word"),
    "ignorecorruptfiles": ("false", "an unreadable file would be lost without a word"),
    "recursivefilelookup": ("true", "Auto Loader always reads nested folders"),
    "usestrictglobber": ("true", "Auto Loader's own globbing matches other files than Spark's"),
    "latestfirst": ("false", "Auto Loader has no such order"),
}

# The file source forgets files by age (7 days by default) and then ignores a late file that is older than the newest
# one seen by more than that, silently. Auto Loader has no such limit, so the twin gets one that no file reaches.
_NO_AGE_LIMIT = "36500d"


def file_stream(
    spark: SparkSession, path: str, on_databricks: bool, options: Mapping[str, str] | None = None
) -> DataFrame:
    """A stream with one row per file below path: path, modificationTime, content. Nothing has been read yet."""
    reader = spark.readStream.schema(SCHEMA)
    for name, value in reader_options(on_databricks, options).items():
        reader = reader.option(name, value)
    return reader.format("cloudFiles" if on_databricks else "binaryFile").load(path).select(*COLUMNS)


def file_batch(
    spark: SparkSession,
    path: str,
    on_databricks: bool,
    options: Mapping[str, str] | None = None,
    names: Sequence[str] = (),
) -> DataFrame:
    """The files that a stream with these options finds now, in its columns and its spelling of paths. names: only
    files of these names, whatever their folder; no other file is opened."""
    from pyspark.sql import functions as F

    files = _listed(spark, path, on_databricks, options)
    if names:
        # Spark drops files by this column when it lists them; by `path` only after it has read their content.
        files = files.where(F.col("_metadata.file_name").isin(list(names)))
    return files.select(*COLUMNS)


def file_listing(
    spark: SparkSession, path: str, on_databricks: bool, options: Mapping[str, str] | None = None
) -> DataFrame:
    """The same files, none of them opened: source, changed, length."""
    from pyspark.sql import functions as F

    files = _listed(spark, path, on_databricks, options)
    return files.select(F.col("path").alias("source"), F.col("modificationTime").alias("changed"), "length")


def _listed(spark: SparkSession, path: str, on_databricks: bool, options: Mapping[str, str] | None) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", "true")
    checked = reader_options(on_databricks, options)
    for name in _SAME.values():
        if name in checked:
            reader = reader.option(name, checked[name])
    return reader.format("binaryFile").load(path)


def reader_options(on_databricks: bool, options: Mapping[str, str] | None = None) -> dict[str, str]:
    """The options in the spelling of one place; raises when one of them has no twin in the other."""
    result = (
        {"cloudFiles.format": "binaryFile", "cloudFiles.useStrictGlobber": "true"}
        if on_databricks
        else {"recursiveFileLookup": "true", "maxFileAge": _NO_AGE_LIMIT}
    )
    given: dict[str, str] = {}
    for name, value in (options or {}).items():
        key = name.removeprefix(_PREFIX).lower()
        if given.setdefault(key, value) != value:
            raise _refused(name, value, "is given twice, with two values", "only one of them would count")
        if key in _RATES:
            limit = str(_number_of_bytes(name, value) if key == "maxbytespertrigger" else _count(name, value))
            result[(_PREFIX if on_databricks else "") + _RATES[key]] = limit
        elif key in _SAME:
            result[_SAME[key]] = value
        elif key in _DISCOVERY:
            if not on_databricks:
                raise _refused(name, value, "works on Databricks only", "nothing else finds files that way")
            result[_DISCOVERY[key]] = value
        elif key in _ONLY:
            only, harm = _ONLY[key]
            if value.lower() != only:
                raise _refused(name, value, f"has no twin; only {only!r} means the same in both places", harm)
        else:
            raise _refused(name, value, "has no twin", "the two places would read different rows")
    if len(given.keys() & _RATES.keys()) == 2:
        raise _refused(
            "maxBytesPerTrigger",
            given["maxbytespertrigger"],
            "is given beside maxFilesPerTrigger",
            "Spark's file source takes one of the two",
        )
    return result


def _count(name: str, value: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,9}", value):
        raise _refused(name, value, "is not a whole number above 0", "no file would ever be read")
    return int(value)


def _number_of_bytes(name: str, value: str) -> int:
    found = re.fullmatch(r"([1-9]\d{0,12})\s*([kmgt]?)b?", value.strip().lower())
    if not found:
        raise _refused(name, value, "is not a size such as 10m or 2g", "no file would ever be read")
    return int(found.group(1)) << 10 * " kmgt".index(found.group(2) or " ")


def _refused(name: str, value: str, what: str, harm: str) -> UsageError:
    return UsageError(
        f"file source option {name}={value!r} {what}",
        meaning=f"{harm[0].upper()}{harm[1:]}. The stage has not been started.",
        next=in_the_code(
            f"take {name} out of the file source's options; maxFilesPerTrigger, "
            "maxBytesPerTrigger and pathGlobFilter work everywhere"
        ),
        do_not="set it in one environment only: the other environments stop testing what production does.",
        code="OptionWithoutTwin",
    )
