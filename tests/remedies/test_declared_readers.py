"""A plan for a stage names the streams that surestart.toml declares as readers of the tables that it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestart.environment import Environment, environment_from_settings
from surestart.remedies.basis.plan import Plan, Step, environment_facts
from surestart.remedies.planning.plan_remedy import name_readers
from surestart.streams.project_file import parse_project_text

BY_PATH = environment_from_settings("local", "sensor", {"root": "/data/root"}, environ={})
BY_NAME = environment_from_settings("local", "sensor", {"catalog": "main", "schema": "gold"}, environ={})


def said(environment: Environment, reads: str, *steps: Step) -> tuple[str, ...]:
    text = f"[stream.reports]\ncheckpoint = '/chk'\nsource = {reads}\nsink = {{ kafka = 'out' }}"
    streams = parse_project_text(Path("/p/surestart.toml"), text).streams
    facts = environment_facts(environment)
    plan = Plan("rewind", "raw-ingest", "in-place", facts, 1, (), {}, steps, statements=("as it was",))
    return name_readers(plan, environment, streams).statements[1:]


TAKEN = Step.of("clear", "sensor_raw", "remove 10 rows", "raw-ingest", {"table": "sensor_raw"})
ASIDE = Step.of("retire", "raw-ingest", "move the checkpoint aside", "raw-ingest")
DATABASE = Step.of("database", "sensor_raw", "remove 10 rows", "raw-ingest", {"target": "sensor_raw"})
RAW = BY_PATH.table("sensor_raw").path


@pytest.mark.parametrize(
    ("environment", "reads"),
    [
        (BY_PATH, f"{{ delta = '{RAW}' }}"),
        (BY_PATH, f"{{ delta = 'file:{RAW}/' }}"),
        (BY_PATH, f"[{{ kafka = 'x' }}, {{ delta = '{RAW}' }}]"),
        (BY_NAME, f"{{ delta = '{BY_NAME.table('sensor_raw').qualified}' }}"),
    ],
)
def test_who_reads_what_is_taken_back_is_named(environment: Environment, reads: str) -> None:
    (line,) = said(environment, reads, TAKEN)
    assert "reports, declared in surestart.toml, reads sensor_raw" in line


@pytest.mark.parametrize(
    ("reads", "step"),
    [
        (f"{{ delta = '{RAW}_other' }}", TAKEN),
        (f"{{ files = '{RAW}' }}", TAKEN),
        (f"{{ delta = '{RAW}' }}", ASIDE),
        (f"{{ delta = '{RAW}' }}", DATABASE),
    ],
)
def test_nobody_else_is(reads: str, step: Step) -> None:
    assert said(BY_PATH, reads, step) == ()
