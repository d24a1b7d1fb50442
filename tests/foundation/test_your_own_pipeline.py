"""docs/your-own-pipeline.md, its code and its commands as printed: two stages of a reader's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from surestart.facts.delta.pinned import read_table_rows

PAGE = (Path(__file__).parents[2] / "docs" / "your-own-pipeline.md").read_text(encoding="utf-8")
LANDED, RUN, REMEDY, BACK = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)


def typed(folder: Path, *blocks: str) -> str:
    return typed_from(PAGE, folder, "orders", *blocks)


def typed_from(page: str, folder: Path, module: str, *blocks: str) -> str:
    """What a shell prints that is given these blocks, beside the page's module."""
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (folder / f"{module}.py").write_text(code)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(blocks)],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(folder: Path, table: str) -> Counter[tuple[str, str]]:
    path = folder / ".surestart" / "local" / "tables" / table
    return Counter((row["order_id"], row["state"]) for row in read_table_rows(str(path)))


EVERY = Counter({("a1", "open"): 1, ("b2", "open"): 1, ("a1", "paid"): 1})
NEWEST = Counter({("b2", "open"): 1, ("a1", "paid"): 1})


@pytest.mark.long(instead="foundation/test_run_command.py::test_a_first_run_a_second_one_and_what_is_new")
def test_its_two_stages_run_as_printed_and_the_doctor_knows_them(tmp_path: Path) -> None:
    shown = typed(tmp_path, LANDED, RUN)

    assert (rows(tmp_path, "orders"), rows(tmp_path, "orders_newest")) == (EVERY, NEWEST)
    assert re.findall(r"^  (\w+) +SAFE +starts batch 1 +accepts", shown, re.MULTILINE) == ["land", "newest"]


@pytest.mark.chaos
def test_a_reset_and_its_undo_go_as_printed(tmp_path: Path) -> None:
    shown = typed(tmp_path, LANDED, RUN, REMEDY)
    assert "EXACT        lost 0, duplicated 0 in 2 counts." in shown
    assert (rows(tmp_path, "orders"), rows(tmp_path, "orders_newest")) == (EVERY, NEWEST)

    (digest,) = re.findall(r"^Undo: surestart undo (\w+) ", shown, re.MULTILINE)
    typed(tmp_path, BACK.replace("DIGEST", digest))

    assert (rows(tmp_path, "orders"), rows(tmp_path, "orders_newest")) == (EVERY, NEWEST)
