"""Executes notebooks of this repository one after the other in one real kernel, each in an empty namespace.

One kernel, because each JVM costs about ten seconds; an empty namespace, because a name left over from the notebook
before would hide that the next one does not define it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from tests.report.pages import Element, read_page

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


class NotebookKernel:
    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def run(self, name: str, before: str = "") -> NotebookNode:
        """The notebook with its outputs. Raises CellExecutionError at the first cell that fails. before: code for
        the names that the notebook finds."""
        self._execute(new_notebook(cells=[new_code_cell("%reset -f"), new_code_cell(before)]))
        return self._execute(nbformat.read(NOTEBOOKS / name, as_version=4))

    def run_code(self, source: str) -> NotebookNode:
        return self._execute(new_notebook(cells=[new_code_cell(source)]))

    def _execute(self, notebook: NotebookNode) -> NotebookNode:
        self._client.nb = notebook
        self._client.reset_execution_trackers()
        for index, cell in enumerate(notebook.cells):
            self._client.execute_cell(cell, index)
        return notebook


@contextmanager
def running_kernel(folder: Path, variables: Mapping[str, str]) -> Iterator[NotebookKernel]:
    """A kernel of this Python, started in `folder`: serverless compute does not promise the notebook's own folder."""
    client = NotebookClient(
        new_notebook(), kernel_name="python3", timeout=240, resources={"metadata": {"path": str(folder)}}
    )
    with client.setup_kernel(cwd=str(folder), env={**os.environ, **variables}):
        yield NotebookKernel(client)


def set_widgets(kernel: NotebookKernel, **values: str) -> None:
    """The kernel's notebooks find these values in their widgets."""
    code = "".join(f"os.environ['SURESTART_{name.upper()}'] = {value!r}\n" for name, value in values.items())
    kernel.run_code(f"import os\n{code}")


def page_in(shown: str) -> Element:
    """The one page that was shown below a cell."""
    (source,) = re.findall(r'srcdoc="([^"]*)"', shown)
    return read_page(unescape(source))


def text_of(notebook: NotebookNode) -> str:
    """Everything a reader of the executed notebook sees below its cells."""
    parts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            parts.append(output.get("text", "") + data.get("text/html", data.get("text/plain", "")))
    return "\n".join(parts)
