"""What a remedy says of its own commits, and which RESTOREs of a table were made by undos.

    DELETE, overwrite, append    {"surestart_remedy_step": {"digest": …, "step": …}} in the commit itself
    RESTORE                      a commit of no rows that matter right before it, with such a note and "restores"

RESTORE takes a note from a session setting only, which serverless compute refuses. So the first RESTORE behind such a
mark, to the version that the mark names, is the undo's. Former versions of surestart wrote the note into the RESTORE.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from surestart.facts.delta.actions import integer
from surestart.facts.delta.commit import Commit

NOTE = "surestart_remedy_step"
MARKER, UNDO = "marker:", "undo:"
# Before the name of a step whose own work is a RESTORE, so that its undo has another name.
REWIND = "rewind:"


@dataclass(frozen=True)
class RemedyNote:
    """restores: the version that the RESTORE behind this commit gives back."""

    digest: str
    step: str
    restores: int | None = None

    @property
    def undoes(self) -> bool:
        return self.step.startswith(UNDO)

    @property
    def kind(self) -> str:
        """Of its step, without the stage: that of `surestart.journal.step_kinds`."""
        return self.step.removeprefix(UNDO).partition(":")[0]

    def is_of(self, digest: str, undone: str) -> bool:
        """Whether it is the undo of this step."""
        return (self.digest, self.step) == (digest, UNDO + undone)


def note_of(digest: str, step: str, restores: int | None = None) -> str:
    more = {} if restores is None else {"restores": restores}
    return json.dumps({NOTE: {"digest": digest, "step": step, **more}})


def read_remedy_note(user_metadata: str) -> RemedyNote | None:
    """None for a commit that no remedy has made."""
    if f'"{NOTE}"' not in user_metadata or len(user_metadata) > 65_536:
        return None
    try:
        body = json.loads(user_metadata)[NOTE]
        return RemedyNote(str(body["digest"]), str(body["step"]), integer(body.get("restores")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def find_undos(commits: Iterable[Commit]) -> dict[int, RemedyNote]:
    """Version -> whose, of the commits that put a table back, for the undo of a step or by a rewind. commits: oldest
    first."""
    found: dict[int, RemedyNote] = {}
    awaited: RemedyNote | None = None
    for commit in commits:
        note = read_remedy_note(commit.user_metadata)
        if note is not None and note.undoes:
            found[commit.version], awaited = note, None
        elif note is not None and note.restores is not None:
            awaited = note
        elif awaited is not None and commit.operation == "RESTORE" and _version(commit) == awaited.restores:
            step = UNDO + awaited.step.removeprefix(MARKER)
            found[commit.version], awaited = RemedyNote(awaited.digest, step), None
    return found


def is_restored(commits: Sequence[Commit], digest: str, step: str, before: int, at: int) -> bool:
    """Whether the undo of this step has put the table back to version `before` by the commit `at`, as the journal says:
    another table of the same name has other commits under these numbers. commits: oldest first."""
    note = find_undos(commits).get(at)
    if note is not None:
        return note.is_of(digest, step)
    # A stream may stand between the mark and its RESTORE: then the mark is older than the commits that were read.
    cut = bool(commits) and commits[0].version > before + 1
    return cut and any(one.version == at and one.operation == "RESTORE" and _version(one) == before for one in commits)


def _version(commit: Commit) -> int | None:
    return integer(commit.parameters.get("version"))
