"""plan restart: with which options a declared stream begins anew from a batch, and what each sink makes of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from surestart.cli.main import main
from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.remedies.plan.chain import read_chain
from surestart.remedies.plan.plan import Plan
from surestart.remedies.planning.plan_restart import plan_restart
from surestart.remedies.planning.request import Request
from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import parse_project_text
from tests.deltalog.handmade import add, create, info, txn, write_commit
from tests.diagnosis.stage_values import QUERY_ID, write_checkpoint


def plan_of(folder: Path, sink: str, offsets: list[str], from_batch: int | None = None, source: str = "") -> Plan:
    """Of a stream whose batch N ended at offsets[N]."""
    checkpoint = folder / "chk" / "orders"
    if not checkpoint.exists():
        write_checkpoint(checkpoint, planned=len(offsets) - 1, committed=len(offsets) - 1)
        for batch, offset in enumerate(offsets):
            head = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[:2]
            (checkpoint / "offsets" / str(batch)).write_text("\n".join([*head, offset]))
    said = f"[stream.orders]\ncheckpoint = '{checkpoint}'\n{source}\n{sink}\n[stream.other]\ncheckpoint = '/o'\n"
    project = parse_project_text(folder / "surestart.toml", said + "sink = { kafka = 'x' }")
    environment = environment_of_streams(project)
    chain = read_chain(environment, pipeline_of_streams(project.streams).build_stages({}))
    return plan_restart(None, environment, chain, "orders", from_batch, Request({}))  # type: ignore[arg-type]


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
    assert "--from-batch 3" in raised.value.next


def test_a_stream_begins_anew_as_planned_and_an_undo_puts_its_checkpoint_back(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    classic_only: None,
) -> None:
    """The option that is printed, pasted; as many rows twice as the plan has said."""
    source, table, checkpoint = (tmp_path / name for name in ("in", "out", "chk/copy"))
    for number in range(4):
        spark.range(10 * number, 10 * number + 10).coalesce(1).write.format("delta").mode("append").save(str(source))
    run(spark, source, table, checkpoint, maxFilesPerTrigger="1", startingVersion="0")
    monkeypatch.chdir(tmp_path)
    assert main(["adopt", "--checkpoints", str(tmp_path), "-o", "surestart.toml"]) in (0, 1)
    text = (tmp_path / "surestart.toml").read_text()
    assert f'source = {{ delta = "{source}" }}' in text
    assert f'sink = {{ delta = "{table}" }}' in text
    before = read_manifest(checkpoint)

    assert main(["plan", "restart", "copy", "--from-batch", "2", "-o", "plan.json", "--jobs", "none"]) == 0
    said = capsys.readouterr().out
    (version,) = re.findall(r'option\("startingVersion", "(\d+)"\)', said)
    (twice,) = re.findall(r"(\d+) rows come twice", said)
    assert main(["apply", "plan.json", "--confirm", "local/streams-copy"]) == 0
    assert not (checkpoint / "metadata").exists()
    run(spark, source, table, checkpoint, startingVersion=version)
    rows = spark.read.format("delta").load(str(table)).count()
    digest = re.findall(r"digest ([0-9a-f]{12})", capsys.readouterr().out)[0]

    assert (rows, twice) == (60, "20")
    assert main(["undo", digest, "--confirm", "local/streams-copy"]) == 0
    assert read_manifest(checkpoint) == before
    assert main(["plan", "retire", "copy", "-o", "plan.json", "--jobs", "none"]) == 0
    assert main(["apply", "plan.json", "--confirm", "local/streams-copy"]) == 0
    assert not checkpoint.exists()


def run(spark: Any, source: Path, table: Path, checkpoint: Path, **options: str) -> None:
    stream = spark.readStream.format("delta").options(**options).load(str(source))
    writer = stream.writeStream.format("delta").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(str(table))
    query.awaitTermination()
