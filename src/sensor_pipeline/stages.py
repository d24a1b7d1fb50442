"""The three stages, as values, and the pipeline that the command line finds under the name `sensor`.

files or Kafka ──raw-ingest──> sensor_raw ──deserialize──> sensor_readings_deserialized ──merge-gold──> sensor_gold
                                                     └───> sensor_quarantine
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from sensor_pipeline.count import Account, count_rows, read_landed
from sensor_pipeline.deserialize import to_readings
from sensor_pipeline.merge_gold import to_gold
from sensor_pipeline.raw_ingest import to_raw
from sensor_pipeline.records import KEYS, NEWEST, POSITION, QUARANTINE_COLUMNS, RAW_COLUMNS, READING_COLUMNS
from sensor_pipeline.simulate import read_truth, write_files
from surestart.environment import Environment
from surestart.errors import UsageError
from surestart.sinks.delta_append import DeltaAppend
from surestart.sinks.delta_merge import DeltaMerge
from surestart.sinks.delta_split import DeltaSplit
from surestart.sources.delta import DeltaSource
from surestart.sources.files import FileSource
from surestart.sources.kafka import KafkaSource
from surestart.sources.kafka_security import SecretPlace
from surestart.stage import Pipeline, Source, Stage

SETTINGS = {
    "source": "files or kafka (default files)",
    "readings": "how many readings `run` makes when nothing has landed yet (default 200000)",
    "max_files_per_trigger": "rate limit of a file source (default 20 files a batch)",
    "starting_offsets": 'earliest, or {"0": 17} as JSON; heeded by a new checkpoint only',
    "max_offsets_per_trigger": "rate limit of a Kafka source (default 500000 records a batch)",
    "bootstrap": "Kafka bootstrap servers, when source is kafka",
    "topic": "Kafka topic, when source is kafka",
    "secret_scope": "name of the Databricks secret scope with the Kafka credentials, when source is kafka",
}


def raw_ingest(settings: Mapping[str, str]) -> Stage:
    return Stage("raw-ingest", _source(settings), to_raw, DeltaAppend("sensor_raw", RAW_COLUMNS))


def deserialize(settings: Mapping[str, str]) -> Stage:
    return Stage(
        "deserialize",
        DeltaSource("sensor_raw"),
        to_readings,
        DeltaSplit(
            good="sensor_readings_deserialized",
            good_columns=READING_COLUMNS,
            quarantine="sensor_quarantine",
            quarantine_columns=QUARANTINE_COLUMNS,
            position=POSITION,
        ),
    )


def merge_gold(settings: Mapping[str, str]) -> Stage:
    return Stage(
        "merge-gold",
        DeltaSource("sensor_readings_deserialized"),
        to_gold,
        DeltaMerge(
            "sensor_gold",
            READING_COLUMNS,
            keys=KEYS,
            order=NEWEST,
            partition_by=("reading_date",),
            bounded_by=("reading_time",),
        ),
    )


def build_stages(settings: Mapping[str, str]) -> tuple[Stage, ...]:
    return raw_ingest(settings), deserialize(settings), merge_gold(settings)


def prepare(environment: Environment, settings: Mapping[str, str]) -> None:
    """There is something to read: sample readings are made where nothing has arrived yet, locally only."""
    if not environment.root or "://" in environment.landing:
        return
    readings = _number(settings, "readings", 200_000)
    if settings.get("source", "files") == "kafka":
        if settings.get("bootstrap"):
            return  # somebody's cluster: nothing is ever sent there
        from sensor_pipeline.kafka_simulate import write_topic

        source = _kafka(settings)
        truth_path = Path(environment.root) / f"truth-{source.topic}.json"
        if read_truth(truth_path) is None:
            sys.stderr.write(f"No data in topic {source.topic!r}: making {readings:,} readings\n")
            write_topic(source.bootstrap, source.topic, truth_path, readings)
        return
    truth_path = Path(environment.root) / "truth.json"
    landing = Path(environment.landing)
    if read_truth(truth_path) or (landing.exists() and any(landing.iterdir())):
        return
    sys.stderr.write(f"No data in {landing}: making {readings:,} readings\n")
    write_files(landing, truth_path, readings)


def count(environment: Environment, settings: Mapping[str, str]) -> Account:
    if settings.get("source", "files") == "kafka":
        from sensor_pipeline.kafka_simulate import read_topic

        source = _kafka(settings)
        return count_rows(environment, read_topic(source.bootstrap, source.topic, source.security))
    return count_rows(environment, read_landed(environment.landing))


def _source(settings: Mapping[str, str]) -> Source:
    kind = settings.get("source", "files")
    if kind == "files":
        limit = str(_number(settings, "max_files_per_trigger", 20))
        return FileSource((("maxFilesPerTrigger", limit),))
    if kind == "kafka":
        return _kafka(settings)
    raise UsageError(
        f"source {kind!r} is not files or kafka",
        meaning="The raw stage reads one of the two.",
        next="surestart run raw-ingest --set source=files",
    )


def _kafka(settings: Mapping[str, str]) -> KafkaSource:
    return KafkaSource(
        bootstrap=settings.get("bootstrap") or _local_broker(),
        topic=settings.get("topic") or "sensor",
        starting_offsets=settings.get("starting_offsets") or "earliest",
        max_offsets_per_trigger=_number(settings, "max_offsets_per_trigger", 500_000),
        security=SecretPlace(scope=settings.get("secret_scope", "")),
    )


def _local_broker() -> str:
    """The broker that `make kafka` started in this folder."""
    from surestart.local.kafka_detached import read_detached

    broker = read_detached(Path(".surestart/kafka").absolute())
    if broker is None or not broker.running:
        raise UsageError(
            "source is kafka, no bootstrap is set and no local broker runs in .surestart/kafka",
            meaning="There is no Kafka to read from. Nothing was started.",
            next="make kafka && make run SOURCE=kafka",
        )
    return broker.bootstrap


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name) or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"setting {name}={text!r} is not a whole number above 0",
            meaning="It limits how much is made or read at once.",
            next=f"surestart run all --set {name}={default}",
        )
    return int(text)


PIPELINE = Pipeline(name="sensor", build_stages=build_stages, prepare=prepare, count=count, settings=SETTINGS)
