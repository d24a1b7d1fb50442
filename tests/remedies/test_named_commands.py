"""What findings and errors tell people to type is accepted by the command line as it stands."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from surestart.cli.main import build_parser
from surestart.cli.plan import check_options, make_plan
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.facts.delta import read_delta_log
from surestart.runs.runner import run_stage
from surestart.verdict.ask_stages import ask_stage
from surestart.verdict.explanations.explanation import REPLAY
from surestart.words.codes.code import of_stage
from surestart.words.finding import Verdict
from surestart.words.next_commands import Commands, commands_for
from tests.remedies.remedy import SETTINGS, apply, assert_exact, chain_of, land_more, run_stages


def parsed(command: object) -> Any:
    words = shlex.split(str(command))
    assert words[0] == "surestart"
    return build_parser(words[1]).parse_args(words[1:])


@pytest.mark.parametrize("remedy", ["resume", "replay", "backfill", "reset"])
def test_a_remedy_that_a_finding_names_is_one_that_can_be_planned(remedy: str) -> None:
    check_options(parsed(Commands("raw-ingest", "local", ("--root", "/a folder")).plan(remedy)))


def test_the_remedy_of_an_explanation_says_where_to_begin() -> None:
    args = parsed(of_stage(REPLAY, "raw-ingest"))
    check_options(args)
    assert args.from_output


def rewind(spark: Any, environment: Environment) -> None:
    for folder in ("offsets", "commits"):
        for name in ("2", ".2.crc"):
            (Path(environment.checkpoint("raw-ingest")) / folder / name).unlink()


def lose(spark: Any, environment: Environment) -> None:
    shutil.rmtree(environment.checkpoint("raw-ingest"))


def lose_all_but_sources(spark: Any, environment: Environment) -> None:
    """The list of files that were read: with it alone, a new start would read none of them and say nothing."""
    for path in Path(environment.checkpoint("raw-ingest")).iterdir():
        if path.is_dir() and path.name != "sources":
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()


def restore_the_table(spark: Any, environment: Environment) -> None:
    table = environment.table("sensor_gold")
    version = read_delta_log(table.path).latest_version
    spark.sql(f"RESTORE TABLE {table.sql} TO VERSION AS OF {version - 1}").collect()


DAMAGES = {
    "rewound": (rewind, "raw-ingest"),
    "lost": (lose, "raw-ingest"),
    "lost but for sources": (lose_all_but_sources, "raw-ingest"),
    "table restored": (restore_the_table, "merge-gold"),
}


@pytest.mark.chaos
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damage_is_refused_and_the_command_that_is_named_makes_the_tables_exact(
    spark: Any, stood: Environment, damage: str
) -> None:
    harm, name = DAMAGES[damage]
    harm(spark, stood)
    stage = chain_of(stood).link(name).stage
    found = ask_stage(stood, stage, commands=commands_for(stage, stood, ("--root", stood.root)))
    assert found.verdict is Verdict.UNSAFE
    with pytest.raises(Refused) as refused:
        run_stage(spark, stood, stage)
    assert str(found.findings[0].next) == str(refused.value.next)

    args = parsed(str(refused.value.next))
    plan = make_plan(spark, stood, chain_of(stood), args, SETTINGS)
    if damage == "rewound":
        assert {effect.rows for effect in plan.effects if effect.action == "remove rows"} == {0}
    done = apply(spark, stood, plan)

    assert done.certificate is not None
    assert done.certificate["exact"], done.certificate
    land_more(stood)
    run_stages(spark, stood)
    assert_exact(stood)
