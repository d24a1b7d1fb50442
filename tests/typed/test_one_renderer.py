"""Commands are put together in one module: elsewhere they are values, which quote themselves and can be asked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest

from surestart.cli.main import VERBS
from tests.typed.rendered import modules

RENDERER = "surestart.typed"
# What is opened is named after the command that opens it: sessions, connections, threads.
_NAMED_AFTER = {"obtain_session", "open_session", "open_connection", "Thread"}
_COMMAND = re.compile(rf"surestart (?:--\w|(?:{'|'.join(VERBS)})\b|$)")
_OPTION = re.compile(r"(?:^|\s)(?:-e|--(?:env|root|streams|pipeline|from-batch|to-batch|confirm)) $")


def put_together(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each text that is a command, or a piece of one."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [one.value if isinstance(one, ast.Constant) else None for one in node.values]
            before = [one for one, other in pairwise(pieces) if one and other is None]
            said = any(_COMMAND.match(one or "") for one in pieces) and not is_name_of(node, parents)
            if said or any(_OPTION.search(one) for one in before):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _COMMAND.match(node.value):
            # A piece of an f-string was looked at with the whole of it.
            if is_name_of(node, parents) or isinstance(parents[node], ast.JoinedStr):
                continue
            yield node.lineno, ast.unparse(node)


def is_name_of(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    around = parents[node]
    call = parents[around] if isinstance(around, ast.keyword) else around
    return isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in _NAMED_AFTER


def test_commands_are_put_together_in_one_module() -> None:
    found = [
        f"{path.name}:{line}: {text}"
        for name, path, tree in modules()
        if name != RENDERER
        for line, text in put_together(tree)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        'next = "surestart doctor"',
        'next = f"surestart doctor {stage}"',
        'next = "surestart " + "doctor"',
        'options = f"-e {environment.name} {options}"',
        'parts = [f"--root {root}"]',
        'next = f"{command} --confirm {target}"',
    ],
)
def test_a_command_that_is_put_together_elsewhere_is_seen(line: str) -> None:
    assert list(put_together(ast.parse(line)))
