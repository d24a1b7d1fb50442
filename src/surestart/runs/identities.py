"""What a run's tables and topics are by their own ids: a name can be given to another thing, an id cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surestart.declaration import StageDeclaration
from surestart.environment import Environment
from surestart.errors import SurestartError
from surestart.facts.delta import read_delta_log
from surestart.history.run_record import RunRecord
from surestart.runs.history_findings import runs_that_stand
from surestart.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_sink_ids(spark: SparkSession, stage: Stage, environment: Environment) -> dict[str, str]:
    """Table id by target, of the Delta sinks whose id can be read."""
    found = {}
    for sink in stage.sink.declare(environment):
        if not sink.is_delta:
            continue
        try:
            if sink.path:
                found[sink.target] = read_delta_log(sink.path).table_id
            else:
                found[sink.target] = _detail_id(spark, sink.target)
        except SurestartError:
            # Left out: "not known" is what an absent id says.
            continue
    return {target: one for target, one in found.items() if one}


def read_source_ids(stage: Stage, environment: Environment) -> dict[str, str]:
    """Topic id or table id by target, of the source if it can be read."""
    from surestart.sources.kafka import KafkaSource

    source = stage.source.declare(environment)
    try:
        if isinstance(stage.source, KafkaSource):
            from surestart.facts.kafka.admin import KafkaAdmin
            from surestart.facts.kafka.evidence import known_topic_id

            topic = KafkaAdmin(stage.source.bootstrap, stage.source.security, 5).describe_topic(stage.source.topic)
            topic_id = known_topic_id(topic.topic_id) if topic is not None else ""
            return {source.target: topic_id} if topic_id else {}
        if source.kind == "delta" and source.path:
            return {source.target: read_delta_log(source.path).table_id}
    except SurestartError:
        return {}
    return {}


def read_topic_id(runs: Sequence[RunRecord], declaration: StageDeclaration) -> str:
    """The id of the Kafka topic that the newest of these runs has read from, or "". What was undone does not count: the
    checkpoint that stands again has read from the topic before it."""
    from surestart.facts.kafka.evidence import known_topic_id

    for run in reversed(runs_that_stand(runs)):
        for source in declaration.sources:
            if source.kind == "kafka" and (found := known_topic_id(run.sources.get(source.target, ""))):
                return found
    return ""


def _detail_id(spark: SparkSession, target: str) -> str:
    from pyspark.errors import PySparkException

    from surestart.facts.evidence.session_evidence import table_sql

    try:
        return str(spark.sql(f"DESCRIBE DETAIL {table_sql(target)}").collect()[0]["id"])
    except PySparkException:
        return ""
