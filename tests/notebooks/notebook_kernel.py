"""Executes notebooks of this repository one after the other in one real kernel, each in an empty namespace.

One kernel, because each JVM costs about ten seconds; an empty namespace, because a name left over from the notebook
before would hide that the next one does not define it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


class NotebookKernel:
    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def run(self, name: str) -> NotebookNode:
        """The notebook with its outputs. Raises CellExecutionError at the first cell that fails."""
        self._execute(new_notebook(cells=[new_code_cell("%reset -f")]))
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


def text_of(notebook: NotebookNode) -> str:
    """Everything a reader of the executed notebook sees below its cells."""
    parts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            parts.append(output.get("text", "") + data.get("text/html", data.get("text/plain", "")))
    return "\n".join(parts)
