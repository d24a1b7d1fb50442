"""The folder of a fork: made for one plan, and dropped with nothing of anybody else's in it.

DIR/fork.json               of which plan it is; written first
DIR/tables/NAME             a shallow clone: its log is its own, its rows are read from the files of the original
DIR/checkpoints/QUERY       Spark's own entries up to the batch, under a query id of its own
DIR/surestart.toml          declares it, for doctor, inspect and `surestart.start`; written last
DIR/.surestart, DIR/claims  what its runs write"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surestart.declaration import SinkDeclaration, SourceDeclaration, StageDeclaration
from surestart.errors import Refused, UsageError
from surestart.failpoints import fail_point
from surestart.fork import CHECKPOINTS, NOTE, TABLES
from surestart.history.claim_file import take_claim
from surestart.remedies.basis.durable import sync
from surestart.remedies.basis.move_aside import RETIRED
from surestart.streams.change_file import toml_text
from surestart.streams.project_file import FILE, SOURCE_KINDS, parse_project_text
from surestart.typed import typed

_DRAFT = f".{NOTE}.new"
_OURS = {NOTE, TABLES, CHECKPOINTS, FILE, ".surestart", "claims"}


def open_folder(place: Path, note: dict[str, Any]) -> None:
    """The folder is there, and is this plan's. Raises Refused where it is somebody else's."""
    there = read_fork_note(place)
    if there is None and not is_free(place):
        raise Refused(
            f"something is at {place} now",
            meaning="A fork is made in a folder that is empty or does not exist. Nothing was changed.",
            next=typed("ls", "-la", place),
            code="PlaceNotFree",
        )
    if there is not None and there.get("digest") != note["digest"]:
        raise Refused(
            f"{place} is the fork of another plan, {str(there.get('digest'))[:12]}",
            meaning="Nothing was changed.",
            next=typed("ls", "-la", place),
            code="PlaceNotFree",
        )
    if there is None:
        place.mkdir(exist_ok=True)
        write_whole(place / NOTE, json.dumps(note, indent=2, sort_keys=True) + "\n")
    fail_point("remedy.fork.opened")


# What a remedy of the fork itself has put aside: by its digest.
_OF_A_REMEDY = re.compile(r"[0-9a-f]{16}(-[a-z]+)?(\.complete)?")


def is_free(place: Path) -> bool:
    """Nothing is there, or an empty folder."""
    if place.is_symlink():
        return False
    # A call that died left this draft, before the folder was the fork's.
    return not place.exists() or (place.is_dir() and not {*os.listdir(place)} - {_DRAFT})  # noqa: PTH208


def read_fork_note(place: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((place / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_whole(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    sync(fresh)
    fresh.replace(path)
    sync(path.parent)


def refuse_others(place: Path, tables: list[str], checkpoint: str) -> None:
    """Raises, with nothing changed, where something lies in the fork that neither it nor its runs have made, or where
    it runs."""
    found = [path for path in _listed(place) if path.name not in _OURS and path.name != _DRAFT]
    known = {*tables, "surestart_runs", "surestart_remedies", "surestart_kept"}
    found += [path for path in _listed(place / TABLES) if path.name not in known]
    own = (checkpoint, f"{checkpoint}.complete", RETIRED)
    found += [path for path in _listed(place / CHECKPOINTS) if path.name not in own]
    for query in _listed(place / CHECKPOINTS / RETIRED):
        aside = _listed(query) if query.is_dir() else [query]
        found += [path for path in aside if not _OF_A_REMEDY.fullmatch(path.name)]
    if found:
        raise Refused(
            f"in the fork {place} is something that it did not make: {found[0].relative_to(place)}",
            meaning="It would be removed with the fork. Nothing was changed.",
            next=typed("ls", "-la", found[0].parent, note="put it elsewhere; then the same command again"),
            code="ForkHoldsOthers",
        )
    for path in [*(place / "claims").glob("*.lock"), *(place / ".surestart").rglob("*.lock")]:
        claim = take_claim(path)
        if claim is None:
            raise Refused(
                f"the fork {place} runs: its claim {path.name} is held",
                meaning="Dropped now, the query would fail in the middle of a batch. Nothing was changed.",
                next=typed("ls", "-l", path, note="stop that query; then the same command again"),
                code="OWNER_RUNNING",
            )
        claim.release(clear=False)


def drop_folder(place: Path, digest: str) -> bool:
    """The fork of this plan is gone, whole; False where there was none. Nothing else that may be there is touched."""
    going = place.with_name(f".{digest[:16]}.dropped")
    note = read_fork_note(place)
    there = note is not None and note.get("digest") == digest
    if there:
        refuse_others(place, list(note.get("tables", [])) if note else [], str(note.get("query")) if note else "")
        fail_point("remedy.fork.before_drop")
        place.rename(going)
        sync(place.parent)
        fail_point("remedy.fork.after_rename")
    if going.is_dir():
        shutil.rmtree(going)
        return True
    return there


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


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
