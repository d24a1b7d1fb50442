"""Any stream with state goes back to any kept batch, with its table, and can be undone: on streams of plain Spark that
are only declared, by the remedy itself. What has to come out is reckoned in plain Python.

    pytest -m chaos tests/remedies/test_rewind_proof.py      each pair of values once
    REWINDS=every pytest -m chaos …                          every combination: hours
"""

from __future__ import annotations

import os
import tomllib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from surestart.errors import Refused
from surestart.facts.checkpoint.batch_logs import OffsetLogEntry
from surestart.facts.checkpoint.manifest import Manifest, read_manifest
from surestart.facts.checkpoint.positions import FilesPosition, NumberPosition
from surestart.facts.checkpoint.snapshot import Checkpoint, read_checkpoint
from surestart.remedies.basis.plan import Plan
from surestart.remedies.of_stages import apply_to_stages, plan_of_stages, undo_of_stages
from surestart.remedies.planning.rewind_table import batches_with_state, kept_batches
from surestart.remedies.planning.wanted import Wanted
from surestart.runs.judge_start import judge_stage, read_history_or_tell
from surestart.spark.session import applied
from surestart.spark.settings import EVERYWHERE, pairs
from surestart.streams.as_pipeline import StreamEnvironment, environment_of_streams, stage_of_stream
from surestart.streams.project_file import parse_project_text
from surestart.words.finding import Severity
from surestart.words.next_commands import Commands
from tests.checkpoint.rewind_lab import LAST, PROVIDERS, QUICK, ROWS, Kind, Lab, Place, Rows, rows_of
from tests.remedies.rewind_proof import COMPACTED, FIRST, LAST_BUT_ONE, MIDDLE, Case, every_case, pairs_of, pairwise

STREAM = "numbers"
COMPACT_EVERY = int(QUICK["spark.sql.streaming.fileSource.log.compactInterval"])
CASES = every_case() if os.environ.get("REWINDS") == "every" else pairwise()
SCHEMA = "id INT, s BIGINT"


@dataclass(frozen=True)
class Source:
    """What a stream reads, and how its owner would declare it."""

    declared: str
    read: Callable[[Any], Any] | None = None


class Labs:
    """A lab for each source; each is made when the first case asks for it."""

    def __init__(self, spark: Any, folder: Path, last: int = LAST) -> None:
        self.spark, self.folder, self.last = spark, folder, last
        self.made: dict[str, tuple[Lab, Source]] = {}
        self.broker: Any = None

    def lab(self, case: Case) -> tuple[Lab, Source]:
        name = f"{case.source}-{case.kept}"
        if name not in self.made:
            lab = Lab(self.spark, self.folder / name, last=self.last)
            source: Source = getattr(self, case.source)(lab)
            lab.source = source.read
            self.made[name] = (lab, source)
        return self.made[name]

    def files(self, lab: Lab) -> Source:
        return Source(f'{{ files = "{lab.input}" }}')

    def delta(self, lab: Lab) -> Source:
        """A table with a commit for each file."""
        table = lab.folder / "read"
        for path in sorted(lab.input.iterdir()):
            rows = self.spark.read.schema(SCHEMA).json(str(path)).coalesce(1)
            rows.write.format("delta").mode("append").save(str(table))

        def read(spark: Any) -> Any:
            return spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(table))

        return Source(f'{{ delta = "{table}" }}', read)

    def kafka(self, lab: Lab) -> Source:
        """A topic of one partition, so that a batch has the rows of one file."""
        from tests.kafka.kafka_client import KafkaClient

        if self.broker is None:
            from tests.servers.kafka_broker import kafka_broker

            self.broker = kafka_broker()
            self.client = KafkaClient(self.broker.__enter__().bootstrap)
        topic = f"numbers-{uuid.uuid4().hex[:6]}"
        self.client.create(topic, 1)
        lines = [line.encode() for path in sorted(lab.input.iterdir()) for line in path.read_text().splitlines()]
        assert len(lines) == ROWS * (self.last + 1)
        self.client.produce(topic, lines, 1)
        bootstrap = self.client.bootstrap

        def read(spark: Any) -> Any:
            stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
            rows = stream.option("subscribe", topic).option("startingOffsets", "earliest")
            rows = rows.option("maxOffsetsPerTrigger", ROWS).load()
            return rows.selectExpr(f"from_json(cast(value AS STRING), '{SCHEMA}') AS row").select("row.*")

        return Source(f'{{ kafka = "{topic}", bootstrap = "{bootstrap}" }}', read)

    def close(self) -> None:
        if self.broker is not None:
            self.broker.__exit__(None, None, None)


