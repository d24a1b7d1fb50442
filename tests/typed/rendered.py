"""Every `next` in the code, rendered: each place that makes a finding or an error, with hostile values in it.

The expression of each place is evaluated as it stands, in the globals of its own module. What it takes from outside (a
path, a table, a topic) is a text that a shell would act on; only an environment, a stage, a digest and numbers, whose
characters the code itself decides, are given as what they are.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib
import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from surestart.cli.main import VERBS
from surestart.environment import environment_from_settings
from surestart.facts.postgres.url import DatabaseUrl
from surestart.history.describe_run import options_of
from surestart.remedies.basis.plan import environment_facts
from surestart.typed import NextStep, surestart
from surestart.words.next_commands import Commands

SRC = Path(__file__).resolve().parents[2] / "src"
HOSTILE = """it's a "b" `touch ran` $(touch ran) ; > c\n\x1b[31m"""
ENVIRONMENT = environment_from_settings("local", "sensor", {"root": "/data/it's a `place`"}, environ={})
DIGEST = "0123456789abcdef" * 4
# Places that hand on what was made elsewhere: an error's or a finding's own next.
_FORWARDED = {"next", "code", "put"}


class Given(str):
    """Anything from outside, hostile as a text; what the code has checked before is what it would be."""

    __slots__ = ()

    def __new__(cls, name: str = "") -> Given:
        return super().__new__(cls, HOSTILE)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return known(name, None)

    def __getitem__(self, key: object) -> Given:  # type: ignore[override]
        return self

    def __call__(self, *args: object, **given: object) -> Given:
        return self

    def __truediv__(self, other: object) -> Given | str:
        return f"/{self}/{other}"

    def __iter__(self) -> Iterator[Given]:  # type: ignore[override]
        return iter((self,))

    def __fspath__(self) -> str:
        return HOSTILE


COMMANDS = Commands("raw-ingest", ENVIRONMENT.name, options_of(ENVIRONMENT))
_NUMBERS = {"rows", "job_id", "batch", "seed", "devices", "accepted_loss", "default", "version"}


def known(name: str, annotation: str | None) -> Any:
    """What a name holds whose characters the code decides; else something hostile."""
    kind = (annotation or "").split(" | ")[0]
    if name == "theirs":
        return environment_facts(ENVIRONMENT)
    if name == "plan" and kind in ("", "Plan"):
        return _Plan()
    if name == "run":
        return _Run()
    if name == "environment" or kind == "Environment":
        return environment_from_settings("local", "sensor", {"root": ENVIRONMENT.root}, environ={})
    if name in ("commands", "_COMMANDS") or kind == "Commands":
        return COMMANDS
    if name == "stage" and kind in ("", "str"):
        return "raw-ingest"
    if name in ("link", "step") or kind == "Stage":
        return _Link()
    if name == "stages":
        return (_Link(),)
    if name == "digest":
        return DIGEST
    if name in ("remedy",):
        return "reset"
    if name == "verb":
        return "apply"
    if name in ("options",):
        return ("--root", "/data/a b")
    if name == "settings":
        return {}
    if name in ("next", "next_step"):
        return surestart("status", note="a note")
    if name == "command":
        return surestart("apply", DIGEST)
    if name == "doctor":
        return COMMANDS.doctor()
    if name in ("place", "psql", "put"):
        database = DatabaseUrl(scope="a scope", key="it's")
        return database if name == "place" else getattr(database, name)
    if name == "certificate":
        return {"environment": "local", "verdict": "exact", "stages": []}
    if name == "sys":
        return SimpleNamespace(executable=f"/opt/{HOSTILE}/python", stdin=sys.stdin)
    if name == "arguments":
        return ("doctor", "raw-ingest", "--root", HOSTILE)
    if name == "tool":
        return f"/opt/{HOSTILE}/keytool"
    if name in _NUMBERS or kind == "int":
        return 3
    if kind == "bool":
        return True
    if kind == "str":
        return Given(name)
    return Given(name)


class _Plan(Given):
    """A plan that was read: names as they were checked, everything else as somebody may have written it."""

    digest = DIGEST
    remedy, stage, options, pipeline = "reset", "raw-ingest", (), ""
    accepted_loss = 3
    settings: ClassVar[dict[str, str]] = {}
    environment = environment_facts(ENVIRONMENT)


class _Run(Given):
    plan, digest, environment = _Plan(), DIGEST, ENVIRONMENT


class _Stage(str):
    """A stage of ours, by its name."""

    __slots__ = ()
    ours = True


class _Link(Given):
    """A stage, or what stands for one."""

    name, stage, query = "raw-ingest", _Stage("raw-ingest"), "sensor-raw-ingest"


@dataclass(frozen=True)
class Place:
    """One `next=` in the code. steps: one for each branch."""

    where: str
    code: str
    steps: tuple[NextStep | str, ...]
    unread: str = ""


