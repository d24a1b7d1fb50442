"""plan restart: with which options a declared stream begins anew from a batch, and what each sink makes of it."""

from __future__ import annotations

import argparse
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from surestart.cli.main import main
from surestart.cli.plan import command_to_apply
from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.evidence.iceberg_sink import read_iceberg_metadata
from surestart.facts.storage.open_storage import open_storage
from surestart.journal.journal import BEGUN, DONE, UNDOING, Journal, JournalEntry
from surestart.remedies.basis.chain import Chain, anew_command, read_chain
from surestart.remedies.basis.plan import Plan, check_names, check_touched
from surestart.remedies.basis.step_context import StepContext
from surestart.remedies.planning.plan_restart import plan_restart
from surestart.remedies.planning.plan_retire import plan_retire
from surestart.remedies.planning.wanted import Request
from surestart.remedies.steps import retire
from surestart.streams.as_pipeline import StreamEnvironment, environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import parse_project_text
from tests.deltalog.handmade import add, create, info, txn, write_commit
from tests.diagnosis.stage_values import QUERY_ID, write_checkpoint
from tests.remedies.move import write_entries


def plan_of(folder: Path, sink: str, offsets: list[str], from_batch: int | None = None, source: str = "") -> Plan:
    """Of a stream whose batch N ended at offsets[N]."""
    environment, chain = declared(folder, sink, offsets, source)
    return plan_restart(None, environment, chain, "orders", from_batch, Request({}))  # type: ignore[arg-type]


def declared(folder: Path, sink: str, offsets: list[str], source: str = "") -> tuple[StreamEnvironment, Chain]:
    checkpoint = folder / "chk" / "orders"
    if not checkpoint.exists():
        write_checkpoint(checkpoint, planned=len(offsets) - 1, committed=len(offsets) - 1)
        for batch, offset in enumerate(offsets):
            head = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[:2]
            (checkpoint / "offsets" / str(batch)).write_text("\n".join([*head, offset]))
    said = f"[stream.orders]\ncheckpoint = '{checkpoint}'\n{source}\n{sink}\n[stream.other]\ncheckpoint = '/o'\n"
    project = parse_project_text(folder / "surestart.toml", said + "sink = { kafka = 'x' }")
    environment = environment_of_streams(project)
    return environment, read_chain(environment, pipeline_of_streams(project.streams).build_stages({}))


def kafka(offset: int) -> str:
    return json.dumps({"orders": {"0": offset, "1": 10 * offset}})


def table_of(folder: Path, batches: int, rows: int = 7) -> Path:
    table = folder / "t"
    write_commit(table, 0, *create())
    for batch in range(batches):
        counted = {"numOutputRows": str(rows + batch)}
        said = {"queryId": QUERY_ID, "epochId": str(batch)}
        note = info("STREAMING UPDATE", operationParameters=said, operationMetrics=counted)
        write_commit(table, batch + 1, note, txn(QUERY_ID, batch), add(f"f{batch}"))
    return table


def test_kafka_begins_where_the_batch_before_ended_and_its_rows_are_counted(tmp_path: Path) -> None:
    table = table_of(tmp_path, 5)
    plan = plan_of(tmp_path, f"sink = {{ delta = '{table}' }}", [kafka(n) for n in range(5)], from_batch=3)
    said = "\n".join(plan.statements)

    assert '.option("startingOffsets", "{\\"orders\\":{\\"0\\":2,\\"1\\":20}}")' in said
    # Batches 3 and 4 wrote 10 and 11 rows.
    assert f"{table}: holds batches 3..4 of this query: 21 rows come twice" in said
    assert [step.kind for step in plan.steps] == ["retire", "start"]
    assert {effect.action for effect in plan.effects} == {"stays as it is", "move aside"}


@pytest.mark.parametrize(
    ("sink", "says"),
    [
        ("sink = { kafka = 'out' }", "comes twice, uncounted"),
        ("sink = { append = 'TABLE', app_id = 'nightly' }", "knows no batch under 'nightly'"),
        ("sink = { merge = 'TABLE', keys = ['id'] }", "matched by id: they change nothing"),
        ("sink = { delta = '/nowhere' }", "names no batch of this query"),
        ("", "No sink is declared"),
    ],
)
def test_each_sink_says_what_it_makes_of_it(tmp_path: Path, sink: str, says: str) -> None:
    table = table_of(tmp_path, 5)
    plan = plan_of(tmp_path, sink.replace("TABLE", str(table)), [kafka(n) for n in range(5)], from_batch=3)

    assert says in "\n".join(plan.statements)


