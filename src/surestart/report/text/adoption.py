"""What `surestart adopt` has found, for a screen and for a program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from surestart.streams.adopt.adopt import Adopted, Adoption
from surestart.streams.adopt.found import KINDS, AdoptionNote
from surestart.streams.project_file import FILE
from surestart.typed import NOTHING, NextStep, surestart
from surestart.words.inert import inert

_SHOWN = 20


def render_adoption(adoption: Adoption, path: Path, again: NextStep = NOTHING) -> str:
    """again: of a dry run, the command that writes it."""
    return "\n".join(_lines(adoption, path, again)) + "\n"


def _lines(adoption: Adoption, path: Path, again: NextStep) -> Iterator[str]:
    found = f"{_count(adoption.checkpoints, 'checkpoint')}, {_count(adoption.tables, 'table')}"
    yield f"{found}; {adoption.known:,} known to {path} before."
    new = adoption.adopted
    if again and new:
        yield ""
        yield adoption.text
    verb = "would be added to" if again else "added to"
    yield f"{_count(len(new), 'stream')} {verb} {path}." if new else f"Nothing to add to {path}."
    for one in new[:_SHOWN] if not again else ():
        yield f"  {one.name:32} {inert(one.joined.checkpoint.location)}{_open(one)}"
    if len(new) > _SHOWN and not again:
        yield f"  … {len(new) - _SHOWN:,} more"
    for kind, notes in groupby(sorted(adoption.notes, key=lambda note: KINDS.index(note.kind)), lambda n: n.kind):
        of_kind = list(notes)
        yield ""
        yield f"{kind}: {len(of_kind):,}"
        for note in of_kind[:_SHOWN]:
            yield f"  {', '.join(map(inert, note.places))}"
            yield f"    {inert(note.says, 400)}"
        if len(of_kind) > _SHOWN:
            yield f"  … {len(of_kind) - _SHOWN:,} more: --json has all of them"
    yield ""
    yield f"Next: {_next(adoption, path, again)}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _open(one: Adopted) -> str:
    return f"  {one.questions} open" if one.questions else ""


def _next(adoption: Adoption, path: Path, again: NextStep) -> NextStep:
    if again and adoption.adopted:
        return again
    if not adoption.adopted and not adoption.known:
        # There is nothing yet that a doctor could look at.
        helps = next((note.next for note in adoption.unread if note.next), NOTHING)
        return helps or surestart("adopt", "--help", note="no checkpoint was found: name the folder that they are in")
    found = path.name == FILE and path.absolute().parent == Path.cwd()
    return surestart("doctor", *(() if found else ("--streams", path)), note="each stream, the worst first")


def adoption_json(adoption: Adoption, path: Path, dry_run: bool) -> str:
    body = {
        "schema_version": 1,
        "file": str(path),
        "written": bool(adoption.adopted) and not dry_run,
        "checkpoints": adoption.checkpoints,
        "tables": adoption.tables,
        "known": adoption.known,
        "streams": [_stream(one) for one in adoption.adopted],
        "notes": [_note(note) for note in adoption.notes],
    }
    return json.dumps(body, indent=2) + "\n"


def _stream(one: Adopted) -> dict[str, object]:
    joined = one.joined
    return {
        "name": one.name,
        "checkpoint": joined.checkpoint.location,
        "query_id": joined.checkpoint.query_id,
        "last_batch": joined.checkpoint.last_batch,
        "questions": one.questions,
        "sources": [
            {"kind": s.source.kind, "subject": s.location or s.source.subject, "asks": s.asks} for s in joined.sources
        ],
        "sinks": [
            {
                "kind": s.table.kind,
                "place": s.table.location,
                "shared": s.shared,
                "ids": [w.app_id for w in s.writers],
                "last_batch": max(w.last_batch for w in s.writers),
                "asks": s.asks,
            }
            for s in joined.sinks
        ],
        "other_sinks": "unknown" if joined.open_sinks else "none",
        "asks": list(joined.asks),
    }


def _note(note: AdoptionNote) -> dict[str, object]:
    return {"kind": note.kind, "places": list(note.places), "says": note.says}
