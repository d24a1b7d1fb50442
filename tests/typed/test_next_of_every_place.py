"""What any finding or error says next is typed as it is printed: split by a shell, accepted by the command line.

Every place in the code that makes one is found by its syntax and rendered with hostile values, so no list of them can
become old; `tests/conftest.py` holds the same of each that any test makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from surestart.typed import (
    NextCommand,
    StepByHand,
    Verbatim,
    delta_name,
    in_the_code,
    spark_sql,
    surestart,
    typed,
    uncommented,
    word,
    words_in,
)
from surestart.words.next_commands import Commands, ForeignCommands, OwnersCommands
from tests.typed.rendered import HOSTILE, Place, places
from tests.typed.typeable import faults_of, refused_place, split_by_bash, without_comment, words_of


def words_of_value(step: NextCommand) -> list[str]:
    """What its program is to get, by the value and not by the text."""
    before = [one for one in (step.first,) if one]
    verbatim = [Verbatim(str(one)) for one in before]
    return [*verbatim, step.program, *filter(None, (step.verb,)), *step.words, *step.place.words, *step.more]


@pytest.fixture(scope="module")
def found() -> Sequence[Place]:
    return tuple(places())


def test_every_place_is_rendered_and_can_be_typed(found: Sequence[Place]) -> None:
    assert len(found) > 350
    wrong = [f"{one.where}: {one.unread}" for one in found if one.unread]
    wrong += [f"{one.where} {one.code}: {fault}" for one in found for step in one.steps for fault in faults_of(step)]
    assert wrong == []


def test_every_place_gives_a_value_and_no_text(found: Sequence[Place]) -> None:
    """What is text already is read again by whoever decides by it, and quoted by nobody."""
    given = [(one.where, step) for one in found for step in one.steps]
    texts = [where for where, step in given if step and not isinstance(step, NextCommand | StepByHand)]
    assert texts == [one for one in texts if one.startswith("surestart/report/")]


def test_bash_splits_each_of_them_into_the_same_words_and_runs_nothing(
    found: Sequence[Place], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = [step for one in found for step in one.steps if isinstance(step, NextCommand)]
    plain = list(
        dict.fromkeys(step for step in steps if not any(isinstance(one, Verbatim) for one in words_of_value(step)))
    )
    assert len(plain) > 200
    assert split_by_bash(plain) == [words_of_value(step) for step in plain]
    assert list(tmp_path.iterdir()) == []


def test_the_stage_and_the_place_that_are_named_are_found(found: Sequence[Place]) -> None:
    wrong, named = [], 0
    for one in found:
        for step in one.steps:
            words = words_of(without_comment(str(step))) if isinstance(step, NextCommand) and step.verb else []
            if "raw-ingest" in words and HOSTILE not in "".join(words):
                named += 1
                wrong += [f"{one.where}: {problem}: {step}" for problem in refused_place(words[1:])]
    assert named > 100
    assert wrong == []


FOLDER = "/data/it's a folder/`touch ran`/$(touch ran)"


@pytest.mark.parametrize("sinks", [(), ("none",), (FOLDER, "delta-merge:/x y")])
def test_what_is_said_of_somebody_elses_checkpoint_is_a_command_for_it(sinks: tuple[str, ...]) -> None:
    """No stage is named: none has its folder's name, and `surestart doctor FOLDER` ends with 2."""
    commands = ForeignCommands.of(FOLDER, sinks, ("--spark", "4.1"))
    said = [commands.plan(remedy) for remedy in ("resume", "replay", "backfill", "reset")]
    said += [commands.run(), commands.doctor(), commands.doctor("first"), commands.history(), commands.accept("A_B")]
    assert [fault for step in said for fault in faults_of(step)] == []
    for words in split_by_bash(said):
        assert words[:3] == ["surestart", "inspect", FOLDER]
        assert words[3:] == [word for sink in sinks or ("PATH_OF_THE_TABLE",) for word in ("--sink", sink)] + [
            "--spark",
            "4.1",
        ]


