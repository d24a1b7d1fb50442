"""What is missing is installed by the packages' own names: `surestart` is on no index, or is somebody else's there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from surestart.typed import uncommented
from surestart.words.next_commands import install_extra, packages_of
from surestart.words.unexpected import EXTRAS

ROOT = Path(__file__).resolve().parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def bare_name(requirement: str) -> str:
    return re.split(r"[\[<>=! ;]", requirement)[0]


@pytest.mark.parametrize("extra", DECLARED["optional-dependencies"])
def test_an_extra_is_what_the_wheel_says_that_it_brings(extra: str) -> None:
    declared = DECLARED["optional-dependencies"][extra]

    assert sorted(map(bare_name, packages_of(extra))) == sorted(map(bare_name, declared))
    assert "surestart" not in uncommented(str(install_extra(extra))).partition(" -m pip install ")[2]


def test_every_module_that_is_foreseen_is_brought_by_an_extra_that_there_is() -> None:
    assert {extra for extra in EXTRAS.values() if not packages_of(extra)} == set()


def test_no_line_of_the_code_installs_it_from_an_index() -> None:
    lines = [
        f"{path.name}: {line.strip()}"
        for path in (ROOT / "src").rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"""pip\b.*install.*surestart\[""", line)
    ]
    assert lines == []


def test_documents_name_a_wheel_as_pip_takes_it() -> None:
    """pip refuses a wheel of another name than that of its build: "is not a valid wheel filename"."""
    said = [
        found
        for page in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md")
        for found in re.findall(r"[\w.*-]*\.whl", page.read_text())
    ]
    built = f"surestart-{DECLARED['version']}-py3-none-any.whl"

    assert {name for name in said if name not in (built, "surestart-*.whl")} == set()
    assert said
