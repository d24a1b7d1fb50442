"""What the remedy notebook refuses before anything is asked of Spark: no session is there, and none is missed."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

from sensor_pipeline.stages import PIPELINE
from surestart.environment import Environment, environment_from_settings
from surestart.errors import Refused, SurestartError, UsageError
from surestart.journal.journal import FINISHED
from surestart.notebooks.remedy_notebook import RemedyResult, read_options, remedy
from surestart.remedies.apply.stored_plans import plans_folder, store_plan
from surestart.remedies.basis.plan import Plan, Step, environment_facts, plan_digest
from tests.report.plans import STEPS, make_certificate, make_journal, make_plan

APPLY = {"stage": "raw-ingest", "remedy": "reset", "options": "", "mode": "apply", "digest": ""}


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return environment_from_settings("local", "sensor", {"root": str(tmp_path / "root")}, environ={})


@pytest.fixture
def plan(environment: Environment) -> Plan:
    made = make_plan(environment=environment_facts(environment))
    store_plan(environment, made)
    return made


def ask(environment: Environment, **widgets: str) -> Any:
    settings = {"environment": "local", "root": environment.root, "source": "files", **APPLY, **widgets}
    return remedy(PIPELINE, settings, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["apply", "undo"])
@pytest.mark.parametrize("digest", ["", "abc", "../../plan", "z" * 64, "*" * 12])
def test_without_a_digest_nothing_is_done(environment, plan, mode: str, digest: str) -> None:
    with pytest.raises(UsageError) as refusal:
        ask(environment, mode=mode, digest=digest)

    assert refusal.value.code == "DigestMissing"
    assert "Next: in the notebook: set mode to plan" in str(refusal.value)
    assert refusal.value.do_not


def test_a_digest_that_no_plan_has_is_refused(environment, plan) -> None:
    for given in ({"digest": "0" * 64}, {"digest": plan.digest, "mode": "undo"}):
        with pytest.raises(UsageError) as refusal:
            ask(environment, **given)
        assert refusal.value.code == "PlanNotFound"
    elsewhere = replace(environment, root=environment.root + "2", checkpoint_root=environment.root + "2/checkpoints")
    with pytest.raises(UsageError, match="names 0 plans in"):
        ask(elsewhere, digest=plan.digest)


def test_a_plan_that_was_edited_swapped_or_given_its_new_digest_is_refused(environment, plan) -> None:
    file = plans_folder(environment) / f"{plan.digest}.json"
    body = {**json.loads(plan.as_json()), "loss": 7}
    other = make_plan(environment=environment_facts(environment), created_at=1)
    for spoiled in (json.dumps(body), json.dumps({**body, "digest": plan_digest(body)}), other.as_json()):
        file.write_text(spoiled)
        with pytest.raises(Refused) as refusal:
            ask(environment, digest=plan.digest)
        assert refusal.value.code == "PlanEdited"
    for broken in ("", "{", '{"schema_version": 1, "digest": 7}', "[]", "\x00"):
        file.write_text(broken)
        with pytest.raises(SurestartError):
            ask(environment, digest=plan.digest)


@pytest.mark.parametrize("given", [{"stage": "merge-gold"}, {"remedy": "replay"}])
def test_a_digest_of_another_stage_or_remedy_is_refused(environment, plan, given: dict) -> None:
    with pytest.raises(Refused) as refusal:
        ask(environment, digest=plan.digest, **given)

    assert refusal.value.code == "DigestOfAnotherPlan"
    assert "a reset of raw-ingest" in refusal.value.what


def test_settings_that_contradict_the_plan_are_refused(environment, plan) -> None:
    with pytest.raises(UsageError, match="source='kafka' was given, the plan was made with 'files'"):
        ask(environment, digest=plan.digest, source="kafka", bootstrap="127.0.0.1:1", topic="sensor")


@pytest.mark.parametrize("kind", ["teleport", "../clear", "clear.apply_step", ""])
def test_a_plan_with_a_step_that_nobody_knows_is_refused_before_it_begins(environment, kind: str) -> None:
    made = make_plan(environment=environment_facts(environment), steps=(*STEPS, Step("x", kind, "x")))
    store_plan(environment, made)
    with pytest.raises(Refused) as refusal:
        ask(environment, digest=made.digest)

    assert refusal.value.code == "StepUnknown"


def test_a_mode_that_a_job_parameter_brought_is_refused(environment, plan) -> None:
    with pytest.raises(UsageError, match="mode 'now' is not one of plan, apply, undo"):
        ask(environment, mode="now", digest=plan.digest)


@pytest.mark.parametrize(
    "options",
    ["--root /x", "-e prod", "--pipeline other", "-o plan.json", "--html x", "--json", "--set source=kafka",
     "--set root=/x", "--set checkpoint_root=/x", "--set digest=1", "--nothing-known", "deserialize", "'", "-h"],
)  # fmt: skip
def test_options_that_name_another_place_or_nothing_known_are_refused(environment, options: str) -> None:
    with pytest.raises(UsageError, match="the widget 'options'"):
        ask(environment, mode="plan", options=options)
    assert not plans_folder(environment).exists()


def test_options_are_those_of_the_command_line() -> None:
    args = read_options("replay", "deserialize", '--from-positions \'{"sensor": {"0": 12}}\' --no-run --set readings=9')

    assert (args.remedy, args.stage, args.no_run, args.set) == ("replay", "deserialize", True, ["readings=9"])
    assert args.from_positions == '{"sensor": {"0": 12}}'


@pytest.mark.parametrize(
    ("wanted", "options"),
    [
        ("reset", "--from-batch 0"),
        ("reset", "--clear-tables"),
        ("retire", "--keep-lost --clear-tables"),
        ("retire", "--accept-loss 0"),
        ("replay", "--range sensor:0:1-2"),
        ("resume", "--no-run"),
        ("replay", "--from-batch 1 --from-time 2026-01-31"),
        ("replay", "--method beside"),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(environment, wanted: str, options: str) -> None:
    """`retire --keep-lost --clear-tables`: whoever writes that believes that some rows stay."""
    with pytest.raises(UsageError) as refusal:
        ask(environment, mode="plan", remedy=wanted, options=options)
    assert "Nothing was planned." in refusal.value.meaning


@pytest.mark.parametrize(("counts", "raises"), [({}, False), ({"lost": 3}, True), ({"undecided": 1}, True)])
def test_a_count_that_is_not_exact_fails_the_run(counts: dict, raises: bool) -> None:
    plan = make_plan()
    done = RemedyResult(plan, "", "", make_journal(plan, FINISHED, make_certificate(**counts)))
    if not raises:
        done.check_counted()
        RemedyResult(plan, "", "").check_counted()
        return
    with pytest.raises(SurestartError, match="after the reset of local/sensor-raw-ingest") as refusal:
        done.check_counted()
    assert str(refusal.value.next).startswith("surestart ")


def test_every_parameter_of_the_job_is_a_widget_of_the_notebook_with_the_same_default() -> None:
    """A parameter without a widget would be dropped in silence."""
    root = Path(__file__).parents[2]
    job = yaml.safe_load((root / "resources/sensor_reset.job.yml").read_text())["resources"]["jobs"]["sensor_reset"]
    (task,) = job["tasks"]
    notebook = nbformat.read(root / "notebooks/05_reset.ipynb", as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    widgets = {
        ast.literal_eval(call.args[0]): ast.literal_eval(call.args[1])
        for call in calls
        if ast.unparse(call.func) == "notebook.Widget"
    }
    parameters = {entry["name"]: entry["default"] for entry in job["parameters"]}

    assert task["notebook_task"]["notebook_path"].endswith("notebooks/05_reset.ipynb")
    assert parameters == {name: widgets[name] for name in ("stage", "remedy", "options", "mode", "digest")}
    # The others are the pipeline's settings: tests/bundle holds them against what the stages' jobs are given.
    own = {"environment", "catalog", "schema", *widgets} - set(parameters)
    assert set(task["notebook_task"]["base_parameters"]) == own | (set(PIPELINE.settings) - {"readings"})