def test_a_sink_that_counts_batches_alone_drops_the_first_ones(tmp_path: Path) -> None:
    out = tmp_path / "out" / "_spark_metadata"
    out.mkdir(parents=True)
    for batch in range(5):
        (out / str(batch)).write_text('v1\n{"path":"x","size":1}')
    plan = plan_of(tmp_path, f"sink = {{ parquet = '{out.parent}' }}", [kafka(n) for n in range(5)], from_batch=3)

    assert "drops the first 5 batches of a new checkpoint, so their rows do not come at all" in str(plan.statements)


def test_a_table_that_each_batch_writes_anew_gets_no_row_twice(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write_commit(table, 0, *create())
    for batch in range(5):
        said = {"queryId": QUERY_ID, "epochId": str(batch), "outputMode": "Complete"}
        note = info("STREAMING UPDATE", operationParameters=said, operationMetrics={"numOutputRows": "9"})
        write_commit(table, batch + 1, note, txn(QUERY_ID, batch), add(f"f{batch}"))
    plan = plan_of(tmp_path, f"sink = {{ delta = '{table}' }}", [kafka(n) for n in range(5)], from_batch=3)

    said = "\n".join(plan.statements)
    assert "writes the whole result anew: no row comes twice" in said
    assert "come twice" not in said.replace("no row comes twice", "")


def test_a_table_that_is_behind_lacks_the_batches_between(tmp_path: Path) -> None:
    table = table_of(tmp_path, 2)
    plan = plan_of(tmp_path, f"sink = {{ delta = '{table}' }}", [kafka(n) for n in range(6)], from_batch=4)

    assert "those of 2..3 do not come at all" in "\n".join(plan.statements)


def delta(version: int, index: int, snapshot: bool = False) -> str:
    position = {"sourceVersion": 1, "reservoirId": "T", "reservoirVersion": version, "index": index}
    return json.dumps({**position, "isStartingVersion": snapshot})


def test_delta_begins_at_a_version_and_says_what_of_it_comes_again(tmp_path: Path) -> None:
    source = f"source = {{ delta = '{table_of(tmp_path, 5)}' }}"
    offsets = [delta(0, 3, snapshot=True), delta(3, -1), delta(4, 1), delta(6, -1)]

    assert '.option("startingVersion", "3")' in str(plan_of(tmp_path, "", offsets, 2, source).statements)
    inside = str(plan_of(tmp_path, "", offsets, 3, source).statements)
    assert "inside version 4: the first 2 files of that come again" in inside
    assert "no option begins there" in str(plan_of(tmp_path, "", offsets, 1, source).statements)
    # The batch that comes next; its table has no version 6 yet.
    newest = str(plan_of(tmp_path, "", offsets, None, source).statements)
    assert "it is at version 5; start it once version 6 is there" in newest


def test_a_partition_made_since_is_named_too_because_spark_refuses_a_list_without_it(tmp_path: Path) -> None:
    offsets = [kafka(n) for n in range(4)]
    offsets[3] = json.dumps({"orders": {"0": 3, "1": 30, "2": 5}, "more": {"0": 1}})

    said = "\n".join(plan_of(tmp_path, "", offsets, 2).statements)

    (line,) = [one for one in said.splitlines() if "startingOffsets" in one]
    value = json.loads(json.loads(line.partition(", ")[2].removesuffix(")")))
    assert value == {"more": {"0": -2}, "orders": {"0": 1, "1": 10, "2": -2}}
    assert "one made since the newest batch is added with -2" in said


SEQUENCE = "49590338271490256608559692538361571095921575989136588898"
SHARD = {"metadata": {"streamName": "clicks"}, "shardId-000000000000": {"iteratorPosition": SEQUENCE}}
# (source as declared, its position, what has to be said)
ELSEWHERE: dict[str, tuple[str, object, list[str]]] = {
    "auto loader": (
        "source = { auto-loader = '/in' }",
        {"seqNum": 900, "sourceVersion": 1},
        [
            "begins at no position",
            "900 files discovered",
            '.option("modifiedAfter", "20',
            "by as much as the stream lagged",
        ],
    ),
    "kinesis": (
        "source = { kinesis = 'clicks' }",
        SHARD,
        ["shard 0 after", '"at_timestamp"', '"kinesis.startingPosition", "AT_TIMESTAMP 20', "lagged"],
    ),
    "event hubs": (
        "source = { event-hubs = 'orders' }",
        {"orders": {"0": 100, "1": 42}},
        ['.option("eventhubs.startingPositions"', "orders", "isInclusive"],
    ),
    "iceberg, its table unknown": (
        "",
        {"version": 1, "snapshot_id": 7, "position": 2, "scan_all_files": False},
        ["stream-from-timestamp takes the time of snapshot 7 in ms since 1970"],
    ),
    "iceberg, a whole table": (
        "",
        {"version": 1, "snapshot_id": 7, "position": 2, "scan_all_files": True},
        ["no option begins inside a whole table"],
    ),
    "iceberg, nothing yet": (
        "",
        {"version": 1, "snapshot_id": -1, "position": -1, "scan_all_files": False},
        ["it had read nothing yet"],
    ),
    "rate": ("source = { rate = 'r' }", 17, ["makes its rows anew and begins at 0", "stood at 17"]),
    "rate by batch": ("", {"offset": 1000, "timestamp": 1_790_000_000_000}, ["begins at 0", "1,000 rows made"]),
    "nobody knows it": ("", {"messageId": "CAEQAA=="}, ["no option is known for it", "CAEQAA=="]),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_takes_no_position_says_so_and_what_it_takes_instead(tmp_path: Path, name: str) -> None:
    source, position, says = ELSEWHERE[name]
    said = "\n".join(plan_of(tmp_path, "", [json.dumps(position)] * 4, 2, source).statements)

    assert [one for one in says if one not in said] == []
    assert ("startingOffsets" in said) is False


def test_event_hubs_positions_are_as_its_connector_reads_them(tmp_path: Path) -> None:
    offsets = [json.dumps({"hub": {"0": 10 * n}}) for n in range(3)] + [json.dumps({"hub": {"0": 30, "1": 4}})]
    said = plan_of(tmp_path, "", offsets, 2, "source = { event-hubs = 'hub' }").statements

    (line,) = [one for one in said if "eventhubs.startingPositions" in one]
    positions = json.loads(json.loads(line.partition(", ")[2].removesuffix(")")))
    by_partition = {json.loads(key)["partitionId"]: value for key, value in positions.items()}
    assert (by_partition[0]["seqNo"], by_partition[0]["offset"]) == (10, None)
    assert (by_partition[1]["seqNo"], by_partition[1]["offset"]) == (-1, "-1")


def test_iceberg_begins_at_the_time_of_its_snapshot(tmp_path: Path) -> None:
    with zipfile.ZipFile(Path(__file__).parents[1] / "fleet" / "iceberg.zip") as archive:
        archive.extractall(tmp_path / "ice")
    table = min(path.parent.parent for path in (tmp_path / "ice").rglob("*.metadata.json"))
    snapshots = read_iceberg_metadata(open_storage(str(table))).snapshots  # type: ignore[union-attr]
    first = next(iter(snapshots.values()))
    position = {"version": 1, "snapshot_id": first.id, "position": 1, "scan_all_files": False}
    source = f"source = {{ iceberg = '{table}' }}"
    said = "\n".join(plan_of(tmp_path, "", [json.dumps(position)] * 3, 2, source).statements)

    assert f'.option("stream-from-timestamp", "{first.timestamp}")' in said
    assert "the first 1 files of that snapshot come again" in said
    gone = {**position, "snapshot_id": 1}
    other = plan_of(tmp_path / "b", "", [json.dumps(gone)] * 3, 2, source).statements
    assert "has no such snapshot any more" in "\n".join(other)


def test_files_are_listed_because_no_option_names_them(tmp_path: Path) -> None:
    checkpoint = tmp_path / "chk" / "orders"
    offsets = [json.dumps({"logOffset": batch}) for batch in range(4)]
    plan_of(tmp_path, "", offsets, 0)
    listed = checkpoint / "sources" / "0"
    listed.mkdir(parents=True)
    for batch in range(4):
        entry = {"path": f"file:///in/{batch}.json", "timestamp": 1, "batchId": batch}
        (listed / str(batch)).write_text(f"v1\n{json.dumps(entry)}")
    plan = plan_of(tmp_path, "", offsets, 2)

    assert plan.steps[0].arguments["files_to_read"] == ["file:///in/2.json", "file:///in/3.json"]
    assert "has no start option" in "\n".join(plan.statements)


@pytest.mark.parametrize("batch", [-1, 6, 99])
def test_a_batch_that_is_not_known_is_refused(tmp_path: Path, batch: int) -> None:
    with pytest.raises(Refused, match="batches 1 to 5"):
        plan_of(tmp_path, "", [kafka(n) for n in range(5)], batch)


def test_an_older_entry_that_is_gone_is_refused_with_the_oldest_one(tmp_path: Path) -> None:
    offsets = [kafka(n) for n in range(5)]
    plan_of(tmp_path, "", offsets)
    for batch in (0, 1):
        (tmp_path / "chk" / "orders" / "offsets" / str(batch)).unlink()

    with pytest.raises(Refused) as raised:
        plan_of(tmp_path, "", offsets, 1)
    assert "--from-batch 3" in str(raised.value.next)


def test_its_checkpoint_is_put_beside_its_place_and_comes_back_byte_for_byte(tmp_path: Path) -> None:
    environment, chain = declared(tmp_path, "", [kafka(n) for n in range(5)])
    plan = plan_restart(None, environment, chain, "orders", 3, Request({}))  # type: ignore[arg-type]
    checkpoint = tmp_path / "chk" / "orders"
    before, step = read_manifest(checkpoint), plan.steps[0]
    first = JournalEntry(plan.digest, 0, BEGUN, remedy="restart", stage="orders", queries=plan.queries)
    write_entries(environment, [first])
    run = StepContext(None, environment, chain, plan, Journal((first,)), print)  # type: ignore[arg-type]

    assert plan.queries == ("orders",)
    check_names(plan, chain, environment)
    check_touched(plan, chain, environment)
    retire.apply_step(run, step)
    aside = tmp_path / "chk" / "_retired" / "orders" / plan.digest[:16]
    assert not checkpoint.exists()
    assert read_manifest(aside) == before

    # What the new stream has made since is kept as well.
    write_checkpoint(checkpoint, planned=0, committed=0, query_id="0" * 8)
    entries = [first, JournalEntry(plan.digest, 1, DONE, step=step.id), JournalEntry(plan.digest, 2, UNDOING)]
    write_entries(environment, entries)
    retire.undo_step(StepContext(None, environment, chain, plan, Journal(tuple(entries)), print), step)  # type: ignore[arg-type]
    assert read_manifest(checkpoint) == before
    assert (tmp_path / "chk" / "_retired" / "orders" / f"{plan.digest[:16]}-undone").is_dir()


def spoil_with_a_table(checkpoint: Path) -> None:
    write_commit(checkpoint / "inner", 0, *create())


def spoil_with_a_checkpoint(checkpoint: Path) -> None:
    write_checkpoint(checkpoint / "other", planned=1, committed=1)


def put_a_table_there(checkpoint: Path) -> None:
    checkpoint.rename(checkpoint.with_name("elsewhere"))
    write_commit(checkpoint, 0, *create())
    (checkpoint / "part-0.parquet").write_bytes(b"rows")


def put_only_rows_there(checkpoint: Path) -> None:
    checkpoint.rename(checkpoint.with_name("elsewhere"))
    checkpoint.mkdir()
    (checkpoint / "part-0.parquet").write_bytes(b"rows")


@pytest.mark.parametrize("spoil", [spoil_with_a_table, spoil_with_a_checkpoint, put_a_table_there, put_only_rows_there])
def test_nothing_but_a_checkpoint_is_moved_aside(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """A wrong path in the file would take a table away, or the checkpoints of other streams."""
    environment, chain = declared(tmp_path, "sink = { kafka = 'x' }", [kafka(0)])
    spoil(tmp_path / "chk" / "orders")

    for plan in (
        lambda: plan_restart(None, environment, chain, "orders", 0, Request({})),  # type: ignore[arg-type]
        lambda: plan_retire(None, environment, chain, "orders", False, Request({})),  # type: ignore[arg-type]
    ):
        with pytest.raises(Refused) as refused:
            plan()
        assert refused.value.code == "NotOneCheckpoint"


def test_what_a_declared_stream_is_told_next_is_not_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rewind that is not possible named a reset, the reset a rewind; a resume named a run."""
    environment, chain = declared(tmp_path, "sink = { kafka = 'x' }", [kafka(0)])
    (tmp_path / "surestart.toml").write_text(
        f"[stream.orders]\ncheckpoint = '{chain.link('orders').checkpoint}'\nsink = {{ noop = 'x' }}\n"
    )
    place = ("--streams", str(tmp_path / "surestart.toml"))
    nothing_to_do = replace(
        plan_of(tmp_path, "sink = { kafka = 'x' }", [kafka(0)]), remedy="resume", verdict="safe", steps=()
    )
    args = argparse.Namespace(root="", set=[], pipeline="", streams="", output="")

    assert str(anew_command(environment, chain.link("orders"))).startswith("surestart plan restart orders ")
    assert str(command_to_apply(nothing_to_do, args, environment)).startswith("surestart doctor orders ")
    assert main(["doctor", "nope", *place]) == 2
    assert "Next: surestart doctor\n" in capsys.readouterr().err
