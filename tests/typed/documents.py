"""The commands that documents, notebooks and help texts print."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What a reader puts in: words in capitals, and "…" for the rest of a line.
_PUT_IN = {
    "STAGE": "raw-ingest",
    "REMEDY": "reset",
    "FILE": "plan.json",
    "N": "3",
    "T": "2026-01-31T03:00:00Z",
    "CODE": "COPIED",
}
_COMMAND = re.compile(r"^\s*(?:\$ )?((?:[\w -]+ \| )?(?:\.venv/bin/)?surestart .+)$")


def commands_in(path: Path) -> Iterator[str]:
    """Each command of a page, with what a reader has to put in."""
    for line in _code(path):
        yield from filled(line)


def _code(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join(
            "".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"
        )
    fenced = False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            match = _COMMAND.search(line)
            if match and not line.lstrip().startswith("#"):
                yield match[1]
        else:
            yield from re.findall(r"`((?:\.venv/bin/)?surestart [^`]+)`", line)


def filled(line: str) -> Iterator[str]:
    """What a reader types for it: one command for each alternative."""
    line = re.sub(r"\s{2,}[^#\s'\"-].*$", "", line) if "  #" not in line else line
    line = line.replace(" …", "").replace("[", "").replace("]", "").strip()
    # A page may tell a reader to keep what is printed; a finding may not.
    line = re.sub(r" > [\w./-]+$", "", line)
    line = line.replace("postgres_url=…", "postgres_url=env:URL")
    for name, value in _PUT_IN.items():
        line = re.sub(rf"(?<![\w-]){name}(?![\w-])", value, line)
    match = re.search(r"(?<=\s)[a-z-]+(?:\|[a-z-]+)+(?=\s|$)", line)
    for choice in match[0].split("|") if match else ("",):
        yield line.replace(match[0], choice) if match else line
