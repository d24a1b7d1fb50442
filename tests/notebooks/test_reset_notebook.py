"""Notebook 05 in a real kernel against local Spark: plan, refusals, a real reset, its undo; and what the tables hold.

One story, in the order of the tests: each rests on what the one before has left.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nbclient.exceptions import CellExecutionError

from surestart.environment import Environment
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.delta import read_active_files
from surestart.journal.journal import FINISHED, WITHDRAWN, read_journals
from surestart.remedies.apply.stored_plans import plans_folder
from tests.foundation.rows import TABLES, account, land
from tests.notebooks.conftest import STAGES
from tests.notebooks.notebook_kernel import NotebookKernel, page_in, set_widgets, text_of
from tests.report.pages import Element

pytestmark = pytest.mark.timeout(900)

NOTEBOOK = "05_reset.ipynb"
HARMLESS = {"stage": "raw-ingest", "remedy": "resume", "options": "", "mode": "plan", "digest": ""}


class Remedies:
    """Runs the notebook with these widgets, and shows what a reader sees."""

    def __init__(self, kernel: NotebookKernel) -> None:
        self.kernel = kernel

    def run(self, **widgets: str) -> tuple[str, Element]:
        set_widgets(self.kernel, **{**HARMLESS, **widgets})
        shown = text_of(self.kernel.run(NOTEBOOK))
        return shown, page_in(shown)

    def refused(self, **widgets: str) -> str:
        with pytest.raises(CellExecutionError) as refusal:
            self.run(**widgets)
        return str(refusal.value)


@pytest.fixture(scope="module")
def remedies(first: Any, kernel: NotebookKernel) -> Remedies:
    return Remedies(kernel)


@pytest.fixture(scope="module")
def stale(remedies: Remedies, environment: Environment) -> str:
    """The digest of a plan that was made before the raw stage ran once more."""
    remedies.run(remedy="reset")
    (digest,) = stored(environment)
    land(environment, 100)
    remedies.kernel.run(STAGES[0])
    return digest


def stored(environment: Environment) -> list[str]:
    return [path.stem for path in plans_folder(environment).glob("*.json")]


def contents(environment: Environment) -> dict[str, Any]:
    """The files that each table consists of, and each checkpoint, byte for byte."""
    tables = {name: {file.path for file in read_active_files(environment.table(name).path)} for name in TABLES}
    folders = [path for path in Path(environment.checkpoint_root).iterdir() if not path.name.startswith("_")]
    return {**tables, **{path.name: read_manifest(path).digest for path in folders}}


def headline(page: Element) -> str:
    return next(page.all("h1")).text


@pytest.mark.long(instead="notebooks/test_explore_notebook.py::test_any_checkpoint_can_be_looked_at_by_its_path")
def test_as_it_is_the_notebook_says_what_a_start_would_do_and_stores_nothing(remedies, environment) -> None:
    before = contents(environment)
    shown, page = remedies.run()

    assert headline(page) == "There is nothing to do; a start would be safe"
    assert "No batch is in flight" in shown
    assert contents(environment) == before
    assert not plans_folder(environment).exists()


@pytest.mark.long(instead="remedies/test_replay.py::test_planning_changes_nothing")
def test_a_plan_is_shown_with_its_digest_and_nothing_is_changed(remedies, environment) -> None:
    before, rows = contents(environment), account(environment)
    shown, page = remedies.run(remedy="reset")

    (digest,) = stored(environment)
    assert headline(page) == "A plan: nothing was changed yet"
    assert next(page.all("pre")).text == digest
    assert f"\n{digest}\n" in shown
    assert ["sensor_raw", "remove rows", f"{rows.raw:,}"] in [row[:3] for row in page.by_id("effects-table").rows()]
    assert contents(environment) == before
    assert account(environment) == rows
    assert read_journals(environment) == ()
    # The next test makes the only plan there is.
    (plans_folder(environment) / f"{digest}.json").unlink()


@pytest.mark.long(instead="notebooks/test_remedy_notebook.py::test_without_a_digest_nothing_is_done")
def test_without_the_digest_of_a_plan_nothing_is_applied(remedies, stale, environment) -> None:
    before = contents(environment)
    for digest, code in (("", "DigestMissing"), ("0" * 64, "PlanNotFound")):
        refusal = remedies.refused(remedy="reset", mode="apply", digest=digest)
        assert all(part in refusal for part in (f"{code}: ", "Meaning: ", "Next: "))
    assert contents(environment) == before
    assert read_journals(environment) == ()


@pytest.mark.long(instead="remedies/test_apply.py::test_what_moved_since_the_plan_is_named_and_nothing_changed")
def test_a_plan_is_refused_when_the_stage_has_run_since(remedies, stale, environment) -> None:
    before = contents(environment)
    refusal = remedies.refused(remedy="reset", mode="apply", digest=stale)

    assert "PlanStale: the plan is stale: raw-ingest: last planned batch was" in refusal
    assert contents(environment) == before
    assert read_journals(environment) == ()


@pytest.fixture(scope="module")
def reset(remedies: Remedies, stale: str, environment: Environment) -> dict[str, Any]:
    """A reset that was really applied: its digest, what was there before, what the notebook showed."""
    before = contents(environment)
    remedies.run(remedy="reset")
    (digest,) = set(stored(environment)) - {stale}
    shown, page = remedies.run(remedy="reset", mode="apply", digest=digest)
    return {"digest": digest, "before": before, "shown": shown, "page": page}


@pytest.mark.long(instead="remedies/test_reset.py::test_an_undone_reset_leaves_what_was_there_and_goes_on")
def test_applied_by_its_digest_every_row_comes_again_once(reset, environment) -> None:
    found = account(environment)
    (journal,) = read_journals(environment)

    assert found.is_exact, found.faults
    assert found.raw == found.produced
    assert headline(reset["page"]) == "Applied, and counted: exact, lost 0, duplicated 0"
    assert "EXACT" in reset["shown"]
    assert (journal.digest, journal.state) == (reset["digest"], FINISHED)
    after = contents(environment)
    assert not [name for name in after if after[name] == reset["before"][name]]


@pytest.mark.long(instead="notebooks/test_remedy_notebook.py::test_a_digest_that_no_plan_has_is_refused")
def test_the_same_digest_acts_once(remedies, reset, environment) -> None:
    before = contents(environment)
    shown, _ = remedies.run(remedy="reset", mode="apply", digest=reset["digest"][:12])

    assert "exact, lost 0" in shown
    assert contents(environment) == before


@pytest.mark.chaos
def test_undone_checkpoints_and_tables_are_what_they_were_and_go_on(remedies, reset, environment) -> None:
    _, page = remedies.run(remedy="reset", mode="undo", digest=reset["digest"])
    (journal,) = read_journals(environment)

    assert headline(page) == "Applied, and undone"
    assert journal.state == WITHDRAWN
    assert contents(environment) == reset["before"]
    assert "PlanWithdrawn" in remedies.refused(remedy="reset", mode="apply", digest=reset["digest"])
    for notebook in STAGES:
        remedies.kernel.run(notebook)
    found = account(environment)
    assert found.is_exact, found.faults
    assert found.raw == found.produced
