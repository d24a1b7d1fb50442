"""The surestart.toml of a fork: its stream as the original is declared, with checkpoint and tables of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration
from surestart.errors import UsageError
from surestart.streams.project_file import FILE, SOURCE_KINDS, parse_project_text
from surestart.streams.toml_text import toml_text


def fork_text(declared: StageDeclaration, place: Path, checkpoint: Path, tables: Mapping[str, str], head: str) -> str:
    """tables: of the original, by path, to those of the fork."""
    lines = [f"# {head}", f"[stream.{declared.stage}]", f"checkpoint = {toml_text(str(checkpoint))}"]
    sinks = [_sink(one, tables[one.path]) for one in declared.sinks if one.path in tables]
    lines.append(f"sink = [{', '.join(sinks)}]")
    if declared.output_mode != "append":
        lines.append(f"output_mode = {toml_text(declared.output_mode)}")
    if declared.state:
        lines.append(f"state = [{', '.join(map(toml_text, declared.state))}]")
    sources = [_source(one) for one in declared.sources]
    if sources and all(sources):
        whole = [*lines, f"source = [{', '.join(sources)}]"]
        try:
            return _parsed(place, whole)
        except UsageError:
            # What the file has no words for, the checkpoint tells.
            pass
    return _parsed(place, lines)


def _parsed(place: Path, lines: list[str]) -> str:
    text = "\n".join(lines) + "\n"
    parse_project_text(place / FILE, text)
    return text


def _source(one: SourceDeclaration) -> str:
    target = one.path or one.target
    if one.kind not in SOURCE_KINDS or not target:
        return ""
    options = "".join(f", {toml_text(name)} = {toml_text(value)}" for name, value in one.options)
    return f"{{ {one.kind} = {toml_text(target)}{options} }}"


def _sink(one: SinkDeclaration, path: str) -> str:
    keys = f", keys = [{', '.join(map(toml_text, one.keys))}]" if one.keys else ""
    return f"{{ {one.kind} = {toml_text(path)}{keys}, shared = false }}"