@pytest.fixture(scope="module", autouse=True)
def quick(spark: Any) -> Iterator[None]:
    with applied(spark, pairs(EVERYWHERE)):
        yield


@pytest.fixture(scope="module")
def labs(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labs]:
    made = Labs(spark, tmp_path_factory.mktemp("rewinds"))
    try:
        yield made
    finally:
        made.close()


@dataclass(frozen=True)
class Declared:
    """One stream as surestart.toml declares it, and what is done to it."""

    lab: Lab
    kind: Kind
    place: Place
    environment: StreamEnvironment
    stage: Any

    def go_on(self) -> Rows:
        """Its owner's code is started, unchanged, and has read to the end."""
        self.lab.run(self.kind, self.place)
        return rows_of(self.kind, self.place)

    def look(self) -> tuple[Manifest, Rows, list[str]]:
        """The checkpoint, the table's rows, and what the doctor says against a start. Which topic a declared stream has
        read nobody has written down."""
        commands = Commands(self.stage.name, self.environment.name)
        runs = read_history_or_tell(self.environment, self.lab.spark, commands)
        judged = judge_stage(self.environment, self.stage, runs, commands, session=self.lab.spark)
        stops = [one for one in judged.findings if one.severity in (Severity.UNSAFE, Severity.CANNOT_TELL)]
        said = [f"{one.code}: {one.evidence}" for one in stops if one.code != "KAFKA_TOPIC_NOT_RECORDED"]
        return read_manifest(self.place.checkpoint), rows_of(self.kind, self.place), said

    @property
    def checkpoint(self) -> Checkpoint:
        return read_checkpoint(str(self.place.checkpoint))

    def rewind(self, batch: int) -> Plan:
        wanted = Wanted("rewind", STREAM, to_batch=batch)
        for attempt in range(5):
            plan = plan_of_stages(self.lab.spark, self.environment, [self.stage], wanted)
            try:
                apply_to_stages(self.lab.spark, self.environment, [self.stage], plan, confirm=plan.target)
                break
            except Refused as refused:
                # Spark's maintenance of the query that has just ended may still put a snapshot there.
                if refused.code != "PlanStale" or attempt == 4:
                    raise
        return plan

    def undo(self, plan: Plan) -> None:
        undo_of_stages(self.lab.spark, self.environment, [self.stage], plan, confirm=plan.target)


def declare(labs: Labs, case: Case) -> Declared:
    lab, source = labs.lab(case)
    place = lab.copy(case.stream, case.provider, str(case))
    sources = f"[{source.declared}, {source.declared}]" if case.kind == "join" else source.declared
    sink = f'merge = "{place.table}", keys = ["id"]' if case.stream.merged else f'delta-builtin = "{place.table}"'
    text = f"""
        history = "{place.root}/history"
        [stream.{STREAM}]
        checkpoint = "{place.checkpoint}"
        source = {sources}
        sink = {{ {sink}, shared = false }}
        output_mode = "{case.stream.mode}"
    """
    assert tomllib.loads(text)
    project = parse_project_text(place.root / "surestart.toml", text)
    return Declared(lab, case.stream, place, environment_of_streams(project), stage_of_stream(project.streams[0]))