@cache
def modules() -> tuple[tuple[str, Path, ast.Module], ...]:
    found = []
    for path in sorted(SRC.rglob("*.py")):
        name = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
        found.append((name, path, ast.parse(path.read_text())))
    return tuple(found)


def next_of(call: ast.Call) -> ast.expr | None:
    """The expression of what is said next, where this call makes a finding or an error."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if ast.unparse(call.func).rpartition(".")[2] == "Finding":
        return given.get("next") or (call.args[4] if len(call.args) > 4 else None)
    return given.get("next") if "meaning" in given else None


def places() -> Iterator[Place]:
    for name, path, tree in modules():
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (expression := next_of(node)) is not None:
                where = f"{path.relative_to(SRC)}:{node.lineno}"
                code = next((ast.unparse(k.value) for k in node.keywords if k.arg == "code"), "")
                code = code or (ast.unparse(node.args[0]) if node.args else "")
                yield _place(where, code, expression, functions_around(node, parents), name, tree)


def functions_around(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> list[ast.FunctionDef]:
    found = []
    while node in parents:
        node = parents[node]
        if isinstance(node, ast.FunctionDef):
            found.append(node)
    return found


def _place(
    where: str, code: str, expression: ast.expr, around: list[ast.FunctionDef], module: str, tree: ast.Module
) -> Place:
    steps: list[NextStep | str] = []
    try:
        for step in rendered(expression, around, module, tree):
            if isinstance(step, str | NextStep) and step:
                steps.append(step)
    except Exception as problem:  # noqa: BLE001 - what cannot be rendered is named, and fails its test
        return Place(where, code, tuple(steps), f"{type(problem).__name__}: {problem} in {ast.unparse(expression)}")
    return Place(where, code, tuple(dict.fromkeys(steps)))


def rendered(
    expression: ast.expr, around: list[ast.FunctionDef], module: str, tree: ast.Module, depth: int = 0
) -> Iterator[object]:
    """What the expression says, once for each branch of it. An error's own `next` is rendered where it is made."""
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        # Of a step that was made elsewhere: without its secrets, or with another note.
        made = expression.func.value
        if isinstance(made, ast.Attribute) and made.attr == "next":
            return
    if isinstance(expression, ast.Attribute) and expression.attr in _FORWARDED:
        return
    if isinstance(expression, ast.Constant) and expression.value == "":
        return
    if isinstance(expression, ast.IfExp):
        yield from rendered(expression.body, around, module, tree, depth)
        yield from rendered(expression.orelse, around, module, tree, depth)
        return
    if isinstance(expression, ast.Name) and around:
        parameters = _parameters(around[0])
        assigned = _assigned(expression.id, around)
        if not assigned and expression.id in parameters and depth < 4:
            yield from _from_callers(expression.id, around[0], module, tree, depth)
            return
    space = vars(importlib.import_module(module)) | vars(builtins)
    names = [node.id for node in ast.walk(expression) if isinstance(node, ast.Name)]
    choices: list[list[tuple[str, object]]] = []
    for one in dict.fromkeys(names):
        values = _values_of(one, around, module, tree, depth, space)
        owner = next((function for function in around if one in _parameters(function)), None)
        if one == _begins_with(expression) and owner is not None and depth < 4:
            values = list(_from_callers(one, owner, module, tree, depth)) or values
        choices.append([(one, value) for value in values])
    for chosen in itertools.islice(itertools.product(*choices), 16):
        for variant in itertools.islice(_variants(expression), 8):
            code = compile(ast.fix_missing_locations(ast.Expression(variant)), "next", "eval")
            yield eval(code, {**space, **dict(chosen)})


def _begins_with(expression: ast.expr) -> str:
    """The name that a text begins with: a command that was made elsewhere, to which this one adds."""
    while isinstance(expression, ast.BinOp):
        expression = expression.left
    first = expression.values[0] if isinstance(expression, ast.JoinedStr) else expression
    first = first.value if isinstance(first, ast.FormattedValue) else first
    return first.id if isinstance(first, ast.Name) else ""


def _values_of(
    name: str, around: list[ast.FunctionDef], module: str, tree: ast.Module, depth: int, space: Mapping[str, Any]
) -> list[object]:
    assigned = _assigned(name, around)
    if assigned and depth < 4 and name not in ("environment", "settings", "digest", "link", "certificate"):
        values: list[object] = []
        for expression in assigned:
            try:
                values += list(rendered(expression, around, module, tree, depth + 1))
            except Exception:  # noqa: BLE001 - a value that only the running code has: it may be anything
                values.append(known(name, None))
        return values or [known(name, None)]
    for function in around:
        if name in _parameters(function):
            return [known(name, _parameters(function)[name])]
        for node in ast.walk(function):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return [_inner(node, around, module, tree)]
    if name in space:
        return [known(name, None) if name == "sys" else space[name]]
    for function in around:
        for node in ast.walk(function):
            if isinstance(node, ast.ImportFrom) and any(one.name == name for one in node.names):
                return [getattr(importlib.import_module(node.module or ""), name)]
    return [known(name, None)]


