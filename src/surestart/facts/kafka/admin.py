"""The few questions surestart asks a Kafka cluster, and the one thing it ever tells it (where a display group stands).

Each call ends within its time limit, raises CannotTell with the client's own reason, and prints nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from surestart.errors import CannotTell, UsageError
from surestart.facts.kafka.security import SecretPlace, client_settings, refused_settings
from surestart.typed import surestart
from surestart.words.next_commands import install_extra

T = TypeVar("T")

_PASSING = frozenset(
    {
        "NOT_LEADER_FOR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "FENCED_LEADER_EPOCH",
        "NOT_COORDINATOR",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
    }
)


class KafkaAdmin:
    def __init__(self, bootstrap: str, security: SecretPlace | None = None, timeout_seconds: float = 15) -> None:
        if security is not None and security.service_credential:
            raise _cannot_log_in(bootstrap, security)
        self._kafka = import_client()
        self._bootstrap = bootstrap
        self._timeout = timeout_seconds
        self._limit = {"request_timeout": timeout_seconds}
        # The client keeps the limit itself; the rest is for a client that does not.
        self._patience = timeout_seconds + 5
        self._problems: list[str] = []
        settings = {
            "bootstrap.servers": bootstrap,
            **client_settings((security or SecretPlace()).read()),
            "allow.auto.create.topics": False,
            "error_cb": self._note,
            # Every attempt to connect would be a line on stderr; the last reason goes into the error instead.
            "log_level": 0,
        }
        try:
            self._admin = self._kafka.admin.AdminClient(settings)
        except self._kafka.KafkaException as problem:
            raise refused_settings(problem, security or SecretPlace()) from None

    def describe_topic(self, topic: str) -> Any | None:
        """The client's TopicDescription, or None: the cluster says that there is no such topic."""
        asked = self._kafka.TopicCollection([topic])

        def ask() -> Any:
            try:
                return self._admin.describe_topics(asked, **self._limit)[topic].result(self._patience)
            except self._kafka.KafkaException as error:
                if error.args[0].code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise

        return self._repeat(f"who topic {topic!r} is", ask)

    def list_offsets(
        self, topic: str, partitions: tuple[int, ...], which: str, *, committed: bool = False
    ) -> dict[int, int]:
        """which: earliest or latest. committed: not past the first transaction that is still open."""
        spec = getattr(self._kafka.admin.OffsetSpec, which)()
        found = self._list(topic, partitions, spec, f"the {which} offsets of topic {topic!r}", committed)
        return {partition: told.offset for partition, told in found.items()}

    def first_offsets_since(self, topic: str, partitions: tuple[int, ...], at: int) -> dict[int, int]:
        """The first record of that time (ms since 1970) or later, -1 where there is none."""
        spec = self._kafka.admin.OffsetSpec.for_timestamp(at)
        found = self._list(topic, partitions, spec, f"which records of topic {topic!r} are new")
        return {partition: told.offset for partition, told in found.items()}

    def newest_times(self, topic: str, partitions: tuple[int, ...]) -> dict[int, int]:
        """The highest time that a record has, -1 where there is no record."""
        spec = self._kafka.admin.OffsetSpec.max_timestamp()
        found = self._list(topic, partitions, spec, f"how new the records of topic {topic!r} are")
        return {partition: told.timestamp for partition, told in found.items()}

    def _list(
        self, topic: str, partitions: tuple[int, ...], spec: Any, question: str, committed: bool = False
    ) -> dict[int, Any]:
        levels = self._kafka.IsolationLevel
        level = levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED
        asked = {self._kafka.TopicPartition(topic, number): spec for number in partitions}

        def ask() -> dict[int, Any]:
            futures = self._admin.list_offsets(asked, isolation_level=level, **self._limit)
            return {place.partition: future.result(self._patience) for place, future in futures.items()}

        return self._repeat(question, ask)

    def describe_configs(self, topic: str) -> dict[str, str]:
        resource = self._kafka.admin.ConfigResource(self._kafka.admin.ResourceType.TOPIC, topic)

        def ask() -> dict[str, str]:
            entries = self._admin.describe_configs([resource], **self._limit)[resource].result(self._patience)
            return {name: entry.value for name, entry in entries.items() if entry.value is not None}

        return self._repeat(f"the settings of topic {topic!r}", ask)

    def set_group_offsets(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """The group stands at these offsets. It must have no members: a living group's place is its own business."""
        places = [
            self._kafka.TopicPartition(topic, number, offset)
            for topic, partitions in offsets.items()
            for number, offset in partitions.items()
        ]
        wanted = self._kafka.ConsumerGroupTopicPartitions(group, places)

        def tell() -> None:
            (future,) = self._admin.alter_consumer_group_offsets([wanted], **self._limit).values()
            for place in future.result(self._patience).topic_partitions:
                if place.error:
                    raise self._kafka.KafkaException(place.error)

        self._repeat(f"to move group {group!r}", tell)

    def _repeat(self, question: str, ask: Callable[[], T]) -> T:
        """The answer; a cluster that is about to move a leader or a coordinator is asked again until the time is up."""
        end = time.monotonic() + self._timeout
        while True:
            try:
                return ask()
            except FutureTimeout:
                raise self._out_of_reach(question, "no answer") from None
            except self._kafka.KafkaException as error:
                if error.args[0].name() not in _PASSING or time.monotonic() > end:
                    raise self._out_of_reach(question, error.args[0].str()) from None
            time.sleep(0.1)

    def _note(self, problem: Any) -> None:
        self._problems.append(problem.str())

    def _out_of_reach(self, question: str, reason: str) -> CannotTell:
        # The client hands over why it could not connect only when it is asked for events.
        self._admin.poll(0)
        last = f" ({self._problems[0]})" if self._problems else ""
        return CannotTell(
            f"{self._bootstrap} was asked {question} and did not answer within {self._timeout:.0f} s: {reason}{last}",
            meaning="Whether the topic is still the same one, and whether unread records were deleted, is not known.",
            next=surestart("doctor", "raw-ingest", note="once the cluster answers"),
            do_not="treat the checkpoint as safe because nothing was found wrong.",
            code="KafkaOutOfReach",
        )


def _cannot_log_in(bootstrap: str, security: SecretPlace) -> CannotTell:
    return CannotTell(
        f"{bootstrap} was asked nothing: only Spark can log in with {security.describe()}",
        meaning="Whether the topic is still the same one, and whether unread records were deleted, is not known. Spark "
        "itself stops where an offset that it needs is gone, and does not notice a topic that was made anew.",
        next=surestart(
            "run", "raw-ingest", "--accept", "KAFKA_OUT_OF_REACH", note="once somebody has looked at the topic"
        ),
        do_not="treat the topic as the same one because nothing was found wrong.",
        code="KafkaOutOfReach",
    )


def import_client() -> Any:
    """confluent_kafka; raises in four parts where it is not installed."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise UsageError(
            f"confluent-kafka is not installed in this environment ({error})",
            meaning="A topic's identity and offsets are read with it. Spark reads records without it; but whether a "
            "stage may start cannot be told, so the start gate lets none pass unless somebody accepts that.",
            next=install_extra("kafka"),
            code="KafkaClientNotInstalled",
        ) from error
    return confluent_kafka