def batch_of(case: Case, checkpoint: Checkpoint) -> int:
    """The one that is gone back to: what Spark has kept decides."""
    kept = batches_with_state(checkpoint, kept_batches(checkpoint))[:-1]
    if case.to == COMPACTED:
        return next(batch for batch in kept if (entry_of(checkpoint, batch) + 1) % COMPACT_EVERY == 0)
    return kept[0] if case.to == FIRST else kept[len(kept) // 2] if case.to == MIDDLE else kept[-1]


def entry_of(checkpoint: Checkpoint, batch: int) -> int:
    offsets = checkpoint.offsets[batch]
    assert isinstance(offsets, OffsetLogEntry)
    position = offsets.sources[0].position
    assert isinstance(position, FilesPosition | NumberPosition)
    return position.log_offset if isinstance(position, FilesPosition) else position.value


def settings(case: Case) -> dict[str, str]:
    kept = {} if case.kept == "all" else {"spark.sql.streaming.minBatchesToRetain": case.kept}
    return {**QUICK, **PROVIDERS[case.provider], **kept}


def goes_back_and_forth(labs: Labs, case: Case) -> None:
    with applied(labs.spark, settings(case)):
        stream = declare(labs, case)
        expected = case.stream.count(labs.last)
        stood = stream.look()
        assert stood[1:] == (expected, [])
        batch = batch_of(case, stream.checkpoint)
        newest = stream.checkpoint.latest_planned
        assert newest is not None

        first = stream.rewind(batch)
        assert stream.checkpoint.latest_planned == stream.checkpoint.latest_committed == batch
        _, rows, said = stream.look()
        assert said == []
        # The last file brings a deduplication no row, and a window no end.
        assert rows != expected or case.kind == "windows" or case.to == LAST_BUT_ONE
        assert stream.go_on() == expected
        assert stream.look()[2] == []

        if case.to == FIRST:
            stream.undo(first)
            assert stream.look() == stood
            assert stream.go_on() == expected
            stream.rewind(batch)
            assert stream.go_on() == expected

        stood = stream.look()
        # The rewound one once more: into what was there before the rewind, or among what came since.
        kept = batches_with_state(stream.checkpoint, kept_batches(stream.checkpoint))[:-1]
        other = next((one for one in kept if one != batch and one + 1 != newest), kept[-1])
        last = stream.rewind(other)
        assert stream.go_on() == expected
        stream.undo(last)
        assert stream.look() == stood


@pytest.mark.timeout(300)
def test_a_short_stream_goes_back_goes_on_and_is_undone(spark: Any, tmp_path: Path, classic_only: None) -> None:
    """The proof in seconds: three batches, back to the first."""
    labs = Labs(spark, tmp_path, last=2)
    case = Case("within", "hdfs", "files", FIRST, "all")
    with applied(spark, settings(case)):
        stream = declare(labs, case)
        stood, expected = stream.look(), case.stream.count(labs.last)
        plan = stream.rewind(0)
        assert stream.checkpoint.latest_planned == 0
        assert stream.go_on() == expected
        stream.undo(plan)
        assert stream.look() == stood
        assert stood[1:] == (expected, [])


def unavailable(case: Case) -> bool:
    return version("pyspark").startswith("3.5") and not case.on_3_5


@pytest.mark.chaos
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_stream_goes_back_goes_on_and_is_undone(labs: Labs, case: Case, classic_only: None) -> None:
    if unavailable(case):
        pytest.skip("not offered by this line of Spark")
    goes_back_and_forth(labs, case)


def test_each_pair_of_values_comes_by() -> None:
    wanted = {pair for case in every_case() for pair in pairs_of(case)}
    assert {pair for case in pairwise() for pair in pairs_of(case)} == wanted


TABLES = {
    "change data feed": ("id INT", "", {"delta.enableChangeDataFeed": "true"}),
    "column mapping": ("id INT", "", {"delta.columnMapping.mode": "name"}),
    "partition columns": ("id INT", "PARTITIONED BY (id)", {}),
    "deletion vectors": ("id INT", "", {"delta.enableDeletionVectors": "true"}),
}


@pytest.mark.chaos
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_every_form_go_back(spark: Any, tmp_path: Path, name: str, classic_only: None) -> None:
    """Made by their owner with properties, one of them set later: what RESTORE gives back with them is said."""
    columns, partitioned, properties = TABLES[name]
    case = Case("within", "changelog", "files", MIDDLE, "all")
    labs = Labs(spark, tmp_path)
    lab, _ = labs.lab(case)
    with applied(spark, settings(case)):
        place = Place(lab.folder / "own")
        told = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        told = f"TBLPROPERTIES ({told})" if told else ""
        spark.sql(f"CREATE TABLE delta.`{place.table}` ({columns}) USING delta {partitioned} {told}")
        lab.run(case.stream, place)
        lab.made[f"{case.kind}-{case.provider}"] = place
        stream = declare(labs, case)
        spark.sql(f"ALTER TABLE delta.`{stream.place.table}` SET TBLPROPERTIES ('owner.note' = 'set later')")
        stood = stream.look()
        batch = batch_of(case, stream.checkpoint)
        plan = stream.rewind(batch)
        assert any("The settings of" in line and "SET TBLPROPERTIES" in line for line in plan.statements)
        found = spark.sql(f"SHOW TBLPROPERTIES delta.`{stream.place.table}`").collect()
        known = {row.key: row.value for row in found}
        assert "owner.note" not in known
        assert {key: known.get(key) for key in properties} == properties
        assert stream.go_on() == case.stream.expected
        stream.undo(plan)
        assert stream.look() == stood
