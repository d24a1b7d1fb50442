"""What a source is asked for: by its methods, whoever wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from surestart import DeltaSource, FileSource, KafkaSource, environment_from_settings
from surestart.declaration import SourceDeclaration
from surestart.journal.stage_start import StageStart, StartedSource
from surestart.sources.abilities import folder_of, input_table_of, table_of, topic_of
from surestart.streams.as_pipeline import DeclaredKafka, DeclaredSource

TOPIC = KafkaSource("127.0.0.1:1", "orders")


@dataclass(frozen=True)
class OfSomebodyElse:
    """Its fields have the names of ours, and mean something else."""

    table: str = "orders"
    topic: str = "orders"
    options: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("source", "can"),
    [
        (TOPIC, {"topic"}),
        (DeclaredKafka("127.0.0.1:1", "orders"), {"topic"}),
        # As a remedy has it begin: a lost record is looked up in the same topic.
        (StartedSource(TOPIC, StageStart("d", "s", below={"0": 3}), "/c"), {"topic"}),
        (StartedSource(DeltaSource("raw"), StageStart("d", "s"), "/c"), set[str]()),
        (FileSource(), {"folder"}),
        (DeltaSource("raw"), {"table", "input"}),
        (DeclaredSource(SourceDeclaration("delta", "raw")), {"input"}),
        (DeclaredSource(SourceDeclaration("kafka", "orders")), set[str]()),
        (OfSomebodyElse(), set[str]()),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_source_is_asked_for_what_it_can_do(source: object, can: set[str], tmp_path: Path) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    found = {
        "topic": topic_of(source),
        "folder": folder_of(source),
        "table": table_of(source),
        "input": input_table_of(source, environment),
    }

    assert {name for name, one in found.items() if one is not None} == can
