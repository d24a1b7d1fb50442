"""No decision reads what people read: a sentence may be worded anew, and what is decided stays."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from surestart.errors import UsageError, read_printed
from surestart.typed import surestart
from tests.typed.rendered import modules

# The sentences of findings, errors, steps of a plan and answers of a sink.
_SENTENCES = {"what", "meaning", "evidence", "do_not", "next", "note", "detail", "said", "problem", "sentence"}
_READERS = {"startswith", "endswith", "replace", "partition", "rpartition", "split", "find", "index", "removeprefix"}
_PATTERNS = {"search", "match", "fullmatch", "findall"}


def is_sentence(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        node = node.args[0]
    return isinstance(node, ast.Attribute) and node.attr in _SENTENCES


def read_by(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each place that asks a sentence for a piece of it, or for its words."""
    for node in ast.walk(tree):
        read: list[ast.expr] = []
        if isinstance(node, ast.Compare) and all(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
            read = node.comparators
        elif isinstance(node, ast.Compare) and any(
            isinstance(one, ast.Constant) and one.value for one in node.comparators
        ):
            read = [node.left]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            read = [node.func.value] if node.func.attr in _READERS else []
            read = node.args[-1:] if node.func.attr in _PATTERNS else read
        if any(is_sentence(one) for one in read):
            yield node.lineno, ast.unparse(node)


def test_no_decision_reads_a_sentence() -> None:
    found = [f"{path.name}:{line}: {code}" for _, path, tree in modules() for line, code in read_by(tree)]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        'found = finding.evidence.startswith("number of sources")',
        "found = failed.name in reason.what",
        'found = "already" not in str(error.meaning)',
        'found = error.next == "surestart doctor"',
        're.search("batch ([0-9]+)", answer.detail)',
    ],
)
def test_a_decision_by_a_sentence_is_seen(line: str) -> None:
    assert list(read_by(ast.parse(line)))


def test_an_error_that_was_printed_is_read_back_in_its_parts() -> None:
    """What comes back from inside a batch is text alone."""
    error = UsageError("a: b", meaning="c.", next=surestart("doctor", note="d"), do_not="e.", code="Code")
    parts = {"code": "Code", "what": "a: b", "meaning": "c.", "next": "surestart doctor  # d", "do_not": "e."}
    assert read_printed(f"Traceback\nRuntimeError: {error}") == parts
    assert read_printed(str(UsageError("a", meaning="c", next=surestart("doctor")))) == {
        **parts,
        "code": "UsageError",
        "what": "a",
        "meaning": "c",
        "next": "surestart doctor",
        "do_not": "",
    }
    assert read_printed("[STREAM_FAILED] no message of ours") is None
