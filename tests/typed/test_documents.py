"""What documents, notebooks, help texts and explanations tell people to type is accepted by the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from surestart.cli.main import VERBS
from surestart.journal.protocol import REMEDIES
from surestart.verdict.explain import explain
from surestart.verdict.explanations import all_explanations
from surestart.words.codes import all_codes
from surestart.words.codes.code import STAGE, of_stage
from tests.diagnosis.called import surestart
from tests.typed.documents import ROOT, commands_in
from tests.typed.rendered import printed
from tests.typed.typeable import faults_of, refused_place, without_comment, words_of

PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "notebooks").glob("*.ipynb"),
        *(ROOT / "benchmarks").glob("*.md"),
    ]
)


def names_a_verb(command: str) -> bool:
    """`surestart plan replay` in a sentence is the name of it, and nothing to type."""
    return {*command.split()} <= {"surestart", "--traceback", *VERBS, *REMEDIES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_are_accepted(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Where prod is, its jobs and shells have in their environment.
    monkeypatch.setenv("SURESTART_CATALOG", "main")
    monkeypatch.setenv("SURESTART_SCHEMA", "sensor")
    serve_the_pages_own_pipeline(page, monkeypatch, tmp_path)
    typed = [one.removeprefix(".venv/bin/") for one in commands_in(page) if not names_a_verb(one)]
    assert [fault for one in typed for fault in faults_of(one)] == []
    assert [fault for one in typed if one.startswith("surestart ") for fault in wrong_place(one)] == []


def serve_the_pages_own_pipeline(page: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Where a page has the code of a pipeline, its commands are about that one."""
    text = page.read_text(encoding="utf-8")
    named = re.search(r"""^echo 'pipeline = "((\w+):\w+)"' > surestart.toml$""", text, re.MULTILINE)
    if named:
        (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        (folder / f"{named[2]}.py").write_text(code)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setenv("SURESTART_PIPELINE", named[1])
    # Likewise of declared streams.
    declared = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    if not named and any("[stream." in one for one in declared):
        (folder / "surestart.toml").write_text("\n".join(declared))
        monkeypatch.chdir(folder)


def wrong_place(command: str) -> list[str]:
    """A page names stages of this pipeline; those of another one, and files of streams, the reader has."""
    words = words_of(without_comment(command))[1:]
    if {"--pipeline", "--streams", "-h", "--help"} & {*words}:
        return []
    return refused_place(words)


def test_pages_have_commands() -> None:
    assert sum(len(list(commands_in(page))) for page in PAGES) > 80


def test_every_explanation_names_a_command_for_the_place_it_is_asked_about() -> None:
    wrong = []
    for name in (entry.name for entry in all_explanations()):
        for stage in ("", "raw-ingest"):
            for match in explain(name, stage, "local", ("--root", "/a `b`")).matches:
                wrong += [f"{name}: {fault}" for fault in faults_of(str(match.next))]
                words = words_of(without_comment(str(match.next)))
                if not {"STAGE", "--help"} & {*words}:
                    wrong += [f"{name}: {fault}" for fault in refused_place(words[1:])]
                if stage and STAGE in match.explanation.command.words:
                    assert "raw-ingest" in words, name
                    assert "/a `b`" in words, name
    assert wrong == []


def test_the_codes_of_the_catalogue_name_commands_that_can_be_typed() -> None:
    assert [fault for code in all_codes() for fault in faults_of(of_stage(code.command, "raw-ingest"))] == []


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_the_commands_that_help_names_can_be_typed(verb: str) -> None:
    """Those in backticks; a verb alone is its name."""
    import re

    shown = " ".join(surestart(*([verb] if verb else []), "--help").stdout.split())
    named = [one for one in re.findall(r"`(surestart [^`]+)`", shown) if not names_a_verb(one)]
    filled = [re.sub(r"\bFILE\b", "plan.json", one) for one in named]
    assert [fault for one in filled for fault in faults_of(one)] == []


def test_the_commands_that_reports_and_confirmations_print_can_be_typed(said_next: list[str]) -> None:
    """Everything that stands on a line of its own as `Next: surestart …`, with hostile values in it."""
    found = list(printed())
    # Rendering has called functions of the product with texts for names that they have checked before.
    said_next.clear()
    assert len([one for one in found if one.steps]) > 20
    wrong = []
    for one in found:
        for text in one.steps:
            command = str(text).replace("{stage}", "raw-ingest")
            if not names_a_verb(command) and command != "surestart inspect --json":
                wrong += [f"{one.where}: {fault}" for fault in faults_of(command)]
    assert wrong == []
