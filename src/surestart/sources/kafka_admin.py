"""The few questions surestart asks a Kafka cluster, and the one thing it ever tells it (where a display group stands).

Each call ends within its time limit, raises CannotTell with the client's own reason, and prints nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from surestart.errors import CannotTell, UsageError
from surestart.sources.kafka_security import SecretPlace, client_settings


class KafkaAdmin:
    def __init__(self, bootstrap: str, security: SecretPlace | None = None, timeout_seconds: float = 15) -> None:
        self._kafka = _import_client()
        self._bootstrap = bootstrap
        self._timeout = timeout_seconds
        self._problems: list[str] = []
        self._admin = self._kafka.admin.AdminClient(
            {
                "bootstrap.servers": bootstrap,
                **client_settings((security or SecretPlace()).read()),
                "allow.auto.create.topics": False,
                "error_cb": self._note,
                # Every attempt to connect would be a line on stderr; the last reason goes into the error instead.
                "log_level": 0,
            }
        )

    def describe_topic(self, topic: str) -> Any | None:
        """The client's TopicDescription, or None: the cluster says that there is no such topic."""
        asked = self._kafka.TopicCollection([topic])
        future = self._admin.describe_topics(asked, request_timeout=self._timeout)[topic]
        return self._answer(f"who topic {topic!r} is", future, missing=self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)

    def list_offsets(
        self, topic: str, partitions: tuple[int, ...], which: str, *, committed: bool = False
    ) -> dict[int, int]:
        """which: earliest or latest. committed: not past the first transaction that is still open."""
        spec = getattr(self._kafka.admin.OffsetSpec, which)()
        levels = self._kafka.IsolationLevel
        futures = self._admin.list_offsets(
            {self._kafka.TopicPartition(topic, number): spec for number in partitions},
            isolation_level=levels.READ_COMMITTED if committed else levels.READ_UNCOMMITTED,
            request_timeout=self._timeout,
        )
        question = f"the {which} offsets of topic {topic!r}"
        return {place.partition: self._answer(question, future).offset for place, future in futures.items()}

    def describe_configs(self, topic: str) -> dict[str, str]:
        resource = self._kafka.admin.ConfigResource(self._kafka.admin.ResourceType.TOPIC, topic)
        future = self._admin.describe_configs([resource], request_timeout=self._timeout)[resource]
        entries = self._answer(f"the settings of topic {topic!r}", future)
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def set_group_offsets(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """The group stands at these offsets. It must have no members: a living group's place is its own business."""
        places = [
            self._kafka.TopicPartition(topic, number, offset)
            for topic, partitions in offsets.items()
            for number, offset in partitions.items()
        ]
        wanted = self._kafka.ConsumerGroupTopicPartitions(group, places)
        futures = self._admin.alter_consumer_group_offsets([wanted], request_timeout=self._timeout)
        for future in futures.values():
            answered = self._answer(f"for the offsets of group {group!r}", future)
            refused = [place for place in answered.topic_partitions if place.error]
            if refused:
                first = refused[0]
                raise self._out_of_reach(
                    f"for the offsets of group {group!r}", f"{first.topic}-{first.partition}: {first.error.str()}"
                )

    def _answer(self, question: str, future: Future[Any], missing: int | None = None) -> Any:
        try:
            # The client keeps the limit itself; the rest is for a client that does not.
            return future.result(self._timeout + 5)
        except FutureTimeout:
            raise self._out_of_reach(question, "no answer") from None
        except self._kafka.KafkaException as error:
            if missing is not None and error.args[0].code() == missing:
                return None
            raise self._out_of_reach(question, error.args[0].str()) from None

    def _note(self, problem: Any) -> None:
        self._problems.append(problem.str())

    def _out_of_reach(self, question: str, reason: str) -> CannotTell:
        last = f" ({self._problems[-1]})" if self._problems else ""
        return CannotTell(
            f"{self._bootstrap} was asked {question} and did not answer within {self._timeout:.0f} s: {reason}{last}",
            meaning="Whether the topic is still the same one, and whether unread records were deleted, is not known.",
            next="surestart doctor raw-ingest  # once the cluster answers",
            do_not="take the checkpoint for safe because nothing was found wrong.",
            code="KafkaOutOfReach",
        )


def _import_client() -> Any:
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise UsageError(
            f"confluent-kafka is not installed in this environment ({error})",
            meaning="A topic's identity and offsets are read with it. Running a stage does not need it.",
            next=f"{sys.executable} -m pip install 'surestart[kafka]'",
            code="KafkaClientNotInstalled",
        ) from error
    return confluent_kafka
