"""One word for one thing, and each field on a line of its own: what keeps names and docstrings readable."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src"
# The same thing in several modules, found there by its name.
BY_NAME = {
    "run": "each verb of the command line has one (surestart.cli)",
    "add_arguments": "each verb of the command line has one (surestart.cli)",
    "apply_step": "each kind of step has one (surestart.remedies.steps)",
    "undo_step": "each kind of step has one (surestart.remedies.steps)",
    "main": "where a program begins",
    "run_stage": "a notebook's is the runner's, with its errors made readable there",
}


def public_names(text: str) -> set[str]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {one.name for one in ast.parse(text).body if isinstance(one, kinds) and not one.name.startswith("_")}


def said_twice(modules: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Name -> the modules that define it, where these are several."""
    found = defaultdict(list)
    for module, text in modules.items():
        for name in public_names(text):
            found[name].append(module)
    return {name: sorted(places) for name, places in found.items() if len(places) > 1}


def test_no_two_modules_give_the_same_name_to_two_things() -> None:
    modules = {str(path.relative_to(SRC)): path.read_text(encoding="utf-8") for path in SRC.rglob("*.py")}
    twice = said_twice(modules)

    assert {name: places for name, places in twice.items() if name not in BY_NAME} == {}
    assert BY_NAME.keys() - twice.keys() == set(), "explained, and no longer there twice"


def test_this_test_sees_a_name_that_is_there_twice() -> None:
    found = said_twice(
        {"a": "class Place: ...\ndef _own(): ...", "b": "def Place(): ...\ndef _own(): ...", "c": "x = 1"}
    )

    assert found == {"Place": ["a", "b"]}


def fields_in_a_row(text: str) -> list[str]:
    """Classes whose docstring explains a field behind another sentence, and not on a line of its own."""
    found = []
    for one in ast.walk(ast.parse(text)):
        if isinstance(one, ast.ClassDef):
            fields = [x.target.id for x in one.body if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)]
            names = "|".join(map(re.escape, fields))
            if names and re.search(rf"[.;] (?:{names})(?:(?:, | and )(?:{names}))*: ", ast.get_docstring(one) or ""):
                found.append(one.name)
    return found


def test_fields_are_explained_one_a_line() -> None:
    assert {path.name: found for path in SRC.rglob("*.py") if (found := fields_in_a_row(path.read_text()))} == {}
    assert fields_in_a_row('class A:\n    """One. b: two. c: three."""\n    b: int\n    c: int\n') == ["A"]
    assert fields_in_a_row('class A:\n    """One.\n\n    b: two.\n    c: three."""\n    b: int\n    c: int\n') == []


# Nobody would guess what they name.
UNGUESSABLE = {"world", "put_back", "half_way", "stand_still", "foretell", "give_up", "claiming", "reach", "unsaid"}


def names_given(text: str) -> set[str]:
    """What the text gives a name to: classes, functions, arguments, fields and variables."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return {name.strip("_").lower() for name in found}


def test_no_name_is_a_riddle() -> None:
    given = {path: names_given(path.read_text(encoding="utf-8")) | {path.stem} for path in SRC.rglob("*.py")}

    assert {
        str(path.relative_to(SRC)): names & UNGUESSABLE for path, names in given.items() if names & UNGUESSABLE
    } == {}
    assert names_given("def a(world): half_way = 1\nclass C:\n    put_back: int\n") > {"world", "half_way", "put_back"}
