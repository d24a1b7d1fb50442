"""Every checkpoint under a root, found by listings alone: one for each folder that is looked into.

/root/orders          metadata offsets commits …     a checkpoint; what Spark made in it is not looked into
/root/orders/old      metadata offsets …             another one inside it: found, and said to lie there
/root/tables/t        _delta_log day=1 day=2 …       a table: its log and its partitions are passed over
/root/tables/t/_ck    metadata offsets commits …     found
/root/tables/t/ck=a   metadata offsets commits …     found, where so few have that name that they may be no partitions
/root/tables/i        metadata/*.metadata.json       an Iceberg table
/root/_retired        what remedies keep or make beside a checkpoint, and _moving, _rewind: no streams, passed over
/root/link            a link                         not followed: what it leads to has a place of its own, or is
                                                     outside the root, which is said
/proc                 what the kernel makes up       passed over: nobody keeps a file there
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from surestart.facts.checkpoint.log_file import FormatError, parse_object
from surestart.facts.checkpoint.log_folder import is_batch_name
from surestart.facts.storage.kernel_folders import kernel_folders
from surestart.facts.storage.storage import FILE, FOLDER, OTHER, FolderEntry, Storage

# At some 0.1 ms a listing on a local disk, and 30 ms over a network: ten minutes of either.
LISTINGS_LOCAL, LISTINGS_REMOTE = 2_000_000, 20_000
DEPTH = 64
# Names of one folder: Spark keeps a checkpoint far below that, and a root of so many streams is not one root.
NAMES = 2_000_000
# A table with so few folders of one name before the "=" has each looked at, and not below it: one may be a checkpoint.
FEW = 3
# Links of one folder that are named one by one; more are counted.
LINKS = 20
_LOGS = ("offsets", "commits")
_KEPT = ("sources", "state")
_OWN = frozenset({"metadata", *_LOGS, *_KEPT, "receivers", "__tmp_path_dir"})
_OUTPUT = frozenset({"_delta_log", "_spark_metadata"})
_OF_REMEDIES = frozenset({"_retired", "_moving", "_rewind"})
DELTA, FILE_SINK, ICEBERG = "delta", "files", "iceberg"
_PARTITION = re.compile(r"[^=]+=")
_METADATA_BYTES = 64 << 10


@dataclass(frozen=True)
class FoundPlace:
    """path: below the root, "" for the root itself.
    problem: why it was not looked into; "": a checkpoint is there.
    inside: the checkpoint in whose folder it lies, None where it lies in none.
    table: of which kind, where a table is what was found."""

    path: str
    problem: str = ""
    inside: str | None = None
    table: str = ""


def find_checkpoints(
    storage: Storage,
    *,
    listings: int | None = None,
    tables: bool = False,
    heard: Callable[[], object] = lambda: None,
) -> Iterator[FoundPlace]:
    """In the order of their names; with `tables`, tables as well. A folder that could not be looked into is among
    them: nothing is left out unsaid. heard: called before each listing. Raises OSError for a root that cannot be
    listed."""
    local = storage.kind == "local"
    left = listings or (LISTINGS_LOCAL if local else LISTINGS_REMOTE)
    made_up = kernel_folders(storage.location) if local else {}
    if "" in made_up:
        yield FoundPlace("", f"the kernel makes up what is here ({made_up['']}): nobody keeps a checkpoint in it")
        return
    waiting: list[tuple[str, str | None, int, bool]] = [("", None, 0, False)]
    while waiting:
        path, inside, depth, may_be_partition = waiting.pop()
        if left == 0:
            yield FoundPlace(
                path, f"{len(waiting) + 1:,} folders were not looked into: the limit of listings is reached"
            )
            return
        left -= 1
        heard()
        try:
            found = _list(storage, path)
            table = _table_in(storage, path, found) if tables else ""
        except OSError as error:
            if not path:
                raise
            yield FoundPlace(path, f"{type(error).__name__}: {error}", inside)
            continue
        is_one = _is_checkpoint(storage, path, found)
        if may_be_partition and not is_one:
            continue
        if table:
            yield FoundPlace(path, inside=inside, table=table)
        if is_one:
            yield FoundPlace(path, inside=inside)
            inside = path
        links = sorted(_links_out(found))
        for name in links[:LINKS]:
            yield FoundPlace(_join(path, name), "a link that leads out of the root, or to nothing", inside)
        if len(links) > LINKS:
            yield FoundPlace(path, f"{len(links) - LINKS:,} more links lead out of the root, or to nothing", inside)
        below = [one for one in _worth_a_look(found, is_one, table) if _join(path, one[0]) not in made_up]
        below.sort(reverse=True)
        if below and depth == DEPTH:
            yield FoundPlace(path, f"more than {DEPTH} folders deep: what is below was not searched", inside)
        else:
            waiting += [(_join(path, name), inside, depth + 1, partition) for name, partition in below]


def _list(storage: Storage, path: str) -> dict[str, FolderEntry]:
    found: dict[str, FolderEntry] = {}
    for entry in storage.list_folder(path):
        # Of files only the name decides, and only these: a table may have a million of them.
        if entry.kind != FILE or entry.name in _OWN:
            found[entry.name] = entry
        if len(found) > NAMES:
            raise OSError(f"more than {NAMES:,} folders in one")
    return found


def _table_in(storage: Storage, path: str, found: dict[str, FolderEntry]) -> str:
    """The kind of the table that lies there, by what only such a table has; "" for none."""
    folders = {name for name, entry in found.items() if entry.kind == FOLDER}
    if not _OUTPUT.isdisjoint(folders):
        return DELTA if "_delta_log" in folders else FILE_SINK
    if "metadata" in folders:
        inner = storage.list_folder(_join(path, "metadata"))
        if any(entry.name.endswith(".metadata.json") and entry.kind == FILE for entry in inner):
            return ICEBERG
    return ""


def _is_checkpoint(storage: Storage, path: str, found: dict[str, FolderEntry]) -> bool:
    marks = [name for name in (*_LOGS, *_KEPT) if name in found and found[name].kind != FILE]
    metadata = found.get("metadata")
    if metadata is not None and metadata.kind != FOLDER:
        return bool(marks) or (metadata.kind == FILE and _names_a_query(storage, _join(path, "metadata")))
    if all(name in marks for name in _LOGS):
        return True
    # Part of one, whose rest somebody has deleted; folders of other things have these names too.
    return any(_holds_numbers(storage, _join(path, name)) for name in marks)


def _names_a_query(storage: Storage, path: str) -> bool:
    """Also where it cannot be read: whoever judges it says so."""
    try:
        data = storage.read_file(path, _METADATA_BYTES)
        return not data.strip(b"\x00 \n") or isinstance(parse_object(data.decode("utf-8", "replace"), path)["id"], str)
    except OSError:
        return True
    except (FormatError, KeyError):
        return False


def _holds_numbers(storage: Storage, path: str) -> bool:
    try:
        names = [entry.name for entry in storage.list_folder(path) if not entry.name.startswith((".", "_"))]
    except OSError:
        return True
    return bool(names) and all(is_batch_name(name) for name in names)


def _links_out(found: dict[str, FolderEntry]) -> Iterator[str]:
    return (entry.name for entry in found.values() if entry.kind == OTHER and entry.link)


def _worth_a_look(found: dict[str, FolderEntry], is_one: bool, table: str) -> Iterator[tuple[str, bool]]:
    """Names of folders, and whether each may be a partition."""
    of_output = bool(table) or not _OUTPUT.isdisjoint(found)
    columns = Counter(name.partition("=")[0] for name in found) if of_output else Counter[str]()
    for entry in found.values():
        own = table == ICEBERG and entry.name in ("metadata", "data")
        own = own or (is_one and (entry.name in _OWN or entry.name.startswith("_schema_log_")))
        partition = of_output and _PARTITION.match(entry.name) is not None
        own = own or entry.name in _OF_REMEDIES or (partition and columns[entry.name.partition("=")[0]] > FEW)
        if entry.kind == FOLDER and not (own or entry.link or entry.name in _OUTPUT):
            yield entry.name, partition


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


_MARK = "surestart: "
# Whatever else stands there is not read to its end.
_LIMIT = 1 << 16


@dataclass(frozen=True)
class Signpost:
    """place: where the checkpoint is.
    query_id: whose.
    digest: of the move that has put it up.
    coming: the checkpoint is on its way to where the file stands."""

    place: str
    query_id: str
    digest: str
    coming: bool = False

    @property
    def says(self) -> str:
        return f"is on its way to here from {self.place}" if self.coming else f"was moved to {self.place}"

    def as_text(self) -> str:
        said = (
            "The checkpoint of a stream is on its way to this place. It is still at"
            if self.coming
            else "The checkpoint of a stream was here. Since it was moved, the stream goes on at"
        )
        return (
            f"{said}\n\n    {self.place}\n\n"
            "A query that is started here fails, so that it does not begin anew beside that one.\n"
            f"{_MARK}{json.dumps(asdict(self), sort_keys=True)}\n"
        )


def read_signpost(path: Path) -> Signpost | None:
    """None where something else is there, or nothing."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            text = file.read(_LIMIT).decode("utf-8", errors="replace")
        found = json.loads(text.rpartition(_MARK)[2])
        return Signpost(str(found["place"]), str(found["query_id"]), str(found["digest"]), bool(found["coming"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
