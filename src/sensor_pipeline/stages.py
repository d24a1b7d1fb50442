"""The three stages, as values, and the pipeline that the command line finds under the name `sensor`.

files or Kafka ──raw-ingest──> sensor_raw ──deserialize──> sensor_readings_deserialized ──merge-gold──> sensor_gold
                                                     └───> sensor_quarantine
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sensor_pipeline.count import Account, count_rows, read_landed
from sensor_pipeline.deserialize import to_readings
from sensor_pipeline.merge_gold import to_gold
from sensor_pipeline.raw_ingest import to_raw
from sensor_pipeline.records import (
    GOLD_IN_POSTGRES,
    KEYS,
    NEWEST,
    POSITION,
    QUARANTINE_COLUMNS,
    RAW_COLUMNS,
    READING_COLUMNS,
)
from sensor_pipeline.simulate import read_truth, write_files
from surestart import (
    AsksRegistry,
    Both,
    DeltaAppend,
    DeltaMerge,
    DeltaSource,
    Environment,
    FileSource,
    KafkaSource,
    Pipeline,
    RegistrySplit,
    SecretPlace,
    Sink,
    Source,
    Stage,
    Transform,
    UsageError,
)
from surestart.typed import Verbatim, surestart, typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE_FILES = "max_table_files_per_trigger"
DRIVER_FILES = 10

SETTINGS = {
    "source": "files or kafka (default files)",
    "readings": "how many readings `run` makes when nothing has landed yet (default 200000)",
    "max_files_per_trigger": "rate limit of a file source (default 20 files a batch)",
    "max_table_files_per_trigger": "rate limit of stages that read a table, in files of the table a batch "
    "(default 1000, Delta's own; 10 for merge-gold when postgres_load is driver)",
    "starting_offsets": 'earliest, or {"0": 17} as JSON; used by a new checkpoint only',
    "max_offsets_per_trigger": "rate limit of a Kafka source (default 500000 records a batch)",
    "bootstrap": "Kafka bootstrap servers, when source is kafka",
    "topic": "Kafka topic, when source is kafka",
    "secret_scope": "name of the Databricks secret scope with the Kafka credentials, when source is kafka",
    "service_credential": "name of the Unity Catalog service credential that logs in to Kafka, on Databricks "
    "only; takes the place of a secret scope",
    "mirror": "true: show the progress in Kafka as the group <env>.<query>.mirror (default false)",
    "format": "json, confluent (Avro with a schema id in front) or avro (one fixed schema) (default json)",
    "registry": "URL of a schema registry, or a folder of <id>.avsc files, when format is confluent",
    "subject": "subject that the registry must have before a start (default: not looked for)",
    "avro_schema": "file with the schema of every record, when format is avro",
    "postgres_url": "gold goes to PostgreSQL as well; where its URL is kept: env:NAME or secret:scope/key",
    "postgres_table": "table or schema.table for gold, when postgres_url is set (default sensor_gold)",
    "postgres_load": "executors or driver: which of them connect to PostgreSQL (default executors)",
}


def raw_ingest(settings: Mapping[str, str]) -> Stage:
    return Stage("raw-ingest", _source(settings), to_raw, DeltaAppend("sensor_raw", RAW_COLUMNS))


def deserialize(settings: Mapping[str, str]) -> Stage:
    transform, per_batch = _decoders(settings)
    return Stage(
        "deserialize",
        _table("sensor_raw", settings),
        transform,
        RegistrySplit(
            good="sensor_readings_deserialized",
            good_columns=READING_COLUMNS,
            quarantine="sensor_quarantine",
            quarantine_columns=QUARANTINE_COLUMNS,
            position=POSITION,
            per_batch=per_batch,
        ),
    )


def merge_gold(settings: Mapping[str, str]) -> Stage:
    gold = DeltaMerge(
        "sensor_gold",
        READING_COLUMNS,
        keys=KEYS,
        order=NEWEST,
        partition_by=("reading_date",),
        bounded_by=("reading_time",),
    )
    sink = _with_postgres(gold, settings)
    # The driver holds the batch in its memory.
    limit = DRIVER_FILES if sink is not gold and _load(settings) == "driver" else None
    return Stage("merge-gold", _table("sensor_readings_deserialized", settings, limit), to_gold, sink)


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


def count(environment: Environment, settings: Mapping[str, str], last: str = "merge-gold") -> Account | None:
    """None: the independent count judges JSON records only, and opens files of this machine only."""
    if (settings.get("format") or "json") != "json":
        return None
    if settings.get("source", "files") == "kafka":
        from sensor_pipeline.kafka_simulate import read_begins, read_sent

        source = _kafka(settings)
        place = source.bootstrap, source.topic, source.security
        return count_rows(environment, read_sent(*place), last=last, begins=lambda: read_begins(*place))
    if "://" in environment.landing:
        return None
    return count_rows(environment, read_landed(environment.landing), last=last)


def _source(settings: Mapping[str, str]) -> Source:
    kind = settings.get("source") or "files"
    if kind == "files":
        limit = str(_number(settings, "max_files_per_trigger", 20))
        return FileSource((("maxFilesPerTrigger", limit),))
    if kind == "kafka":
        return _kafka(settings)
    raise UsageError(
        f"source {kind!r} is not files or kafka",
        meaning="The raw stage reads one of the two.",
        next=surestart("run", "raw-ingest", "--set", "source=files"),
    )


def _table(name: str, settings: Mapping[str, str], default: int | None = None) -> DeltaSource:
    if not settings.get(TABLE_FILES) and default is None:
        return DeltaSource(name)
    return DeltaSource(name, (("maxFilesPerTrigger", str(_number(settings, TABLE_FILES, default or 1000))),))


def _load(settings: Mapping[str, str]) -> str:
    return settings.get("postgres_load") or "executors"


def _with_postgres(gold: DeltaMerge, settings: Mapping[str, str]) -> Sink:
    """Gold in Delta, then in PostgreSQL where postgres_url is set. What that promises: docs/postgres.md."""
    place = settings.get("postgres_url", "")
    if not place:
        return gold
    from surestart import DatabaseUrl, PostgresSink

    second = PostgresSink(
        DatabaseUrl.from_setting(place),
        settings.get("postgres_table") or "sensor_gold",
        mode="upsert",
        keys=KEYS,
        order=NEWEST,
        columns=GOLD_IN_POSTGRES,
        load=_load(settings),
        told_by=_options(settings, "postgres_url", "postgres_table"),
    )
    return Both(gold, second)


def _options(settings: Mapping[str, str], *names: str) -> tuple[str, ...]:
    """These settings as the words of a command line."""
    given = [f"{name}={settings[name]}" for name in names if settings.get(name)]
    return tuple(word for setting in given for word in ("--set", setting))


def _decoders(settings: Mapping[str, str]) -> tuple[Transform, AsksRegistry | None]:
    """What decodes on the stream, and what has to see each batch first."""
    kind = settings.get("format") or "json"
    if kind == "json":
        return to_readings, None
    from sensor_pipeline.deserialize import AvroReadings
    from surestart import FolderResolver, RegistryResolver, read_fixed_schema

    registry, schema = settings.get("registry", ""), settings.get("avro_schema", "")
    if kind == "avro" and schema:
        return AvroReadings(read_fixed_schema(schema)), None
    if kind == "confluent" and registry:
        secrets = SecretPlace(settings.get("secret_scope", ""), prefix="SURESTART_")
        by_url = registry.startswith(("http://", "https://"))
        subject = settings.get("subject", "")
        resolver = RegistryResolver(registry, secrets, subject=subject) if by_url else FolderResolver(registry)
        return as_it_is, AvroReadings(resolver)
    needs = {"avro": "avro_schema=reading.avsc", "confluent": "registry=https://registry.example.com"}
    example = ["--set", f"format={kind}", "--set", needs.get(kind, "")] if kind in needs else ["--set", "format=json"]
    raise UsageError(
        f"format {kind!r} needs the setting {needs[kind].partition('=')[0]}"
        if kind in needs
        else f"format {kind!r} is not json, confluent or avro",
        meaning="How the records are written is not known, so all of them would be quarantined.",
        next=surestart("run", "deserialize", *example),
    )


def as_it_is(rows: DataFrame) -> DataFrame:
    return rows


def _kafka(settings: Mapping[str, str]) -> KafkaSource:
    return KafkaSource(
        bootstrap=settings.get("bootstrap") or _local_broker(),
        topic=settings.get("topic") or "sensor",
        starting_offsets=settings.get("starting_offsets") or "earliest",
        max_offsets_per_trigger=_number(settings, "max_offsets_per_trigger", 500_000),
        security=SecretPlace(
            scope=settings.get("secret_scope", ""), service_credential=settings.get("service_credential", "")
        ),
        mirror=settings.get("mirror", "").lower() == "true",
    )


def _local_broker() -> str:
    """The broker that `make kafka` started in this folder."""
    from surestart import read_detached

    broker = read_detached(Path(".surestart/kafka").absolute())
    if broker is None or not broker.running:
        raise UsageError(
            "source is kafka, no bootstrap is set and no local broker runs in .surestart/kafka",
            meaning="There is no Kafka to read from. Nothing was started.",
            next=typed(Verbatim("make kafka && make run SOURCE=kafka")),
        )
    return broker.bootstrap


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name) or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"setting {name}={text!r} is not a whole number above 0",
            meaning="It limits how much is made or read at once.",
            next=surestart("run", "all", "--set", f"{name}={default}"),
        )
    return int(text)


PIPELINE = Pipeline(name="sensor", build_stages=build_stages, prepare=prepare, count=count, settings=SETTINGS)
