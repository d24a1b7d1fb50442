"""A Kafka topic as a source: bytes untouched, and each record's position.

    value, key, headers  ->  payload, key, headers
    topic, partition, offset  ->  source, partition, offset      the position: unique for ever in one topic
    timestamp  ->  source_time

Three choices are not offered, because each of their alternatives loses rows without a word:
    startingOffsets     always explicit. Spark's default, latest, skips whatever arrived before the first start
    failOnDataLoss      always true. A record deleted before it was read ends the query
    isolation level     read_committed. Records of an aborted transaction were taken back by their producer"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment
from surestart.errors import CannotTell, UsageError
from surestart.facts.kafka.security import SecretPlace, credential_options, hide_plans, kafka_options
from surestart.library_types import DataFrame, DataFrameReader, DataStreamReader, SparkSession
from surestart.spark.session import runs_on_databricks
from surestart.typed import surestart

if TYPE_CHECKING:
    from surestart.facts.kafka.evidence import KafkaEvidence

    Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)

EARLIEST = "earliest"
ENVIRONMENT = SecretPlace()
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
# The text itself is not repeated: a pasted URL may have a password in it.
NO_BOOTSTRAP = "bootstrap is not host:port, or several of them with commas"
_BOOTSTRAP = re.compile(r"[A-Za-z0-9.-]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
# What may be tuned. Whatever else an option does, it is decided above or by kafka_security.
_TUNABLE = re.compile(
    r"minPartitions|minOffsetsPerTrigger|maxTriggerDelay|groupIdPrefix|kafkaConsumer\.pollTimeoutMs|fetchOffset\.\w+"
    r"|kafka\.(request\.timeout\.ms|default\.api\.timeout\.ms|session\.timeout\.ms|max\.poll\.records"
    r"|fetch\.(max|min)\.\w+(\.ms)?|max\.partition\.fetch\.bytes|receive\.buffer\.bytes|client\.(id|rack)"
    r"|connections\.max\.idle\.ms|reconnect\.backoff(\.max)?\.ms|retry\.backoff(\.max)?\.ms|metadata\.max\.age\.ms)",
    re.IGNORECASE,
)

_PER_BATCH = re.compile(r"(min|max)OffsetsPerTrigger|maxTriggerDelay", re.IGNORECASE)


def is_bootstrap(text: str) -> bool:
    """Whether it is host:port, or several of them with commas."""
    return all(_BOOTSTRAP.fullmatch(address.strip()) for address in text.split(","))


def is_one_topic(name: str) -> bool:
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


@dataclass(frozen=True)
class KafkaSource:
    """Reads one topic.

    starting_offsets: "earliest", or partition to offset as JSON, such as {"0": 17, "1": -2}; -2 is earliest. Spark
        uses it on a new checkpoint only.
    security: the name of the place where the secrets are. It holds none itself.
    mirror: the stage's progress is shown in Kafka as a consumer group (kafka_mirror)."""

    bootstrap: str
    topic: str
    starting_offsets: str = EARLIEST
    max_offsets_per_trigger: int | None = None
    security: SecretPlace = ENVIRONMENT
    options: tuple[tuple[str, str], ...] = ()
    mirror: bool = False

    def __post_init__(self) -> None:
        if not is_bootstrap(self.bootstrap):
            raise _unusable(NO_BOOTSTRAP, "bootstrap=localhost:9092")
        if not is_one_topic(self.topic):
            raise _unusable(f"topic {self.topic!r} is not one topic's name", "topic=sensor")
        if self.max_offsets_per_trigger is not None and self.max_offsets_per_trigger < 1:
            raise _unusable(f"max_offsets_per_trigger {self.max_offsets_per_trigger} is below 1", "topic=sensor")
        for name, _ in self.options:
            if not _TUNABLE.fullmatch(name):
                raise _unusable(
                    f"option {name!r} is not to be set here",
                    "topic=sensor",
                    "without that option; docs/kafka.md lists those that may be set",
                )
        self.starting_positions()

    def starting_positions(self) -> dict[int, int] | None:
        """Partition to first offset; None for earliest."""
        if self.starting_offsets == EARLIEST:
            return None
        try:
            found = json.loads(self.starting_offsets)
            positions = {int(partition): offset for partition, offset in found.items()}
        except (ValueError, AttributeError, TypeError, RecursionError):
            positions = {}
        if not positions or any(
            type(offset) is not int or offset < -2 or offset == -1 for offset in positions.values()
        ):
            raise _unusable(
                f"starting_offsets {self.starting_offsets!r} is neither 'earliest' nor an offset for each partition",
                "starting_offsets=earliest",
                'or a JSON object such as {"0": 17, "1": -2}',
            )
        return positions

    def read_stream(self, spark: SparkSession, environment: Environment) -> DataFrame:
        return _records(self._reader(spark, spark.readStream).options(**self._options()).load())

    def read_batch(
        self, spark: SparkSession, environment: Environment, evidence: KafkaEvidence | None = None
    ) -> DataFrame:
        """evidence: the range, asked of the cluster once before; Spark would ask again at each run of the query."""
        found = evidence or self.read_evidence()
        ranges = {
            "startingOffsets": {str(one.partition): one.earliest for one in found.partitions},
            "endingOffsets": {str(one.partition): one.latest for one in found.partitions},
        }
        # Limits of a batch and the stream's start have no meaning for a bounded read.
        fixed = {name: json.dumps({self.topic: offsets}) for name, offsets in ranges.items()}
        kept = {name: value for name, value in self._options().items() if not _PER_BATCH.fullmatch(name)}
        return _records(self._reader(spark, spark.read).options(**{**kept, **fixed}).load())

    def read_evidence(self) -> KafkaEvidence:
        """What the cluster says of the topic now; raises CannotTell when there is no such topic."""
        from surestart.facts.kafka.evidence import read_kafka_evidence

        found = read_kafka_evidence(self.bootstrap, self.topic, self.security)
        if not found.exists:
            raise CannotTell(
                f"there is no topic {self.topic!r} at {self.bootstrap}",
                meaning="What was sent cannot be compared with what arrived: the source is gone, or is elsewhere.",
                next=surestart("doctor", "raw-ingest"),
                do_not="treat the tables as complete because nothing was found missing.",
                code="TopicMissing",
            )
        return found

    def _reader(self, spark: SparkSession, reader: Reader) -> Reader:
        credential = credential_options(self.security, on_databricks=runs_on_databricks())
        return reader.format("kafka").options(**credential, **self._secret_options(spark))

    def refuse_shown_secrets(self, spark: SparkSession) -> None:
        """Raises where this session would print the source's secrets, so that its stage cannot run there."""
        self._secret_options(spark)

    def _secret_options(self, spark: SparkSession) -> dict[str, str]:
        secrets = kafka_options(self.security.read(), on_databricks=runs_on_databricks())
        if secrets:
            hide_plans(spark)
        return secrets

    def as_kafka_source(self) -> KafkaSource:
        return self

    def declare(self, environment: Environment) -> SourceDeclaration:
        told = {**self._options(), "security": self.security.describe()}
        return SourceDeclaration("kafka", self.topic, "", tuple(sorted(told.items())))

    def _options(self) -> dict[str, str]:
        positions = self.starting_positions()
        by_topic = {self.topic: {str(number): offset for number, offset in sorted((positions or {}).items())}}
        options = {
            **dict(self.options),
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": self.topic,
            "startingOffsets": EARLIEST if positions is None else json.dumps(by_topic),
            "failOnDataLoss": "true",
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
            # A question about a topic that was deleted must not make it again.
            "kafka.allow.auto.create.topics": "false",
        }
        if self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        return options


def _records(kafka: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return kafka.select(
        F.col("value").alias("payload"),
        F.col("key"),
        F.col("headers"),
        F.col("topic").alias("source"),
        F.col("partition"),
        F.col("offset"),
        F.col("timestamp").alias("source_time"),
    )


def _unusable(what: str, setting: str, note: str = "") -> UsageError:
    return UsageError(
        f"Kafka source: {what}",
        meaning="The stage would read other records than it was meant to. Nothing was started.",
        next=surestart("run", "raw-ingest", "--set", "source=kafka", "--set", setting, note=note),
        do_not="start from latest: what arrived before the first start, or during a reset, would be missing.",
        code="KafkaSource",
    )
