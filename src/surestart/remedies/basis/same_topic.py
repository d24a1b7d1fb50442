"""Whether the offsets in a stage's output are those of the Kafka topic that there is now.

A topic that was deleted and made again counts from 0: rows that stay would stand for its records as well, and the stage
would begin in its middle. No count would show it, because the old rows have the positions of the new records.
"""

from __future__ import annotations

from collections.abc import Sequence

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.kafka.evidence import KafkaEvidence
from surestart.history.describe_run import plan_command
from surestart.history.run_record import RunRecord
from surestart.library_types import DataFrame
from surestart.remedies.basis.chain import Link
from surestart.runs.history_findings import read_topic_id
from surestart.sources.abilities import topic_of


def recorded_topic(runs: Sequence[RunRecord], link: Link, environment: Environment, before: int | None = None) -> str:
    """The id of the topic that the stage has read from, by its newest run before that time; "": unknown."""
    own = [run for run in runs if run.query == link.query and (before is None or run.started_at < before)]
    return read_topic_id(own, link.stage.declare(environment))


def refuse_other_topic(environment: Environment, link: Link, kept: DataFrame, recorded: str, changed: str) -> None:
    """Raises when rows of the stage are to stay, and the topic is not the one that they came from. changed: what was
    done so far, for the reader."""
    source = topic_of(link.stage.source)
    if source is None:
        return
    marks = {row["partition"]: row["below"] for row in kept.where(kept["source"] == source.topic).collect()}
    if not marks:
        return
    from surestart.facts.kafka.evidence import read_kafka_evidence

    evidence = read_kafka_evidence(source.bootstrap, source.topic, source.security)
    why = describe_other_topic(evidence, recorded, marks)
    if not why:
        return
    raise Refused(
        f"rows of {link.query} are to stay, and {why}",
        meaning="The offsets of the rows that stay mean other records now: the new topic's would be left out up to "
        f"there, and every count would still be exact. {changed}",
        next=plan_command(
            environment,
            "reset",
            link.name,
            note="rebuilds it from the topic that there is; it says how many rows are lost, for --accept-loss",
        ),
        do_not="keep its rows and begin after them.",
        code="TopicReplaced",
    )


def describe_other_topic(evidence: KafkaEvidence, recorded: str, marks: dict[int, int]) -> str:
    """Why the topic is not the one whose records were written below these marks; "" where nothing says so."""
    if not evidence.exists:
        return f"the topic {evidence.topic} does not exist"
    if recorded and evidence.topic_id != recorded:
        return f"the topic {evidence.topic} is another one now (deleted and made again)"
    ends = {one.partition: one.end for one in evidence.partitions}
    beyond = sorted(partition for partition, below in marks.items() if below > ends.get(partition, 0))
    if not beyond:
        return ""
    first = beyond[0]
    there = f"ends at {ends[first]}" if first in ends else "is not there"
    return (
        f"the topic {evidence.topic} is another one now: partition {first} {there}, rows of it go up to offset "
        f"{marks[first] - 1}"
    )
