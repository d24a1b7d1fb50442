"""One catalogue of codes: what the code makes, what documents describe and what `explain` knows are the same names."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from pathlib import Path

import pytest

from surestart.errors import SurestartError
from surestart.report.text.explanation import codes_text
from surestart.verdict.explain import explain
from surestart.words.codes import all_codes
from surestart.words.codes.code import Code
from tests.diagnosis.called import surestart
from tests.typed.rendered import HOSTILE, functions_around, modules, next_of, rendered

DOCS = Path(__file__).resolve().parents[2] / "docs"
KINDS = {
    "UsageError": "usage",
    "Refused": "refused",
    "CannotTell": "cannot tell",
    "StoppedHalfway": "stopped half-way",
    "StageFailed": "stopped half-way",
    "Unexpected": "unexpected",
}
# Spark's own condition, by which a failed stage goes.
_NOT_OURS = "surestart.runs.stage_failures"


def made() -> dict[str, set[str]]:
    """Code -> the kinds with which the code makes it, as far as they stand there; with the place of what is unread."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, path, tree in modules():
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and "BatchError" in map(ast.unparse, node.bases):
                found[node.name] |= set()
            if not isinstance(node, ast.Call) or next_of(node) is None:
                continue
            callee = ast.unparse(node.func).rpartition(".")[2]
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            expression = given.get("code") or (node.args[0] if callee == "Finding" else None)
            kind = vars(importlib.import_module(module)).get(callee)
            if expression is None:
                if isinstance(kind, type) and issubclass(kind, SurestartError):
                    found[callee] |= {KINDS[callee]} if callee in KINDS else set()
                continue
            if isinstance(expression, ast.Attribute) and expression.attr in ("code", "__name__"):
                continue
            around = functions_around(node, parents)
            for name in rendered(expression, around, module, tree):
                where = f"{path.name}:{node.lineno}"
                if HOSTILE in str(name):
                    assert module == _NOT_OURS, f"{where}: the code {ast.unparse(expression)} cannot be read"
                    continue
                found[str(name)] |= severities(node, expression) if callee == "Finding" else kinds_of(callee)
    return found


def kinds_of(callee: str) -> set[str]:
    return {KINDS[callee]} if callee in KINDS else set()


def severities(node: ast.Call, code: ast.expr) -> set[str]:
    """Those that stand in the call itself, where it is of one code."""
    if isinstance(code, ast.Name) and code.id.islower():
        return set()
    named = re.findall(r"Severity\.([A-Z_]+)", ast.unparse(node.args[1])) if len(node.args) > 1 else []
    return {name.replace("_", " ").lower() for name in named}


@pytest.fixture(scope="module")
def used() -> dict[str, set[str]]:
    return made()


def test_the_catalogue_has_each_code_that_the_code_makes_and_no_other(used: dict[str, set[str]]) -> None:
    names = [code.name for code in all_codes()]
    assert sorted(set(names)) == sorted(names)
    bases = set(KINDS) | {"SurestartError"}
    assert {
        "not in the catalogue": used.keys() - set(names) - bases,
        "made nowhere": set(names) - used.keys() - bases,
    } == {
        "not in the catalogue": set(),
        "made nowhere": set(),
    }


def test_each_has_the_severity_that_the_catalogue_says(used: dict[str, set[str]]) -> None:
    known = {code.name: set(code.kinds) for code in all_codes()}
    assert {name: kinds - known[name] for name, kinds in used.items() if name in known and kinds - known[name]} == {}


def test_the_page_of_codes_is_made_from_the_catalogue() -> None:
    """If it is not: .venv/bin/surestart explain --codes > docs/codes.md"""
    assert (DOCS / "codes.md").read_text() == codes_text()
    assert surestart("explain", "--codes").stdout == codes_text()


def test_every_finding_has_its_section_and_every_section_its_finding() -> None:
    sections = re.findall(r"^### (\S+)$", (DOCS / "findings.md").read_text(), re.M)
    assert sorted(sections) == sorted(code.name for code in all_codes() if code.finding)


@pytest.mark.parametrize("code", all_codes(), ids=lambda code: code.name)
def test_explain_knows_it_alone_and_as_it_is_printed(code: Code) -> None:
    printed = (
        code.name,
        f"{code.name}: what was the case, with numbers\nMeaning: one\nNext: two",
        f"UNSAFE  {code.name}",
    )
    for text in printed:
        answer = explain(text, "raw-ingest", "local", ("--root", "/a b"))
        assert [match.explanation.name for match in answer.matches] == [code.name]
        assert answer.matches[0].explanation.happened.endswith(".")


def test_no_document_names_a_code_that_there_is_not() -> None:
    names = {code.name for code in all_codes()}
    prefixes = "|".join(sorted({name.split("_")[0] for name in names if "_" in name and name.isupper()}))
    explained = {one.explanation.name for name in names for one in explain(name).matches}
    for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]:
        for word in re.findall(rf"`((?:{prefixes})_[A-Z_0-9]+)`", page.read_text()):
            assert word in names | explained or explain(word).known, f"{page.name}: {word}"
