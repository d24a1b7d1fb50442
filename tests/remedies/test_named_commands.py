"""What findings and errors tell people to type is accepted by the command line as it stands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from surestart.cli import build_parser
from surestart.commands.plan import check_options, make_plan
from surestart.diagnosis.ask_stages import ask_stage
from surestart.diagnosis.commands import Commands
from surestart.diagnosis.explanations.explanation import REPLAY
from surestart.diagnosis.finding import Verdict
from surestart.environment import Environment
from surestart.remedies.plan import Plan
from tests.remedies.remedy import SETTINGS, apply, assert_exact, chain_of, run_stages


def parsed(command: str) -> Any:
    words = shlex.split(command)
    assert words[0] == "surestart"
    return build_parser(words[1]).parse_args(words[1:])


@pytest.mark.parametrize("remedy", ["resume", "replay", "backfill", "reset"])
def test_a_remedy_that_a_finding_names_is_one_that_can_be_planned(remedy: str) -> None:
    check_options(parsed(Commands("raw-ingest", "local", "--root '/a folder'").plan(remedy)))


def test_the_remedy_of_an_explanation_says_where_to_begin() -> None:
    args = parsed(REPLAY.format(stage="raw-ingest"))
    check_options(args)
    assert args.from_output


def plan_named_for_a_rewound_checkpoint(spark: Any, stood: Environment) -> Plan:
    for folder in ("offsets", "commits"):
        for name in ("2", ".2.crc"):
            (Path(stood.checkpoint("raw-ingest")) / folder / name).unlink()
    raw = chain_of(stood).link("raw-ingest")
    found = ask_stage(stood, raw.stage, options=f"--root {stood.root}")
    assert found.verdict is Verdict.UNSAFE

    plan = make_plan(spark, stood, chain_of(stood), parsed(found.findings[0].next), SETTINGS)
    assert {effect.rows for effect in plan.effects if effect.action == "remove rows"} == {0}
    return plan


@pytest.mark.chaos
def test_the_command_that_the_doctor_names_for_a_rewound_checkpoint_can_be_planned(
    spark: Any, stood: Environment
) -> None:
    assert plan_named_for_a_rewound_checkpoint(spark, stood).remedy == "replay"


@pytest.mark.chaos
def test_it_makes_the_tables_exact(spark: Any, stood: Environment) -> None:
    plan = plan_named_for_a_rewound_checkpoint(spark, stood)
    apply(spark, stood, plan)
    run_stages(spark, stood)
    assert_exact(stood)
