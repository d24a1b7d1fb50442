"""The rooms of docs/architecture.md: each imports only rooms above it, no two modules import each other, and both walks
through the house can be taken."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import surestart

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# What starts the house from outside: they hand over to the command line.
DOORS = {"surestart", "surestart.__main__", "surestart.job"}
# Found by name and not imported: a verb by the command line, a step by its kind, a pipeline by surestart.toml.
BY_NAME = ("surestart.cli.", "surestart.remedies.steps.", "sensor_pipeline.stages")
INSIDE = {
    "facts": ("storage", "checkpoint", "delta", "state", "kafka", "postgres", "evidence"),
    "remedies": ("basis", "count", "loss", "jobs", "steps", "planning", "apply"),
    "report": ("text", "json", "html"),
    "sinks": ("delta", "postgres"),
}
Imports = Mapping[str, frozenset[str]]


def rooms_of_the_page() -> list[str]:
    return [name.strip("()") for name in re.findall(r"^\| `(\(?\w+\)?)` \|", PAGE, re.MULTILINE)]


@cache
def modules() -> dict[str, Path]:
    paths = sorted(SRC.rglob("*.py"))
    return {".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Wherever the import stands: in a function or under TYPE_CHECKING as well."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if node.module == "surestart" and alias.name in surestart.__all__:
                    # Through the public face: what stands behind the name.
                    yield surestart._PLACES[alias.name][0]
                elif inner in known:
                    yield inner
                elif node.module in known:
                    yield node.module


@cache
def imports() -> Imports:
    known = modules()
    return {name: frozenset(imported(path, known)) - {name} for name, path in known.items()}


def room_of(module: str, rooms: list[str]) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in rooms else "root"


def wrong_ways(graph: Imports, rooms: list[str]) -> list[str]:
    found = []
    for module, others in graph.items():
        if module in DOORS or not module.startswith("surestart."):
            continue
        for other in others:
            if other.split(".")[0] != "surestart":
                found.append(f"{module} imports {other}")
            elif rooms.index(room_of(other, rooms)) > rooms.index(room_of(module, rooms)):
                found.append(f"{module} imports {other}, which stands below it")
    return sorted(found)


def wrong_ways_inside(graph: Imports, room: str, order: tuple[str, ...]) -> list[str]:
    prefix = f"surestart.{room}."
    place = {name: name.removeprefix(prefix).split(".")[0] for name in graph if name.startswith(prefix)}
    place = {name: part for name, part in place.items() if part in order}
    return sorted(
        f"{module} imports {other}"
        for module, part in place.items()
        for other in graph[module]
        if other in place and order.index(place[other]) > order.index(part)
    )


def cycles(graph: Imports) -> list[set[str]]:
    """Each set of modules that reach each other."""
    reach: dict[str, set[str]] = {}
    for module in graph:
        seen: set[str] = set()
        ahead = list(graph[module])
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                ahead += graph[name]
        reach[module] = seen
    rings = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph}
    return [set(ring) for ring in rings if ring]


def walk(title: str) -> list[str]:
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([\w.]+)`", section, re.MULTILINE)


def test_each_folder_is_a_room_of_the_page() -> None:
    folders = {path.name for path in (SRC / "surestart").iterdir() if (path / "__init__.py").exists()}

    assert folders == set(rooms_of_the_page()) - {"root"}


def test_the_map_in_the_readme_has_the_same_rooms_in_the_same_order() -> None:
    text = (
        (ROOT / "README.md").read_text(encoding="utf-8").split("    src/surestart/ ")[1].split("    surestart.toml ")[0]
    )
    named = [name for line in text.splitlines() for name in re.findall(r"(\w+)/(?=  |$)", line[:38])]

    assert named == [room for room in rooms_of_the_page() if room != "root"]


def test_each_room_imports_only_rooms_above_it() -> None:
    assert wrong_ways(imports(), rooms_of_the_page()) == []


@pytest.mark.parametrize("room", INSIDE)
def test_inside_a_room_it_is_one_direction_too(room: str) -> None:
    folders = {path.name for path in (SRC / "surestart" / room).iterdir() if (path / "__init__.py").exists()}

    assert folders == set(INSIDE[room])
    assert wrong_ways_inside(imports(), room, INSIDE[room]) == []


def test_no_two_modules_import_each_other() -> None:
    assert cycles(imports()) == []


@pytest.mark.parametrize(("title", "most"), [("A record's way", 25), ("A person's way", 40)])
def test_a_way_can_be_walked(title: str, most: int) -> None:
    """Each module is there, and one above it leads to it."""
    names = walk(title)
    graph = imports()

    assert 2 <= len(names) <= most
    assert [name for name in names if name not in graph] == []
    assert [
        name
        for number, name in enumerate(names)
        if number and not name.startswith(BY_NAME) and not any(name in graph[above] for above in names[:number])
    ] == []


def test_these_tests_see_a_wrong_way_and_a_ring() -> None:
    graph = {
        "surestart.words.a": frozenset({"surestart.cli.b"}),
        "surestart.cli.b": frozenset({"surestart.words.a"}),
        "surestart.remedies.basis.c": frozenset({"surestart.remedies.apply.d"}),
        "surestart.remedies.apply.d": frozenset[str](),
    }

    wrong = "surestart.words.a imports surestart.cli.b, which stands below it"
    assert wrong_ways(graph, rooms_of_the_page()) == [wrong]
    assert cycles(graph) == [{"surestart.words.a", "surestart.cli.b"}]
    assert len(wrong_ways_inside(graph, "remedies", INSIDE["remedies"])) == 1
