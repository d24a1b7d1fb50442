"""The three notebooks, executed top to bottom by a real kernel against local Spark; then what is in the tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbclient.exceptions import CellExecutionError

from sensor_pipeline.simulate import write_files
from sensor_pipeline.stages import PIPELINE
from surestart.environment import Environment
from surestart.facts.delta.log import read_delta_log
from tests.foundation.rows import TABLES
from tests.notebooks.conftest import READINGS, STAGES
from tests.notebooks.notebook_kernel import text_of

# The JVM starts and compiles inside the first fixture; on a busy machine that alone took 219 s.
pytestmark = pytest.mark.timeout(600)


def versions(environment: Environment) -> dict[str, int]:
    return {name: read_delta_log(environment.table(name).path).latest_version for name in TABLES}


@pytest.mark.long(instead="foundation/test_run_command.py::test_a_first_run_a_second_one_and_what_is_new")
def test_the_three_notebooks_bring_every_reading_to_gold_once(first, environment):
    account = PIPELINE.count(environment, {})

    assert account.is_exact, account
    assert (account.produced, account.raw) == (READINGS, READINGS)
    assert account.deserialized + account.quarantined == READINGS
    assert account.quarantined > 0
    assert 0 < account.gold < account.deserialized


@pytest.mark.long(instead="notebooks/test_explore_notebook.py::test_any_checkpoint_can_be_looked_at_by_its_path")
def test_each_notebook_shows_what_it_did(first, environment):
    account = PIPELINE.count(environment, {})

    assert f"<td>{READINGS:,}</td>" in first[STAGES[0]]
    assert environment.checkpoint("raw-ingest") in first[STAGES[0]]
    expected = f"raw {READINGS:,} = readings {account.deserialized:,} + quarantined {account.quarantined:,}"
    assert expected in first[STAGES[1]]
    assert "<caption>Why records are in quarantine</caption>" in first[STAGES[1]]
    assert f"{account.deserialized:,} readings, {account.gold:,} rows in gold" in first[STAGES[2]]


@pytest.mark.long(instead="foundation/test_run_command.py::test_a_first_run_a_second_one_and_what_is_new")
def test_run_again_the_notebooks_take_only_what_is_new(first, kernel, environment):
    more = write_files(Path(environment.landing), Path(environment.root) / "truth.json", 500)
    shown = [text_of(kernel.run(name)) for name in STAGES]

    assert "<td>500</td>" in shown[0]
    account = PIPELINE.count(environment, {})
    assert account.is_exact, account
    assert account.produced == more.records == READINGS + 500


@pytest.mark.long(instead="notebooks/test_remedy_notebook.py::test_an_option_that_would_have_no_effect_is_refused")
def test_a_widget_with_a_wrong_value_stops_the_notebook_before_anything_starts(first, kernel, environment):
    before = versions(environment)
    kernel.run_code("import os; os.environ['SURESTART_SOURCE'] = 'kinesis'")
    try:
        with pytest.raises(CellExecutionError, match="widget source is 'kinesis', not one of files, kafka"):
            kernel.run(STAGES[0])
    finally:
        kernel.run_code("import os; del os.environ['SURESTART_SOURCE']")

    assert versions(environment) == before
