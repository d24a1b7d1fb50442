"""Whether a checkpoint, or a fork, may be put to a place: nothing is there, nobody else uses it, and it fits."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from surestart.environment import Environment
from surestart.errors import CannotTell, Refused
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.facts.storage.open_storage import is_mounted
from surestart.history.checkpoint_place import checkpoint_place
from surestart.history.describe_run import plan_command
from surestart.remedies.basis.chain import Chain, Link
from surestart.remedies.basis.change_place import refuse_no_room
from surestart.remedies.basis.durable import Signpost, read_signpost
from surestart.remedies.basis.fork_folder import is_free
from surestart.remedies.basis.move_aside import RETIRED
from surestart.remedies.steps.move import SCRATCH
from surestart.streams.stream import absolute_place
from surestart.typed import NextCommand, surestart, typed

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def local_place(environment: Environment, link: Link, given: str, how: str = "move") -> Path:
    """The place as a folder of this machine. Raises for any other. how: move, or fork."""
    place = absolute_place(given)
    for which in (place, absolute_place(link.checkpoint)):
        if _SCHEME.match(which) or not which.startswith("/") or not is_mounted(which):
            raise CannotTell(
                f"{which} is not on a file system that this process has mounted",
                meaning="A checkpoint is copied file by file and compared byte for byte; on an object store surestart "
                "only reads. Nothing was planned.",
                next=_another(environment, link, how, "/mounted/place"),
                do_not="copy it by hand while the old place can still be started.",
                code="CheckpointNotMounted",
            )
    if ".." in place.split("/") or "\0" in place or not place.isprintable():
        raise _not_free(environment, link, how, f"{place!r} is not a plain path")
    return Path(place)


def refuse_unfit(environment: Environment, chain: Chain, link: Link, origin: Path, target: Path) -> None:
    """Raises where the checkpoint cannot be moved there. Nothing is written, and no file of it is read."""
    if origin.is_symlink():
        raise CannotTell(
            f"{origin} is a link to {os.path.realpath(origin)}",
            meaning="Moving the link would move nothing. Nothing was planned.",
            next=surestart("inspect", os.path.realpath(origin), note="declare this place, then move it"),
            code="LinkInCheckpoint",
        )
    if not origin.is_dir():
        there = read_signpost(origin)
        moved, look = (f"; it was moved to {there.place}", there.place) if there else ("", str(origin))
        raise Refused(
            f"there is no checkpoint at {origin}{moved}",
            meaning="Nothing can be moved from there. Nothing was planned.",
            next=surestart("inspect", look),
            code="NothingToMove",
        )
    for what in (*_taken(target, origin), *_around(target), *_of_others(environment, chain, link, target)):
        raise _not_free(environment, link, "move", what)
    _refuse_unwritable(target.parent, origin.parent)
    for what in _apart(origin, target, link.query):
        raise _not_free(environment, link, "move", what)
    refuse_no_room(origin, target.parent)


def refuse_no_fork_place(environment: Environment, chain: Chain, link: Link, given: str) -> Path:
    """The folder of a fork. Raises where something is there, or somebody uses it. Nothing is written."""
    target = local_place(environment, link, given, "fork")
    if not is_free(target):
        raise _not_free(environment, link, "fork", f"{target} is there already, a {_kind(target)}")
    if os.path.ismount(target):
        raise _not_free(environment, link, "fork", f"{target} is a disk of its own, and an undo takes the folder away")
    own = checkpoint_place(link.checkpoint), checkpoint_place(str(target))
    if _is_within(own[1], own[0]):
        raise _not_free(environment, link, "fork", f"{target} is inside the checkpoint {link.checkpoint}")
    for what in (*_around(target), *_of_others(environment, chain, link, target)):
        raise _not_free(environment, link, "fork", what)
    _refuse_unwritable(target.parent)
    return target


def _refuse_unwritable(*folders: Path) -> None:
    if not folders[0].is_dir():
        raise Refused(
            f"the folder {folders[0]} does not exist",
            meaning="It is not created on a guess. Nothing was planned.",
            next=typed("mkdir", "-p", folders[0]),
            code="PlaceNotFree",
        )
    for folder in folders:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Refused(
                f"this user may not write into {folder}",
                meaning="What begins there could not be finished. Nothing was planned.",
                next=typed("ls", "-ld", folder),
                code="PlaceNotFree",
            )


def former_signpost(origin: Path, target: Path) -> Signpost | None:
    """That of an earlier move of this very checkpoint, which was there before: it gives way."""
    there = read_signpost(target)
    return there if there is not None and there.query_id == read_checkpoint(str(origin), entries=1).query_id else None


def _taken(target: Path, origin: Path) -> Iterator[str]:
    here, there = checkpoint_place(str(origin)), checkpoint_place(str(target))
    if here == there:
        yield f"{target} is where it is already"
    elif _is_within(there, here):
        yield f"{target} is inside the checkpoint {origin}"
    elif _is_within(here, there):
        yield f"{target} holds the checkpoint {origin}"
    elif (target.exists() or target.is_symlink()) and former_signpost(origin, target) is None:
        yield f"{target} is there already, a {_kind(target)}"


def _apart(origin: Path, target: Path, query: str) -> Iterator[str]:
    """What is put aside, and a copy that goes to its place, are renamed; an undo does it the other way round."""
    if origin.stat().st_dev != origin.parent.stat().st_dev:
        yield f"{origin} is a disk of its own, and nothing can be put in its place"
    for place, name in itertools.product((origin.parent, target.parent), (RETIRED, SCRATCH)):
        folder = place / name / query
        while not os.path.lexists(folder):
            folder = folder.parent
        if not folder.is_dir():
            yield f"{folder} is no folder, and a move puts something there"
        elif folder.stat().st_dev != place.stat().st_dev:
            yield f"{folder} is on another disk than {place}, and a move renames what it puts there"


def _around(target: Path) -> Iterator[str]:
    for folder in target.parents:
        if (folder / "_delta_log").is_dir() or (folder / "_spark_metadata").is_dir():
            yield f"{target} is inside the table {folder}: a VACUUM deletes what it does not know"
        elif folder.name == RETIRED:
            yield f"{target} is inside {folder}, where remedies put aside what is no longer used"
        elif (folder / "metadata").exists() and (folder / "offsets").is_dir():
            yield f"{target} is inside the checkpoint {folder}"


def _of_others(environment: Environment, chain: Chain, link: Link, target: Path) -> Iterator[str]:
    there = checkpoint_place(str(target))
    for other in chain:
        place = checkpoint_place(other.checkpoint)
        if other.name != link.name and (_is_within(there, place) or _is_within(place, there)):
            yield f"{target} is, contains or is inside the checkpoint of {other.name}, {other.checkpoint}"
        # What a declared stream reads and nobody has said, its checkpoint says without a path.
        said = other.stage.declare(environment)
        for source in said.sources:
            if source.path and _is_within(there, checkpoint_place(source.path)):
                yield f"{target} is inside {source.path}, which {other.name} reads"
        for sink in said.sinks:
            if sink.path and _is_within(there, checkpoint_place(sink.path)):
                yield f"{target} is inside {sink.path}, which {other.name} writes"


def _is_within(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")


def _kind(path: Path) -> str:
    return "link" if path.is_symlink() else "folder" if path.is_dir() else "file"


def _not_free(environment: Environment, link: Link, how: str, what: str) -> Refused:
    return Refused(
        f"{what}" if how == "fork" else f"the checkpoint of {link.name} cannot be moved: {what}",
        meaning="The new place must be empty, and nobody else may use it. Nothing was planned.",
        next=_another(environment, link, how, "/another/place"),
        code="PlaceNotFree",
    )


def _another(environment: Environment, link: Link, how: str, place: str) -> NextCommand:
    if how == "fork":
        return plan_command(environment, "rewind", link.name, "--beside", place)
    return plan_command(environment, "move", link.name, "--to", place)
