"""What the code declares of its state against what the checkpoint has."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from surestart.declaration import StageDeclaration
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.streams.as_pipeline import environment_of_streams, stage_of_stream
from surestart.streams.project_file import ProjectFile
from surestart.streams.stream import Stream
from surestart.verdict.change import ChangeClass, read_declared, same_state
from surestart.verdict.change_safety import classify_changes

UNSAFE, UNDEFINED, CANNOT_TELL = ChangeClass.UNSAFE, ChangeClass.UNDEFINED, ChangeClass.CANNOT_TELL
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def classes(path: Path, *state: str, spark: str = "4.0", **confs: str) -> list[ChangeClass]:
    checkpoint = read_checkpoint(str(path))
    declared = tuple((FORMAT if key == "format" else key, value) for key, value in confs.items())
    stage = StageDeclaration("s", "p-s", str(path), (), (), "append", state, declared)
    found = [change for change in classify_changes(stage, checkpoint, spark=spark) if "sources" not in change.what]
    return [change.kind for change in found if "Spark version" not in change.what]


@pytest.mark.parametrize(
    ("name", "declared", "said"),
    [
        ("within-hdfs", "dedupeWithinWatermark", []),
        ("within-hdfs", "a name of our own", []),
        ("within-hdfs", "dedupe", [UNSAFE]),
        ("within-hdfs", "dedupeWithinWatermark: key(k string, g int)", []),
        ("within-hdfs", "ours: key(k string, g int) value(expiresAtMicros bigint)", []),
        ("within-hdfs", "ours: key(name string, number int)", []),
        ("within-hdfs", "ours: key(k string, g bigint)", [UNSAFE]),
        ("within-hdfs", "ours: key(k string)", [UNSAFE]),
        ("within-hdfs", "ours: key(g int, k string)", [UNSAFE]),
        ("within-hdfs", "ours: key(k string, g int) value(expires timestamp)", [UNSAFE]),
        ("within-hdfs", "ours: columns k and g", [CANNOT_TELL]),
        ("within-hdfs", "ours:", [CANNOT_TELL]),
        ("aggregate-rockslog", "stateStoreSave: key(window struct<start:timestamp,end:timestamp>, g int)", []),
        ("aggregate-rockslog", "stateStoreSave: key(w struct<a:timestamp,b:timestamp>, g int)", []),
        ("aggregate-rockslog", "stateStoreSave: key(window struct<start:timestamp,end:date>, g int)", [UNSAFE]),
        ("join-hdfs", "symmetricHashJoin: key(field0 int)", []),
        ("join-hdfs", "symmetricHashJoin: key(field0 string)", [UNSAFE]),
        ("transform-rocks", "transformWithStateInPandasExec: key(g int) value(n bigint, last string)", []),
        ("transform-rocks", "transformWithStateInPySparkExec", []),
        ("transform-rocks", "ours: key(g string)", [UNSAFE]),
    ],
)
def test_operators_and_columns(checkpoints: Path, name: str, declared: str, said: list[ChangeClass]) -> None:
    assert classes(checkpoints / name / "checkpoint", declared) == said


def test_columns_that_cannot_be_read_are_not_taken_for_these(checkpoints: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(checkpoints / "within-hdfs" / "checkpoint", tmp_path / "own"))
    (path / "state/0/0/_metadata/schema").unlink()

    assert classes(path, "dedupeWithinWatermark: key(k string, g int)") == [CANNOT_TELL]
    assert classes(path, "dedupeWithinWatermark") == []


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("ours: key(a int, b int) value(n bigint)", []),
        ("ours: key(x int, y int) value(n bigint)", []),
        ("ours: key(a int, y int)", []),
        ("ours: key(b int, a int) value(n bigint)", [UNSAFE]),
        ("ours: key(b int, a int)", [UNSAFE]),
    ],
)
def test_columns_of_one_type_that_have_changed_their_places(
    checkpoints: Path, tmp_path: Path, declared: str, said: list[ChangeClass]
) -> None:
    """Spark starts, and takes the one for the other."""
    path = Path(shutil.copytree(checkpoints / "within-hdfs" / "checkpoint", tmp_path / "own"))

    def text(names: str) -> bytes:
        fields = [{"name": name, "type": "integer", "nullable": True, "metadata": {}} for name in names]
        fields = [{**one, "type": "long"} if one["name"] == "n" else one for one in fields]
        kind = json.dumps({"type": "struct", "fields": fields}).encode()
        return struct.pack(">H", len(kind)) + kind

    whole = struct.pack(">H", 2) + b"v2" + b"".join(struct.pack(">i", 1) + text(names) for names in ("ab", "n"))
    (path / "state/0/0/_metadata/schema").write_bytes(whole)
    assert classes(path, declared) == said


@pytest.mark.parametrize(
    ("name", "wanted", "spark", "said"),
    [
        ("within-rocks", "1", "4.0", []),
        ("within-rocks", "2", "4.0", [UNSAFE]),
        ("within-rocks", "2", "4.1", [UNSAFE]),
        ("within-rocks", "2", "4.2", [UNDEFINED]),
        ("within-rocks", "2", "3.5", []),
        ("within-rocksv2", "2", "4.0", []),
        ("within-rocksv2", "1", "4.1", [UNSAFE]),
    ],
)
def test_the_format_of_state(checkpoints: Path, name: str, wanted: str, spark: str, said: list[ChangeClass]) -> None:
    assert classes(checkpoints / name / "checkpoint", spark=spark, format=wanted) == said


def test_a_declaration_is_read_as_it_is_printed() -> None:
    found = read_declared("save: key(a decimal(9,2), m map<string,array<int>>) value(s struct<x:int,y:decimal(9,2)>)")
    assert found.key == ("decimal(9,2)", "map<string,array<int>>")
    assert found.value == ("struct<int,decimal(9,2)>",)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (("dedupe",), ("dedupe: key(k string)",), True),
        (("dedupe: key(k string)",), ("dedupe",), True),
        (("dedupe: key(k string)",), ("dedupe: key(k int)",), False),
        (("dedupe",), ("join",), False),
        (("dedupe",), ("dedupe", "join"), False),
    ],
)
def test_columns_that_only_one_run_declares_are_no_change(
    before: tuple[str, ...], after: tuple[str, ...], same: bool
) -> None:
    assert same_state(before, after) is same


def test_what_a_declared_streams_session_would_write_is_held_against_the_checkpoint(checkpoints: Path) -> None:
    stream = Stream("within", str(checkpoints / "within-rocks" / "checkpoint"))
    stage = replace(stage_of_stream(stream), confs=((FORMAT, "2"),))
    declared = stage.declare(environment_of_streams(ProjectFile(Path("/p/surestart.toml"), "", "/h", (stream,))))
    found = classify_changes(declared, read_checkpoint(stream.checkpoint), spark="4.0")
    assert [change.kind for change in found if change.what == FORMAT] == [UNSAFE]