def _inner(node: ast.FunctionDef, around: list[ast.FunctionDef], module: str, tree: ast.Module) -> Any:
    """A function made inside another one, called with what its own names would hold."""

    def call(*args: object, **given: object) -> object:
        result = next(one for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None)
        assert result.value is not None
        space = vars(importlib.import_module(module)) | vars(builtins)
        named = [one.arg for one in node.args.args]
        rest = {node.args.vararg.arg: args[len(named) :]} if node.args.vararg else {}
        names = _defaults(node) | dict(zip(named, args, strict=False)) | rest | given
        used = {one.id for one in ast.walk(result.value) if isinstance(one, ast.Name)} - names.keys()
        filled = {one: _values_of(one, around, module, tree, 3, space)[0] for one in used}
        return eval(compile(ast.Expression(result.value), "next", "eval"), {**space, **filled, **names})

    return call


def _defaults(node: ast.FunctionDef) -> dict[str, object]:
    given = node.args.args[len(node.args.args) - len(node.args.defaults) :]
    constants = zip(given, node.args.defaults, strict=True)
    return {one.arg: value.value for one, value in constants if isinstance(value, ast.Constant)}


def _parameters(function: ast.FunctionDef) -> dict[str, str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {one.arg: ast.unparse(one.annotation) if one.annotation else "" for one in every if one}


def _assigned(name: str, around: list[ast.FunctionDef]) -> list[ast.expr]:
    found: list[ast.expr] = []
    for function in around:
        for node in ast.walk(function):
            if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple) and isinstance(node.iter, ast.Tuple):
                for row in node.iter.elts:
                    pairs = zip(node.target.elts, row.elts, strict=True) if isinstance(row, ast.Tuple) else ()
                    found += [value for one, value in pairs if isinstance(one, ast.Name) and one.id == name]
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, (ast.NamedExpr, ast.AnnAssign)) and node.value is not None:
                targets = [node.target]
            for target in targets:
                value = node.value  # type: ignore[attr-defined]
                if isinstance(target, ast.Name) and target.id == name:
                    found.append(value)
                elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    found += [
                        part
                        for one, part in zip(target.elts, value.elts, strict=False)
                        if isinstance(one, ast.Name) and one.id == name
                    ]
    return found


def _from_callers(name: str, function: ast.FunctionDef, module: str, tree: ast.Module, depth: int) -> Iterator[object]:
    """What callers give for this parameter."""
    position = list(_parameters(function)).index(name)
    position -= "self" in _parameters(function)
    for other, _, its_tree in modules():
        parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(its_tree):
            if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] != function.name:
                continue
            parents = parents or {child: one for one in ast.walk(its_tree) for child in ast.iter_child_nodes(one)}
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            value = given.get(name) or (node.args[position] if len(node.args) > position else None)
            if value is not None and not isinstance(value, ast.Starred):
                yield from rendered(value, functions_around(node, parents), other, its_tree, depth + 1)


def _variants(expression: ast.expr) -> Iterator[ast.expr]:
    """The expression with each condition in it decided either way."""
    found = next((node for node in ast.walk(expression) if isinstance(node, ast.IfExp)), None)
    if found is None:
        yield expression
        return
    for branch in (found.body, found.orelse):
        yield from _variants(_with(expression, found, branch))


def _with(expression: ast.expr, old: ast.IfExp, new: ast.expr) -> ast.expr:
    class Replace(ast.NodeTransformer):
        def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
            return new if ast.dump(node) == ast.dump(old) else self.generic_visit(node)

    result = Replace().visit(copy.deepcopy(expression))
    assert isinstance(result, ast.expr)
    return result


def printed() -> Iterator[Place]:
    """Every text with a command on a line of its own, wherever it is made: reports, confirmations, pages."""
    for name, path, tree in modules():
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            inner = isinstance(parents.get(node), (ast.JoinedStr, ast.FormattedValue))
            if inner or not isinstance(node, (ast.JoinedStr, ast.Constant)) or not _COMMAND.search(ast.unparse(node)):
                continue
            where = f"{path.relative_to(SRC)}:{node.lineno}"
            place = _place(where, "", node, functions_around(node, parents), name, tree)
            lines = [line for text in place.steps for line in _COMMAND_LINE.findall(str(text))]
            if lines or place.unread:
                yield Place(where, "", tuple(dict.fromkeys(lines)), place.unread)


_COMMAND = re.compile(r"surestart |\b(?:Next|Undo): ")
_COMMAND_LINE = re.compile(rf"^(?:Next: |Undo: |\$ )?(surestart (?:{'|'.join(VERBS)})(?: .*|$))", re.M)
