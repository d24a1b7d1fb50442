"""`import surestart`: what is public is listed once, is there, is explained, and is all that a pipeline needs."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import surestart

ROOT = Path(__file__).resolve().parents[1]
FACE = ROOT / "src" / "surestart" / "__init__.py"
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
PUBLIC = [name for name in surestart.__all__ if name != "__version__"]


def test_what_a_type_checker_sees_is_what_is_imported() -> None:
    (seen,) = [node for node in ast.parse(FACE.read_text()).body if isinstance(node, ast.If)]
    declared = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in seen.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert declared == surestart._PLACES
    assert sorted(declared) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_says_what_it_is(name: str) -> None:
    found = getattr(surestart, name)

    assert name in dir(surestart)
    if inspect.isclass(found) or inspect.isfunction(found):
        own = found.__doc__ or ""
        # A dataclass without a docstring gets its signature for one.
        assert own != ""
        assert not own.startswith(f"{found.__name__}(")


def test_the_page_lists_every_public_name_and_no_other() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)

    assert sorted(listed) == sorted(PUBLIC)


def test_an_unknown_name_is_no_riddle() -> None:
    with pytest.raises(AttributeError, match=r"no public name 'Sage'; docs/api\.md lists them"):
        _ = surestart.Sage


def test_the_pipeline_uses_nothing_but_the_public_face() -> None:
    private = []
    for path in sorted((ROOT / "src" / "sensor_pipeline").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "surestart":
                names = {alias.name for alias in node.names}
                if node.module != "surestart.typed" and (node.module != "surestart" or names - {*surestart.__all__}):
                    private.append(f"{path.name}:{node.lineno} {node.module} {sorted(names)}")
            elif isinstance(node, ast.Import):
                private += [f"{path.name}:{node.lineno}" for one in node.names if one.name.startswith("surestart.")]

    assert private == []


def test_importing_it_starts_nothing_and_imports_no_spark() -> None:
    program = "import sys, surestart; surestart.inspect; print([n for n in ('pyspark', 'pyarrow') if n in sys.modules])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
