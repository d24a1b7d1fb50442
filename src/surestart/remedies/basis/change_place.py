"""The folder of a checkpoint goes to another place, whole, the same bytes; safe to die in between.

    1. announced   a file stands at the new place (signpost), so that no start finds it empty
    2. copied      beside the new place: each file synced and compared, empty folders, modes and times as they were
    3. put aside   the old folder and a signpost change places at once; the folder is compared once more
    4. placed      the copy and the file of 1 change places at once

Wherever it dies, the same call goes on. At every moment a start with plain Spark finds either the checkpoint or a file
at both places, and never an empty one. Where a file system cannot exchange two names, steps 3 and 4 are a removal and a
rename."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from surestart.errors import Refused
from surestart.facts.checkpoint.manifest import Manifest, read_manifest
from surestart.failpoints import fail_point
from surestart.remedies.basis.durable import Signpost, put_up, read_signpost, sync, sync_folders
from surestart.remedies.basis.move_aside import (
    belong_alike,
    complete_marker,
    copy_differs,
    copy_verified,
    keep_time,
    write_marker,
)
from surestart.typed import surestart, typed
from surestart.words.amounts import size_text

# A smaller copy is over before anybody asks how far it is.
_TOLD_FROM = 256 << 20


@dataclass(frozen=True)
class PlaceChange:
    """origin, target: the two places.
    aside: where the old folder is kept.
    scratch: where the copy is written, beside the target.
    query_id: whose checkpoint it is.
    digest: of the remedy."""

    origin: Path
    target: Path
    aside: Path
    scratch: Path
    query_id: str
    digest: str

    @property
    def gone(self) -> Signpost:
        return Signpost(str(self.target), self.query_id, self.digest)

    @property
    def coming(self) -> Signpost:
        return Signpost(str(self.origin), self.query_id, self.digest, coming=True)


def change_place(
    way: PlaceChange,
    wanted: str | None,
    check: Callable[[], object] = lambda: None,
    say: Callable[[str], object] = print,
) -> Manifest:
    """The checkpoint is at the target, the old folder lies aside, and a signpost is where it was. wanted: the digest
    of what has to be there; None: of what is. check: raises where the old folder must stay."""
    if not is_moved(way):
        if not is_copied(way):
            refuse_no_room(way.origin, way.target.parent)
            _announce(way)
            _copy(way, wanted, say)
        promised = complete_marker(way.scratch).read_text(encoding="utf-8")
        _put_aside(way, promised, check)
        _place(way, promised)
    found = read_manifest(way.target)
    _forget_scratch(way)
    return found


def is_moved(way: PlaceChange) -> bool:
    return way.target.is_dir() and not way.target.is_symlink() and read_signpost(way.origin) == way.gone


def is_copied(way: PlaceChange) -> bool:
    """From here on the copy counts: what is at the origin may be put aside."""
    return complete_marker(way.scratch).exists()


def move_back(way: PlaceChange, former: Signpost | None) -> None:
    """Of a move that died before its copy was placed: the old folder is where it was, and the copy is gone. former: the
    signpost that stood at the target before."""
    if not way.origin.is_dir():
        if not exchange(way.aside, way.origin):
            way.origin.unlink(missing_ok=True)
            way.aside.rename(way.origin)
        sync(way.origin.parent)
        fail_point("remedy.place.put_back")
    forget_aside(way)
    _forget_scratch(way)
    if read_signpost(way.target) == way.coming:
        if former is None:
            way.target.unlink()
        else:
            put_up(way.target, former, instead=True)
        sync(way.target.parent)


def forget_aside(way: PlaceChange) -> None:
    """What was kept of the old place is of no use any more: the same, or more, is in its place again."""
    complete_marker(way.aside).unlink(missing_ok=True)
    if way.aside.is_dir():
        shutil.rmtree(way.aside)
    elif read_signpost(way.aside) is not None:
        way.aside.unlink()
    _remove_empty(way.aside.parent, way.aside.parent.parent)


def refuse_no_room(origin: Path, folder: Path) -> None:
    """Raises where the copy would not fit. Without reading a file."""
    refuse_too_large(sum(path.lstat().st_size for path in origin.rglob("*") if not path.is_dir()), folder)


def refuse_too_large(size: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if size <= free:
        return
    raise Refused(
        f"the checkpoint has {size_text(size)}, and the disk of {folder} has {size_text(free)} free",
        meaning="It is copied whole before anything else is done. Nothing was changed.",
        next=typed("df", "-h", folder),
        code="NoRoom",
    )


def _announce(way: PlaceChange) -> None:
    there = read_signpost(way.target)
    if there is not None and there.query_id == way.query_id:
        if there != way.coming:
            put_up(way.target, way.coming, instead=True)
    else:
        try:
            put_up(way.target, way.coming)
        except FileExistsError as problem:
            raise Refused(
                f"something is at {way.target} now",
                meaning="The checkpoint is not moved over it. Nothing was changed.",
                next=typed("ls", "-ld", way.target),
                code="PlaceNotFree",
            ) from problem
    fail_point("remedy.place.announced")


def _copy(way: PlaceChange, wanted: str | None, say: Callable[[str], object]) -> None:
    manifest = read_manifest(way.origin)
    if wanted is not None and manifest.digest != wanted:
        raise copy_differs(str(way.origin), wanted, manifest)
    done, told = 0, 0
    for name, (size, sha) in manifest.files.items():
        copy_verified(way.origin / name, way.scratch / name, size, sha)
        done += size
        if manifest.size >= _TOLD_FROM and done * 10 // manifest.size > told:
            told = done * 10 // manifest.size
            say(f"  {told * 10} % of {size_text(manifest.size)} copied")
        fail_point("remedy.place.after_file")
    folders = [path for path in sorted(way.origin.rglob("*")) if path.is_dir()]
    for path in folders:
        (way.scratch / path.relative_to(way.origin)).mkdir(parents=True, exist_ok=True)
    sync_folders(way.scratch)
    for path in [*reversed(folders), way.origin]:
        # Last: whatever is put into a folder makes it younger, and one younger than its files looks as if something
        # had been taken from it.
        copy = way.scratch / path.relative_to(way.origin)
        belong_alike(path, copy)
        keep_time(path, copy)
    found = read_manifest(way.scratch)
    if found.digest != manifest.digest:
        raise copy_differs(str(way.scratch), manifest.digest, found)
    write_marker(complete_marker(way.scratch), manifest.digest)
    fail_point("remedy.place.copied")


def _put_aside(way: PlaceChange, promised: str, check: Callable[[], object]) -> None:
    if not way.aside.is_dir():
        check()
        way.aside.parent.mkdir(parents=True, exist_ok=True)
        put_up(way.aside, way.gone, instead=True)
        fail_point("remedy.place.before_exchange")
        if not exchange(way.origin, way.aside):
            way.aside.unlink()
            way.origin.rename(way.aside)
        fail_point("remedy.place.put_aside")
    if not way.origin.exists() and not way.origin.is_symlink():
        put_up(way.origin, way.gone)
    sync(way.origin.parent)
    found = read_manifest(way.aside)
    if found.digest != promised:
        # A batch was written between the copy and this moment; the stream keeps it.
        back = exchange(way.aside, way.origin)
        if back:
            way.aside.unlink(missing_ok=True)
            _forget_scratch(way)
        raise _written_meanwhile(way, back=back)
    write_marker(complete_marker(way.aside), promised)


def _place(way: PlaceChange, promised: str) -> None:
    if way.scratch.is_dir():
        found = read_manifest(way.scratch)
        if found.digest != promised:
            raise copy_differs(str(way.scratch), promised, found)
        fail_point("remedy.place.before_place")
        if not exchange(way.scratch, way.target):
            way.target.unlink()
            way.scratch.rename(way.target)
        fail_point("remedy.place.placed")
    sync(way.target.parent)
    found = read_manifest(way.target)
    if found.digest != promised:
        raise copy_differs(str(way.target), promised, found)


def _forget_scratch(way: PlaceChange) -> None:
    if way.scratch.is_dir():
        shutil.rmtree(way.scratch)
    way.scratch.unlink(missing_ok=True)
    complete_marker(way.scratch).unlink(missing_ok=True)
    _remove_empty(way.scratch.parent, way.scratch.parent.parent)


def _remove_empty(*folders: Path) -> None:
    """A link stays: somebody has put it there."""
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink() and not os.listdir(folder):  # noqa: PTH208
            folder.rmdir()


def _written_meanwhile(way: PlaceChange, *, back: bool) -> Refused:
    place = way.origin if back else way.aside
    return Refused(
        f"somebody has written into {way.origin} while it was copied",
        meaning=f"A query still runs there. It is at {place}, whole, with what was written.",
        next=surestart("inspect", place),
        do_not="start it at another place while it runs.",
        code="CheckpointDiffers",
    )


# renameat2(2): both paths as they are, RENAME_EXCHANGE.
_HERE, _EXCHANGE = -100, 2
_NOT_OFFERED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV)


def exchange(one: Path, other: Path) -> bool:
    """What was at one is at the other. False, with nothing changed, where this system or file system has no such
    call."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
