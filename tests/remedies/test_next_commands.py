"""The commands that remedies name are complete: typed as they stand they speak of the same place and the same plan."""

from __future__ import annotations

import shlex
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from surestart.cli.apply import confirming
from surestart.cli.arguments import read_given_environment
from surestart.cli.main import build_parser
from surestart.cli.plan import check_options, wanted_of
from surestart.environment import Environment, environment_from_settings
from surestart.errors import SurestartError
from surestart.history.describe_run import named, options_of
from surestart.journal.journal import BEGUN, Journal, JournalEntry
from surestart.journal.unfinished import unfinished_error
from surestart.remedies.basis.plan import check_environment, environment_facts, plan_again
from surestart.remedies.basis.step_context import stopped
from surestart.remedies.loss.loss import Loss
from surestart.remedies.planning.estimate import check_loss
from surestart.remedies.planning.wanted import Request
from surestart.runs.find_owner import OWNER_PAUSED
from surestart.typed import Place, surestart
from surestart.words.next_commands import Commands
from tests.remedies.move import running

PLACES: list[tuple[str, dict[str, str]]] = [
    ("local", {"root": "/data/a folder"}),
    ("dev", {"root": "/data/x", "checkpoint_root": "/elsewhere/c", "landing": "/drop/it's here"}),
    ("prod", {"catalog": "main", "schema": "sensor"}),
    ("prod", {"catalog": "main", "schema": "sensor", "checkpoint_root": "/Volumes/a/b/c", "landing": "/Volumes/a/b/l"}),
]


def parsed(command: object) -> Namespace:
    words = shlex.split(str(command), comments=True)
    assert words[0] == "surestart"
    return build_parser(words[1]).parse_args(words[1:])


@pytest.mark.parametrize(("name", "settings"), PLACES)
def test_an_environment_is_named_so_that_it_is_found_again(name: str, settings: dict[str, str]) -> None:
    environment = environment_from_settings(name, "sensor", settings, environ={})
    assert read_given_environment(parsed(surestart("status", place=named(environment))))[0] == environment


@pytest.mark.parametrize(
    "given",
    [
        "reset raw-ingest",
        "reset raw-ingest --beside --no-run",
        "reset raw-ingest --keep-lost --jobs found",
        "replay raw-ingest --from-batch 0",
        "replay raw-ingest --from-time 2026-01-31T03:00:00Z",
        """replay raw-ingest --from-positions '{"it is": {"0": 1200}}'""",
        "replay raw-ingest --from-output",
        "backfill raw-ingest --range sensor:0:1-2 --range sensor:1:1-2 --arrived-from 2026-01-31T03:00:00Z",
        "retire merge-gold --clear-tables",
    ],
)
def test_a_plan_is_made_again_with_what_it_was_made_with(environment: Environment, given: str) -> None:
    args = parsed(f"surestart plan {given}")
    plan = replace(
        running(environment, journaled=False).plan,
        remedy=args.remedy,
        stage=args.stage,
        options=wanted_of(args).options,
        settings={"root": environment.root, "source": "files"},
    )
    again = parsed(plan_again(plan))
    check_options(again)
    assert (again.remedy, again.stage, wanted_of(again).options) == (args.remedy, args.stage, wanted_of(args).options)
    assert (again.root, again.set, again.output) == (environment.root, ["source=files"], "plan.json")


def said_by_remedies(environment: Environment) -> dict[str, SurestartError]:
    run = running(environment, journaled=False)
    begun = Journal(
        (JournalEntry(run.digest, 0, BEGUN, remedy="reset", stage="raw-ingest", queries=("sensor-raw-ingest",)),)
    )
    request = Request(settings={}, options=("--from-batch", "2"))
    elsewhere = replace(run.plan, environment={**environment_facts(environment), "root": "/data/x y"})

    def of_loss(loss: Loss, **given: Any) -> Any:
        return lambda: check_loss(loss, replace(request, **given), "replay", environment, "raw-ingest")

    raising = {
        "lost": of_loss(Loss(3, "gone", {"sensor": {"0": 3}})),
        "lost with another topic": of_loss(Loss(3, "gone", other_topic=True)),
        "another number": of_loss(Loss(3, "gone"), accept_loss=4),
        "another place": lambda: check_environment(elsewhere, environment),
    }
    found: dict[str, SurestartError] = {
        "half-way": unfinished_error(begun, "sensor-raw-ingest", environment, options_of(environment)),
        "stopped": stopped(run, "a step", OSError("no space left"), "apply"),
    }
    for name, act in raising.items():
        with pytest.raises(SurestartError) as problem:
            act()
        found[name] = problem.value
    return found


@pytest.mark.parametrize(
    "what", ["lost", "lost with another topic", "another number", "another place", "half-way", "stopped"]
)
def test_what_a_remedy_says_next_can_be_typed(environment: Environment, what: str) -> None:
    problem = said_by_remedies(environment)[what]
    args = parsed(str(problem.next))
    assert args.root == ("/data/x y" if what == "another place" else environment.root)
    if what.startswith("lost") or what == "another number":
        assert args.from_batch == 2
    for second in str(problem.next).split("or: ")[1:]:
        assert parsed(second).root == environment.root


def test_what_was_not_confirmed_is_called_again_as_it_was(environment: Environment) -> None:
    plan = running(environment, journaled=False).plan
    with pytest.raises(SurestartError) as problem:
        confirming("local/else", surestart("apply", "my plan.json", place=Place("local")))(plan)
    args = parsed(str(problem.value.next))
    assert (args.plan, args.confirm) == ("my plan.json", plan.target)


def test_nobody_who_applies_a_remedy_is_told_to_start_the_stage() -> None:
    start, remedy = Commands("raw-ingest", "local"), Commands("raw-ingest", "local", of_a_remedy=True)
    assert "surestart run raw-ingest" in str(start.accept(OWNER_PAUSED))
    assert parsed(remedy.accept(OWNER_PAUSED)).stage == "raw-ingest"
    assert "surestart run" not in str(remedy.accept(OWNER_PAUSED))


def test_a_command_names_the_settings_of_the_pipeline_that_this_call_was_given() -> None:
    given = parsed("surestart run all --root /data/x --set source=kafka --topic 'a b'")
    environment, _, settings = read_given_environment(given)
    again = read_given_environment(parsed(surestart("plan", "reset", "raw-ingest", place=named(environment))))
    assert again[0] == environment
    assert again[2] == settings
    assert "source" not in environment_facts(environment).values(), "a plan keeps them as its settings"


def test_the_usual_place_needs_no_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert named(environment_from_settings("local", "sensor", {}, environ={})) == Place("local")
