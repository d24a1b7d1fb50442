"""The table of the kinds of steps, against the modules that do them."""

from __future__ import annotations

import importlib
import pkgutil

import surestart.remedies.steps as steps
from surestart.journal.protocol import STEP_KINDS
from surestart.remedies.apply.undo import undo_order
from surestart.remedies.basis.plan import Step
from tests.report.plans import make_plan

MODULES = {module.name for module in pkgutil.iter_modules(steps.__path__)}


def test_each_kind_has_its_module_and_each_module_its_kind() -> None:
    jobs = {name for name, kind in STEP_KINDS.items() if kind.is_of_jobs and name != "unpause"}

    assert jobs == {"jobs", "stop", "look"}
    assert {name for name in MODULES if hasattr(load(name), "apply_step")} == STEP_KINDS.keys() - jobs


def test_what_an_undo_takes_back_can_be_taken_back() -> None:
    undone = {name for name, kind in STEP_KINDS.items() if kind.undo_rank is not None}

    # A backfill is withdrawn, not undone: its rows were missing and are right.
    assert {name for name in undone if not hasattr(load(name), "undo_step")} == {"backfill"}


def test_an_undo_begins_with_delta_then_databases_and_ends_with_the_starts() -> None:
    kinds = ("retire", "clear", "database", "start", "keep", "clear", "run", "certify")
    plan = make_plan(steps=tuple(Step(f"{kind}:{number}", kind, "x") for number, kind in enumerate(kinds)))

    assert [step.id for step in undo_order(plan)] == [
        "clear:5",
        "clear:1",
        "database:2",
        "keep:4",
        "retire:0",
        "start:3",
    ]


def load(name: str) -> object:
    return importlib.import_module(f"surestart.remedies.steps.{name}")
