"""The Auto Loader twin: the same files, once, in both places, and no option that would make the places differ."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from surestart.errors import UsageError
from surestart.sources.files import COLUMNS, file_stream, reader_options

LAST_MONTH = time.time() - 30 * 24 * 3600


def _read(spark: SparkSession, landing: Path, work: Path, options: Any = None) -> list[tuple[str, bytes]]:
    """Every (file, bytes) that the stream delivered since its checkpoint began, by its own output files."""
    stream = file_stream(spark, str(landing), on_databricks=False, options=options)
    assert tuple(stream.columns) == COLUMNS
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(work / "out"))
    )
    query.awaitTermination(60)
    assert query.exception() is None
    rows = spark.read.parquet(str(work / "out")).collect()
    return sorted((row.path.rsplit("/", 1)[-1], bytes(row.content)) for row in rows)


def test_every_file_is_read_once_nested_folders_and_late_old_files_included(spark, tmp_path):
    landing = tmp_path / "landing"
    (landing / "day=1").mkdir(parents=True)
    (landing / "a.json").write_bytes(b'{"n": 1}\n{"n": 2}')
    (landing / "day=1" / "b.json").write_bytes(b"\x00\xff")
    assert _read(spark, landing, tmp_path) == [("a.json", b'{"n": 1}\n{"n": 2}'), ("b.json", b"\x00\xff")]
    late = landing / "late.json"
    late.write_bytes(b"late")
    # Copied with its time stamp kept (rsync -a, cp -p): 30 days older than the newest file already read.
    os.utime(late, (LAST_MONTH, LAST_MONTH))
    assert _read(spark, landing, tmp_path) == [
        ("a.json", b'{"n": 1}\n{"n": 2}'),
        ("b.json", b"\x00\xff"),
        ("late.json", b"late"),
    ]


def test_sparks_file_source_alone_loses_a_late_old_file_silently(spark, tmp_path):
    """Why the twin sets maxFileAge: without it the claim above is false."""
    landing = tmp_path / "landing"
    landing.mkdir()
    counts = []
    for name, moment in (("new", time.time()), ("late", LAST_MONTH)):
        (landing / name).write_bytes(b"x")
        os.utime(landing / name, (moment, moment))
        stream = spark.readStream.schema("value STRING").text(str(landing))
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination(60)
        counts.append(spark.read.parquet(str(tmp_path / "out")).count())
    assert counts == [1, 1]


def test_a_rate_limit_has_the_same_meaning_in_both_places_in_either_spelling():
    for name in ("maxFilesPerTrigger", "cloudFiles.maxFilesPerTrigger", "MAXFILESPERTRIGGER"):
        assert reader_options(True, {name: "7"})["cloudFiles.maxFilesPerTrigger"] == "7"
        assert reader_options(False, {name: "7"})["maxFilesPerTrigger"] == "7"
    assert reader_options(True, {"maxBytesPerTrigger": "10m"})["cloudFiles.maxBytesPerTrigger"] == "10485760"
    assert reader_options(False, {"cloudFiles.maxBytesPerTrigger": "2gb"})["maxBytesPerTrigger"] == str(2 << 30)


def test_spark_takes_every_option_that_the_twin_gives_it(spark, tmp_path):
    (tmp_path / "landing").mkdir()
    for name in ("one.json", "two.json", "three.txt"):
        (tmp_path / "landing" / name).write_bytes(b"{}")
    options = {"cloudFiles.maxBytesPerTrigger": "1", "pathGlobFilter": "*.json"}
    assert [name for name, _ in _read(spark, tmp_path / "landing", tmp_path, options)] == ["one.json", "two.json"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cloudFiles.includeExistingFiles", "false"),
        ("cloudFiles.allowOverwrites", "true"),
        ("cloudFiles.cleanSource", "DELETE"),
        ("cleanSource", "archive"),
        ("cloudFiles.maxFileAge", "30 days"),
        ("maxFileAge", "1h"),
        ("latestFirst", "true"),
        ("fileNameOnly", "true"),
        ("modifiedAfter", "2026-01-01T00:00:00"),
        ("ignoreMissingFiles", "true"),
        ("cloudFiles.format", "json"),
        ("cloudFiles.schemaLocation", "/elsewhere"),
        ("maxFilesPerTrigger", "0"),
        ("maxBytesPerTrigger", "plenty"),
    ],
)
@pytest.mark.parametrize("on_databricks", [True, False])
def test_an_option_without_a_twin_is_refused_in_both_places(name, value, on_databricks):
    with pytest.raises(UsageError) as refused:
        reader_options(on_databricks, {name: value})
    assert name in refused.value.what
    assert value in refused.value.what


def test_values_that_mean_the_same_in_both_places_are_taken():
    same = {"cloudFiles.includeExistingFiles": "true", "cloudFiles.cleanSource": "OFF", "recursiveFileLookup": "true"}
    for on_databricks in (True, False):
        assert reader_options(on_databricks, same) == reader_options(on_databricks)


def test_how_auto_loader_finds_files_may_be_chosen_on_databricks_only():
    chosen = {"cloudFiles.useNotifications": "true"}
    assert reader_options(True, chosen)["cloudFiles.useNotifications"] == "true"
    with pytest.raises(UsageError, match="Databricks only"):
        reader_options(False, chosen)


def test_both_limits_or_two_values_of_one_are_refused():
    with pytest.raises(UsageError, match="beside maxFilesPerTrigger"):
        reader_options(True, {"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1m"})
    with pytest.raises(UsageError, match="two values"):
        reader_options(False, {"maxFilesPerTrigger": "1", "cloudFiles.maxFilesPerTrigger": "2"})


class Recorder:
    """In the place of `spark.readStream`, which knows cloudFiles on Databricks only: keeps what it is asked for, in the
    order of the calls. Each call returns the recorder, as Spark's reader does."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.readStream = self

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: object) -> Recorder:
            self.asked.append((name, *arguments))
            return self

        return call


def test_on_databricks_the_reader_is_auto_loader_with_a_fixed_schema_and_the_same_columns():
    recorder = Recorder()
    file_stream(recorder, "/Volumes/main/sensor/landing", on_databricks=True, options={"maxFilesPerTrigger": "20"})

    by_call = {name: rest for name, *rest in recorder.asked if name != "option"}
    options = {name: value for call, name, value in (one for one in recorder.asked if one[0] == "option")}
    assert by_call == {
        "schema": ["path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"],
        "format": ["cloudFiles"],
        "load": ["/Volumes/main/sensor/landing"],
        "select": ["path", "modificationTime", "content"],
    }
    assert options == {
        "cloudFiles.format": "binaryFile",
        "cloudFiles.useStrictGlobber": "true",
        "cloudFiles.maxFilesPerTrigger": "20",
    }
    # A schema or an option after load would count for nothing.
    assert [call for call, *_ in recorder.asked][-2:] == ["load", "select"]