def test_what_is_said_of_a_stage_is_a_command_for_it() -> None:
    commands = Commands("raw-ingest", "local", ("--root", FOLDER))
    said = [commands.plan(remedy) for remedy in ("resume", "replay", "backfill", "reset")]
    said += [commands.run(), commands.doctor("first"), commands.history(), commands.accept("A_B", "C_D")]
    assert [fault for step in said for fault in faults_of(step)] == []
    assert all(FOLDER in words and "raw-ingest" in words for words in split_by_bash(said))


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "it's",
        'a "b"',
        "`touch ran`",
        "$(touch ran)",
        "a\nb",
        "tab\t",
        "ä \x1b[31m",
        "#a",
        "a  # b",
        "",
        "~",
        "*",
    ],
)
def test_a_word_reaches_a_program_as_it_is(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = surestart("inspect", text, note="a note with a ' in it")
    assert str(line).isprintable()
    assert words_in(uncommented(str(line))) == ("surestart", "inspect", text)
    assert split_by_bash([line]) == [["surestart", "inspect", text]]
    assert list(tmp_path.iterdir()) == []
    if text.isprintable():
        assert uncommented(str(line)) == f"surestart inspect {word(text)}"


def test_sql_goes_to_a_shell_in_single_quotes() -> None:
    """In double quotes bash would run what stands in the backticks: here `/data/raw`, as a program."""
    statement = f"ALTER TABLE {delta_name('/data/it`s raw')} UNSET TBLPROPERTIES (a)"
    assert split_by_bash([spark_sql(statement)]) == [["spark-sql", "-e", statement]]
    assert statement == "ALTER TABLE delta.`/data/it``s raw` UNSET TBLPROPERTIES (a)"


@pytest.mark.parametrize(
    "text",
    [
        "surestart doctor raw-ingest --nonsense",
        "surestart plan reset raw-ingest --from-batch 3",
        "surestart inspect /a --sink PATH   (or --sink none)",
        "surestart inspect /a b",
        "surestart inspect /it's",
        'spark-sql -e "ALTER TABLE delta.`/a`"',
        "surestart run all > x",
        "look at the table, then run it",
        "surestart apply abcdef012345  # or: surestart undo abcdef012345 --nonsense",
        "in the code: surestart doctor --nonsense",
        "surestart inspect /a --sink postgresql://a:b@c",
        "",
    ],
)
def test_what_cannot_be_typed_is_seen(text: str) -> None:
    assert faults_of(text) != []


def test_a_program_is_called_as_it_is_named() -> None:
    assert str(typed("ls", "-l", "/a b", note="look")) == "ls -l '/a b'  # look"


def test_a_step_is_without_its_secrets_before_it_is_quoted() -> None:
    """Quoted first, `$'…'` would spell a secret in another way, and it would be shown."""
    commands = Commands("all", "prod", ("--root", "/se\ncret", "--set", "password=se\ncret"))
    told = commands.doctor("se\ncret")
    step = replace(told.noting("say se\ncret, then", typed(Verbatim("echo se\ncret"))), first=in_the_code("se\ncret"))
    assert "se" in str(step)
    hidden = step.hiding(lambda text: text.replace("se\ncret", "***"))
    assert "cret" not in str(hidden)
    assert hidden.verb == "doctor"


def test_what_starts_a_query_is_told_by_the_step_and_not_by_its_words() -> None:
    own, owners = Commands("orders", "local"), OwnersCommands("orders", "local")
    foreign = ForeignCommands.of("/checkpoint")
    for commands in (own, owners, foreign):
        assert commands.run().starts_a_query
        assert commands.run("any words at all").starts_a_query
        assert not commands.accept("SINK_UNKNOWN").starts_a_query
        assert not any(commands.plan(remedy).starts_a_query for remedy in ("resume", "replay", "backfill", "reset"))
        assert not commands.doctor("it may be started; this looks again").starts_a_query


def test_a_declared_stream_is_told_its_own_step_in_place_of_ours() -> None:
    ours, theirs = Commands("orders", "local"), OwnersCommands("orders", "local")
    assert theirs.instead(ours.run()) == theirs.run()
    assert theirs.instead(ours.plan("reset")) == theirs.plan("reset")
    assert theirs.instead(ours.history()) == ours.history()
