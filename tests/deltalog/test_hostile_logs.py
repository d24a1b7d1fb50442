"""A table's log is untrusted input: any names, any bytes and any values are read or refused by name, within bounds."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surestart.cli.main import main
from surestart.declaration import SourceDeclaration
from surestart.errors import CannotTell
from surestart.facts.checkpoint.positions import DeltaPosition
from surestart.facts.checkpoint.snapshot import CheckpointSource
from surestart.facts.delta import read_active_files, read_delta_log, read_history
from surestart.facts.evidence.sink_evidence import evidence_from_log
from surestart.facts.evidence.source_evidence import NextRead, read_delta_source
from surestart.report.html.page import render
from surestart.report.json.inspection import inspection_json
from surestart.report.text.inspection import render_inspection
from surestart.verdict.delta_source_findings import find_delta_source
from surestart.verdict.inspection import inspect_checkpoint
from surestart.words.next_commands import Commands
from tests.checkpoint.checkpoint_maker import QUERY_ID, make_checkpoint
from tests.checkpoint.memory_storage import MemoryStorage
from tests.deltalog.handmade import add, commit_file, create, info, txn, write_commit, write_table

HUGE = st.sampled_from((2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**18, 10**4000, 1e308))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | HUGE
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
# Every field that is read anywhere, so that each of them meets every kind of value.
FIELDS = {
    "commitInfo": (
        *("timestamp", "inCommitTimestamp", "operation", "operationParameters", "operationMetrics", "userMetadata"),
        *("txnId", "engineInfo", "isBlindAppend"),
    ),
    "txn": ("appId", "version", "lastUpdated"),
    "metaData": ("id", "schemaString", "partitionColumns", "configuration", "createdTime", "name", "format"),
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    "add": ("path", "partitionValues", "size", "stats", "deletionVector", "modificationTime", "dataChange"),
    "remove": ("path", "deletionVector", "dataChange", "deletionTimestamp"),
    "cdc": ("path",),
    "sidecar": ("path", "sizeInBytes"),
    "checkpointMetadata": ("version",),
}
SENSIBLE = {
    "appId": st.just(QUERY_ID),
    "operation": st.sampled_from(("STREAMING UPDATE", "MERGE", "RESTORE", "WRITE", "DELETE", "TRUNCATE", "CLONE")),
    "operationParameters": st.fixed_dictionaries({"queryId": st.just(QUERY_ID), "epochId": JSON, "version": JSON}),
    "userMetadata": st.builds(
        lambda value: json.dumps({"surestart": {"query": "q", "query_id": QUERY_ID, "batch_id": value}}), JSON
    ),
    "configuration": st.fixed_dictionaries(
        {
            "delta.logRetentionDuration": JSON | st.sampled_from(("interval 1 week", "interval 99999999999 days")),
            "delta.setTransactionRetentionDuration": JSON
            | st.sampled_from(("interval 999999999999 weeks", "interval -1 day")),
        }
    ),
    "schemaString": st.builds(json.dumps, JSON),
    "stats": st.builds(json.dumps, JSON),
    "path": st.sampled_from(("a.parquet", "../../etc/passwd", "%00", "%ff", "file://[", "s3://x/y", "")),
}


def body(kind: str) -> st.SearchStrategy[dict[str, object]]:
    fields = {name: SENSIBLE[name] | JSON if name in SENSIBLE else JSON for name in FIELDS[kind]}
    return st.fixed_dictionaries({}, optional=fields)


ACTION = st.sampled_from(sorted(FIELDS)).flatmap(lambda kind: st.builds(lambda value: {kind: value}, body(kind) | JSON))
# Most lines and names are plausible ones: one that is not is refused, and hides what the others would do.
LINE = st.one_of(
    *(st.builds(lambda action: json.dumps(action).encode(), ACTION) for _ in range(9)),
    st.sampled_from(
        (
            *(b"", b"   ", b"\xff", b"{}", b"[]", b'{"txn"', b'{"txn":{"version":1e999}}', b'{"txn":' + b"[" * 100_000),
            b'{"add":null}',
        )
    ),
)
NAME = st.one_of(
    *(st.sampled_from([f"{version:020d}.json" for version in (1, 2, 3, 4)]) for _ in range(4)),
    st.sampled_from(
        (
            *("00000000000000000007.json", "00000000000000000002.checkpoint.parquet", "_last_checkpoint"),
            "00000000000000000003.checkpoint.0123456789ab.json",
            "00000000000000000002.checkpoint.0000000001.0000000001.parquet",
            *("_staged_commits/x", "_sidecars/a.parquet", "9" * 20 + ".json", "٠" * 20 + ".json", "1.json"),
            *("00000000000000000005.json/x", "9" * 20 + ".checkpoint.parquet", "00000000000000000001.crc", "x" * 255),
        )
    ),
)


POSITION = DeltaPosition("T", 1, -1, False)
SOURCE = SourceDeclaration("delta", "table")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> MemoryStorage:
    table = write_table(tmp_path_factory.mktemp("logs"), 2)
    write_commit(table, 3, info("STREAMING UPDATE"), txn(QUERY_ID, 4), add("f"))
    return MemoryStorage.of(table)


@given(st.lists(st.tuples(NAME, st.lists(LINE, max_size=5)), min_size=1, max_size=4))
@settings(max_examples=600, deadline=None)
def test_any_log_is_read_or_refused_by_name(healthy: MemoryStorage, written: list[tuple[str, list[bytes]]]) -> None:
    storage = healthy
    for name, lines in written:
        if not any(f"_delta_log/{name}".startswith(f"{file}/") for file in storage.files):
            storage = storage.with_file(f"_delta_log/{name}", b"\n".join(lines))
    for read in (read_delta_log, read_history, read_active_files):
        with suppress(CannotTell):
            read("/memory", storage=storage)
    for position in (None, POSITION):
        found = read_delta_source("/memory", position, storage)
        assert (
            list(
                find_delta_source(
                    SOURCE, NextRead(CheckpointSource("0", "delta", POSITION, POSITION), True), found, Commands("x"), 1
                )
            )
            is not None
        )


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("places")
    make_checkpoint(root / "ck")
    write_commit(root / "table", 0, *create())
    return root / "ck", root / "table"


@given(st.lists(LINE, min_size=1, max_size=5), st.lists(LINE, max_size=5))
@settings(max_examples=200, deadline=None)
def test_any_sink_is_judged_and_shown(places: tuple[Path, Path], first: list[bytes], second: list[bytes]) -> None:
    checkpoint, table = places
    start = "\n".join(json.dumps(action) for action in create()).encode()
    commit_file(table, 1).write_bytes(b"\n".join([start, *first]))
    commit_file(table, 2).write_bytes(b"\n".join([json.dumps(txn(QUERY_ID, 4)).encode(), *second]))
    inspection = inspect_checkpoint(str(checkpoint), sinks=(str(table), f"delta-builtin:{table}"))
    assert render_inspection(inspection)
    json.loads(inspection_json(inspection))
    assert render(inspection)


@pytest.mark.parametrize("make", ["folder", "dangling", "loop", "pipe", "zero"])
def test_what_is_no_file_is_not_opened(make: str, tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "ck")
    table = write_table(tmp_path / "table", 2)
    path = commit_file(table, 3)
    if make == "folder":
        path.mkdir()
    elif make == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"dangling": "nothing", "loop": path.name, "zero": "/dev/zero"}[make])
    assert main(["inspect", str(tmp_path / "ck"), "--sink", str(table)]) in (3, 4)
    with pytest.raises(CannotTell):
        read_delta_log(str(table))


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_commit_that_broke_off_in_a_line_that_nobody_asked_for_is_damaged(tmp_path: Path, cut: int) -> None:
    """Its `add` comes behind what says which batch it is; Spark reads no such table, and a start fails."""
    table = write_table(tmp_path / "t", 3)
    newest = commit_file(table, 3)
    newest.write_bytes(newest.read_bytes().rstrip()[:-cut])

    with pytest.raises(CannotTell) as raised:
        read_delta_log(str(table))
    assert raised.value.code == "DeltaLogDamaged"


@pytest.mark.parametrize(
    ("needed", "known"),
    [
        ({"minReaderVersion": 3, "readerFeatures": ["deletionVectors", "v2Checkpoint", "columnMapping"]}, True),
        ({"minReaderVersion": 3, "readerFeatures": ["redirectReaderWriter-preview"]}, False),
        ({"minReaderVersion": 3, "readerFeatures": ["deletionVectors", "not yet invented"]}, False),
        ({"minReaderVersion": 4}, False),
    ],
)
def test_a_table_of_features_that_readers_have_to_know_is_not_known_to_its_end(
    tmp_path: Path, needed: dict[str, object], known: bool
) -> None:
    table = write_table(tmp_path / "t", 3)
    write_commit(table, 4, info("SET TBLPROPERTIES"), {"protocol": {"minWriterVersion": 7, **needed}})
    evidence = evidence_from_log(read_delta_log(str(table)))

    assert evidence.sees_newest is known
    assert (evidence.unknown_features == ()) is known


@pytest.mark.parametrize(
    "line",
    [
        '{"txn":{"appId":"q","version":7.0}}',
        '{"txn":{"appId":"q","version":7e0}}',
        '{"txn":{"appId":"q","version":null}}',
        '{"txn":{"appId":"q"}}',
        '{"txn":{"version":7}}',
        '{"txn":{"appId":"q","version":"9223372036854775808"}}',
        '{"commitInfo":{},"txn":{"appId":"q","version":7}}',
        '{"txn":{"appId":"q","version":7},"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
        '{"protocol":{"minReaderVersion":99.0,"minWriterVersion":2}}',
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":{"x":1}}}',
    ],
)
def test_an_action_that_does_not_say_what_decides_is_not_passed_over(tmp_path: Path, line: str) -> None:
    """Delta takes 7.0 for 7, and one of two actions; a reader that passes over it would call a table behind."""
    table = write_table(tmp_path / "t", 5)
    commit_file(table, 6).write_text(line + "\n")
    with pytest.raises(CannotTell):
        read_delta_log(str(table))


@pytest.mark.parametrize("version", ["7", '"7"', "9223372036854775807"])
@pytest.mark.parametrize("before", ["", '"add":null,"remove":null,'])
def test_an_action_is_read_however_it_is_written(tmp_path: Path, before: str, version: str) -> None:
    table = write_table(tmp_path / "t", 5)
    commit_file(table, 6).write_text(f'{{{before}"txn":{{"appId":"q","version":{version}}}}}\n')
    assert read_delta_log(str(table)).transactions["q"].version == int(version.strip('"'))
