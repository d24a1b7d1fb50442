"""What every notebook in the folder keeps to, the ones to come included."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONGEST_CODE_CELL = 20


def code_of(path: Path) -> str:
    return "\n\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")


def faults_of(text: str) -> list[str]:
    """What is wrong with a notebook's file, judged by its bytes and its cells."""
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    faults = [] if nbformat.writes(notebook) + "\n" == text else ["not as nbformat writes it"]
    cells = notebook.cells
    if not cells or cells[0].cell_type != "markdown" or not cells[0].source.startswith("# "):
        faults.append("does not begin with a title that says what it does")
    for cell in cells:
        if cell.cell_type != "code":
            continue
        if cell.outputs or cell.execution_count is not None:
            faults.append(f"cell {cell.id} has outputs")
        if len(cell.source.splitlines()) > LONGEST_CODE_CELL:
            faults.append(
                f"cell {cell.id} is longer than {LONGEST_CODE_CELL} lines: the logic belongs into the package"
            )
        if cell.source.lstrip().startswith(("%", "!")):
            faults.append(f"cell {cell.id} is a magic or a shell command")
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    for word, harm in {
        "sys.path": "serverless does not promise a working directory: ship the wheel",
        "dbutils": "only surestart.notebooks.notebook knows where dbutils is",
        "checkpointLocation": "only Environment builds checkpoint paths",
        "/Volumes/": "only Environment builds paths",
        "rmtree": "nothing is deleted from a notebook",
        "getOrCreate": "only surestart.notebooks.notebook.session() obtains a session",
    }.items():
        if word in code:
            faults.append(f"{word}: {harm}")
    return faults


def test_there_is_a_notebook_for_each_stage():
    names = [path.name for path in NOTEBOOKS]

    assert names[:3] == ["01_raw_ingest.ipynb", "02_deserialize.ipynb", "03_merge_gold.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_canonical_short_and_without_outputs(path):
    assert faults_of(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_python_that_takes_its_settings_from_surestart(path):
    tree = ast.parse(code_of(path))
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}

    assert "notebook.read_settings" in called


GOOD = NOTEBOOKS[1].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "spoiled",
    [GOOD.replace("\n ", "\n  "), GOOD.rstrip("\n"), GOOD.replace("\n", "\r\n")],
    ids=["indentation", "last newline", "line ends"],
)
def test_a_notebook_in_another_form_is_noticed(spoiled):
    assert faults_of(spoiled) == ["not as nbformat writes it"]


def title(notebook: Any) -> None:
    notebook.cells[0].source = notebook.cells[0].source.lstrip("# ")


def output(notebook: Any) -> None:
    notebook.cells[2].outputs = [nbformat.v4.new_output("stream", text="raw 3,000")]


def count(notebook: Any) -> None:
    notebook.cells[2].execution_count = 3


def long_cell(notebook: Any) -> None:
    notebook.cells[2].source += "\nx = 1" * LONGEST_CODE_CELL


def code(line: Any) -> Any:
    def change(notebook: Any) -> None:
        notebook.cells[2].source = f"{line}\n{notebook.cells[2].source}"

    return change


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (title, "title"),
        (output, "has outputs"),
        (count, "has outputs"),
        (long_cell, "longer than"),
        (code("%pip install surestart"), "magic"),
        (code("!ls /"), "magic"),
        (code("sys.path.append('../src')"), "sys.path"),
        (code("dbutils.fs.ls('/')"), "dbutils"),
        (code("writer.option('checkpointLocation', '/x')"), "checkpointLocation"),
        (code("root = '/Volumes/main/sensor/checkpoints'"), "/Volumes/"),
        (code("shutil.rmtree(root)"), "rmtree"),
        (code("spark = SparkSession.builder.getOrCreate()"), "getOrCreate"),
    ],
)
def test_a_spoiled_notebook_is_noticed(change, fault):
    notebook = nbformat.reads(GOOD, as_version=4)
    change(notebook)

    (found,) = faults_of(nbformat.writes(notebook) + "\n")
    assert fault in found
