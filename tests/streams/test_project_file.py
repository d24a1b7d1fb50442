"""surestart.toml: what it says is understood as it was meant, or refused with the place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from surestart.errors import UsageError
from surestart.report.text.history_table import render_history
from surestart.report.text.stage_table import render_stages
from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import find_project_file, read_project_file

GOOD = """
[stream.orders]
checkpoint = "s3://bucket/chk/orders_v2"
source = { kafka = "orders", bootstrap = "k1:9092" }
sink = { delta = "main.bronze.orders", shared = true }

[stream.customers]
checkpoint = "/Volumes/main/ops/chk/customers"
source = { delta = "main.bronze.orders" }
sink = [{ merge = "main.silver.customers", keys = ["id"] }, { append = "/t/log", app_id = "nightly" }]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "surestart.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_streams_are_what_the_file_says(tmp_path: Path) -> None:
    project = read_project_file(written(tmp_path, GOOD))
    orders, customers = project.streams
    assert (orders.checkpoint, orders.sources[0].kind, orders.sources[0].target) == (
        "s3://bucket/chk/orders_v2",
        "kafka",
        "orders",
    )
    assert (orders.sinks[0].kind, orders.sinks[0].shared, orders.sinks[0].path) == ("delta", True, "")
    merge, append = customers.sinks
    assert (merge.kind, merge.keys) == ("delta-merge", ("id",))
    assert (append.kind, append.path, append.constant) == ("delta-append", "/t/log", "nightly")


def test_declared_streams_are_stages_with_their_own_checkpoints(tmp_path: Path) -> None:
    project = read_project_file(written(tmp_path, GOOD))
    environment = environment_of_streams(project)
    stages = pipeline_of_streams(project.streams).build_stages({})
    declared = [stage.declare(environment) for stage in stages]
    assert [one.checkpoint for one in declared] == [stream.checkpoint for stream in project.streams]
    assert [one.query for one in declared] == ["orders", "customers"]
    assert environment.table("surestart_runs").path.startswith(str(tmp_path))


def test_the_nearest_file_above_is_found(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_project_file(below) == path


def test_nobody_is_told_to_let_surestart_run_a_declared_stream(tmp_path: Path) -> None:
    environment = environment_of_streams(read_project_file(written(tmp_path, GOOD)))
    told = [
        render_stages(environment, [], ("--streams", "f.toml")),
        render_history(environment, [], {}, 0, ("--streams", "f.toml")),
    ]
    for text in told:
        (line,) = (line for line in text.splitlines() if line.startswith("Next: "))
        assert line.startswith("Next: surestart doctor -e local --streams f.toml  # ")


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "[stream.a]\nsource = {kafka = 't'}",
        "[stream.a]\ncheckpoint = 'relative/chk'",
        "[stream.a]\ncheckpoint = '/c'\nsinks = {delta = '/t'}",
        "[stream.a]\ncheckpoint = '/c'\nsink = {delta = '/t', parquet = '/p'}",
        "[stream.a]\ncheckpoint = '/c'\nsink = {delta = '/t', shard = true}",
        "[stream.a]\ncheckpoint = '/c'\nsink = {delta = '/t', shared = 'yes'}",
        "[stream.a]\ncheckpoint = '/c'\nsink = '/t'",
        "[stream.'a b']\ncheckpoint = '/c'",
        "stream = 3",
        "history = 3",
        '[stream.a]\ncheckpoint = "/c\\u0000"',
        '[stream.a]\ncheckpoint = "/c"\nsink = {delta = "/t\\u0000"}',
        'history = "/h\\u0000"',
        "[stream.a]\ncheckpoint = '~nobody-has-this-name/c'",
        "[stream.a]\ncheckpoint = '/c'\nsink = {merge = '/t', keys = ['']}",
        "[stream.a]\ncheckpoint = '/c'\nsink = {jdbc = 'jdbc:postgresql://h/db?user=u&password=s3cret!'}",
        "[stream.a]\ncheckpoint = '/c'\nsink = {postgres = 'postgresql://u:s3cret!@h/db'}",
        "[stream.a]\ncheckpoint = '/c'\nsource = {kafka = 't', password = ['s3cret!']}",
        "[stream.a]\ncheckpoint = '/c'\nsink = {delta = '/t', password = 's3cret!'}",
        "[stream.a]\ncheckpoint = '/c'\nsource = {password = 's3cret!'}",
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as said:
        read_project_file(written(tmp_path, text))
    assert "s3cret!" not in str(said.value)


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
def test_what_never_ends_is_not_read(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError):
        read_project_file(tmp_path / path)


def test_a_path_with_the_name_of_a_secret_is_a_path(tmp_path: Path) -> None:
    said = "[stream.a]\ncheckpoint = '/c/token=abcdefgh'\nsink = {delta = '/t/secret=abcdefgh'}"
    assert read_project_file(written(tmp_path, said)).streams[0].sinks[0].path == "/t/secret=abcdefgh"


def test_brokers_without_a_port_are_named_with_their_place(tmp_path: Path) -> None:
    """The refusal is not that of a stage of ours, whose command would know no such stream."""
    path = tmp_path / "surestart.toml"
    path.write_text('[stream.orders]\ncheckpoint = "/c"\nsource = { kafka = "orders", bootstrap = "k1" }\n')

    with pytest.raises(UsageError) as raised:
        read_project_file(path)
    assert "line 3, [stream.orders] source: bootstrap is not host:port" in raised.value.what
    assert raised.value.code == "ProjectFileNotUnderstood"
