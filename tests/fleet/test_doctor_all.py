"""`surestart doctor` over surestart.toml: every declared stream in one table, with its sink asked, the worst first."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest

from surestart.cli.main import main
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.finding import Verdict
from tests.checkpoint.checkpoint_maker import QUERY_ID, TABLE_ID, compact, delta, kafka, make_checkpoint
from tests.deltalog.handmade import create, info, txn, write_commit


def make_table(root: Path, query_id: str, last: int) -> Path:
    """A table of Delta's own sink: a commit for each batch up to the last."""
    write_commit(root, 0, *create())
    for batch in range(last + 1):
        parameters = {"outputMode": "Append", "queryId": query_id, "epochId": str(batch)}
        write_commit(root, batch + 1, info("STREAMING UPDATE", operationParameters=parameters), txn(query_id, batch))
    return root


def kinesis(batch: int) -> str:
    shard = {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": f"4959{batch:052}"}
    return compact({"metadata": {"streamName": "clicks", "batchId": str(batch)}, "shardId-000000000003": shard})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """good; skips (its table is ahead); unnamed (no sink declared); gone (its storage has no client here)."""
    text = []
    for name, ahead in (("good", 4), ("skips", 9)):
        query = str(uuid.uuid4())
        make_checkpoint(tmp_path / "ck" / name, query_id=query)
        make_table(tmp_path / "tables" / name, query, ahead)
        sink = f'sink = {{ delta = "{tmp_path}/tables/{name}", shared = false }}'
        text.append(f'[stream.{name}]\ncheckpoint = "{tmp_path}/ck/{name}"\n{sink}\n')
    make_checkpoint(tmp_path / "ck/unnamed", query_id=str(uuid.uuid4()))
    text.append(f'[stream.unnamed]\ncheckpoint = "{tmp_path}/ck/unnamed"\n')
    text.append('[stream.gone]\ncheckpoint = "hdfs://nowhere/ck"\nsink = { noop = "x" }\n')
    path = tmp_path / "surestart.toml"
    path.write_text("\n".join(text))
    return path


def test_all_streams_stand_in_one_table_the_worst_first(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--streams", str(project)]) == 3
    lines = capsys.readouterr().out.splitlines()

    shown = [line for line in lines if line.startswith(("good ", "skips ", "unnamed ", "gone "))]
    assert [line.split()[0] for line in shown] == ["skips", "gone", "unnamed", "good"]
    assert "SKIPS" in shown[0]
    assert "not looked at" in shown[1]
    assert "ATTENTION" in shown[3]
    assert "accepts" in shown[3]


def test_the_json_names_each_and_the_page_links_each(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "fleet.html"
    main(["doctor", "--streams", str(project), "--json", "--html", str(page)])
    answer = json.loads(capsys.readouterr().out)

    verdicts = {one["name"]: one["verdict"] for one in answer["streams"]}
    assert verdicts == {"skips": "unsafe", "gone": "cannot tell", "unnamed": "cannot tell", "good": "attention"}
    codes = {one["name"]: [found["code"] for found in one["findings"]] for one in answer["streams"]}
    assert "SINK_NOT_NAMED" in codes["unnamed"]
    assert "SOURCE_NOT_DECLARED" in codes["good"]
    # What could not be read says what is missing for it.
    (gone,) = [one["findings"] for one in answer["streams"] if one["name"] == "gone"]
    assert "pip install" in gone[0]["next"]
    assert page.read_text().count('href="#stream-') == 4


def test_with_a_name_the_answer_is_the_detail_of_one(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "good", "--streams", str(project)]) == 1
    assert "query id" in capsys.readouterr().out


def test_a_gate_in_a_deployment_passes_where_every_stream_is_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = str(uuid.uuid4())
    make_checkpoint(tmp_path / "ck", query_id=query, source=delta)
    make_table(tmp_path / "out", query, 4)
    now = int(time.time() * 1000)
    # The last batch has read up to version 15: two wait.
    write_commit(tmp_path / "in", 0, *create(table_id=TABLE_ID))
    for version in range(1, 18):
        write_commit(tmp_path / "in", version, info("WRITE", timestamp=now, operationParameters={"mode": "Append"}))
    (tmp_path / "surestart.toml").write_text(
        f'[stream.one]\ncheckpoint = "{tmp_path}/ck"\nsource = {{ delta = "{tmp_path}/in" }}\n'
        f'sink = {{ delta = "{tmp_path}/out", shared = false }}\n'
    )

    code = main(["doctor", "--streams", str(tmp_path / "surestart.toml")])
    said = capsys.readouterr().out

    assert code == 0, said
    assert "1 stream: 1 safe" in said
    assert "2 commits" in said
    assert "surestart run" not in said


@pytest.mark.parametrize(
    ("sink", "code"),
    [
        ('{ noop = "x" }', 0),
        ('{ console = "x" }', 0),
        ('{ jdbc = "db.table", keys = ["id"] }', 0),
        ('{ jdbc = "db.table", ledger = "db.batches" }', 4),
        ('{ jdbc = "db.table" }', 4),
        ('{ kafka = "out" }', 4),
        ('{ other = "lakehouse" }', 4),
    ],
)
def test_what_keeps_no_record_is_judged_by_its_kind_and_what_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sink: str, code: int
) -> None:
    make_checkpoint(tmp_path / "ck", source=kinesis)
    (tmp_path / "surestart.toml").write_text(
        f'[stream.one]\ncheckpoint = "{tmp_path}/ck"\nsource = {{ kinesis = "clicks" }}\nsink = {sink}\n'
    )

    found = main(["doctor", "--streams", str(tmp_path / "surestart.toml"), "--json"])
    answer = json.loads(capsys.readouterr().out)

    codes = [one["code"] for one in answer["streams"][0]["findings"]]
    assert "SOURCE_NOT_ASKED" in codes
    # The source is only Spark's to ask.
    assert found == (code or 1), codes


def test_a_pattern_of_topics_and_brokers_that_nobody_names_are_not_asked_and_no_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_checkpoint(tmp_path / "ck", source=kafka, query_id=QUERY_ID)
    for source in ('{ kafka = "orders" }', '{ kafka = "orders.*", bootstrap = "127.0.0.1:1" }'):
        (tmp_path / "surestart.toml").write_text(
            f'[stream.one]\ncheckpoint = "{tmp_path}/ck"\nsource = {source}\nsink = {{ noop = "x" }}\n'
        )
        assert main(["doctor", "--streams", str(tmp_path / "surestart.toml")]) == 4, source
        assert "SOURCE_NOT_READ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ("jdbc+ledger=db.batches:db.table", "SINK_LEDGER_DECLARED"),
        ("jdbc+keys=id:db.table", "SINK_REPLAY_MERGED"),
        ("memory:rows", "MEMORY_SINK_NOT_RESUMED"),
        ("jdbc:db.table", "SINK_REPLAY_UNRECOGNISABLE"),
    ],
)
def test_a_batch_in_flight_over_what_keeps_no_record(tmp_path: Path, sink: str, expected: str) -> None:
    make_checkpoint(tmp_path, committed=range(4))
    found = inspect_checkpoint(str(tmp_path), sinks=(sink,))
    assert expected in [one.code for one in found.findings]
    harmless = expected in ("SINK_LEDGER_DECLARED", "SINK_REPLAY_MERGED")
    assert found.verdict is (Verdict.ATTENTION if harmless else Verdict.CANNOT_TELL)
