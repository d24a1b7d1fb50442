"""Files of the batch in flight that are gone: what that means is for the sink to say."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from surestart.cli.stage_answers import ask_stages
from surestart.streams.as_pipeline import environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import parse_project_text
from surestart.words.finding import Severity
from tests.streams.lake import Lake


@pytest.mark.parametrize(
    ("way", "more", "severity"),
    [
        # Spark's own sink has the batch, and passes over it unread.
        ("built-in", "", Severity.ATTENTION),
        ("built-in", 'other_sinks = "unknown"', Severity.UNSAFE),
        # A function of its owner knows the batch as well, and is called with it all the same.
        ("WRITE", "", Severity.UNSAFE),
        ("anonymous", "", Severity.UNSAFE),
    ],
)
def test_files_that_nobody_reads_again_may_be_gone(tmp_path: Path, way: str, more: str, severity: Severity) -> None:
    lake = Lake(tmp_path, random.Random(1))
    table = lake.table("t")
    checkpoint, query_id = lake.checkpoint("chk", 3, source="files")
    for number in range(4):
        lake.batch(table, query_id, number, way)
    landing = Path(lake.sources[checkpoint][1])
    for day in range(3):
        (landing / f"day={day}").mkdir(parents=True)
        (landing / f"day={day}/rows.json").touch()
    Path(checkpoint, "commits/3").unlink()
    former = Path(checkpoint, "offsets/2")
    former.write_text(former.read_text().replace('{"logOffset": 3}', '{"logOffset": 2}'))
    text = f'[stream.a]\ncheckpoint = "{checkpoint}"\nsource = {{ files = "{landing}" }}\n'
    project = parse_project_text(tmp_path / "surestart.toml", f'{text}sink = {{ delta = "{table}" }}\n{more}\n')

    (found,) = ask_stages(environment_of_streams(project), pipeline_of_streams(project.streams).build_stages({}))

    assert [one.severity for one in found.findings if one.code == "SOURCE_FILES_GONE"] == [severity]
