"""Every file that a version is made of, read to its end: which versions are whole in every partition.

A `.zip` names its files with their sizes, `.name.crc` is Hadoop's checksum on a local disk, and `name.crc` is Spark's
own (4.1 and newer), of which the size is compared. Deltas, snapshots and changelogs are unpacked, block by block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from surestart.facts.checkpoint.log_file import VERSION, FormatError, Torn, crc_disagrees, crc_path
from surestart.facts.checkpoint.open_file import open_state_file, unpacked
from surestart.facts.checkpoint.state_folder import StateOperator
from surestart.facts.checkpoint.state_operator import DEFAULT_STORE
from surestart.facts.checkpoint.state_records import read_changelog, read_records
from surestart.facts.checkpoint.state_versions import StoreSummary, summarise
from surestart.facts.checkpoint.store_files import FOLDERS, SNAPSHOT_LIMIT, lacks, read_notes
from surestart.facts.checkpoint.store_folder import STATE_FILE, size_disagrees
from surestart.facts.storage.storage import FILE, FOLDER, Storage

# Read at once, to hold it against its checksum; a larger file is unpacked piece by piece, and its blocks are checked.
CRC_BYTES = 64 << 20


@dataclass
class CheckedStores:
    """stores: as `summarise` says them, without the versions that a damaged file takes away.
    damaged: path and why.
    unknown: files of a form that is not read here."""

    stores: tuple[StoreSummary, ...] = ()
    damaged: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    files: int = 0


def check_files(storage: Storage, operator: StateOperator) -> CheckedStores:
    checked = CheckedStores()
    whole = {}
    for (partition, store), versions in operator.stores.items():
        folder = f"state/{operator.id}/{partition}" + ("" if store == DEFAULT_STORE else f"/{store}")
        broken, lost = dict(versions.broken), set()
        for name, why in _damaged(storage, folder, checked):
            checked.damaged.append((f"{folder}/{name}", why))
            match = STATE_FILE.fullmatch(name)
            if match and match[3] in ("snapshot", "zip"):
                broken[int(match[1])] = why
            elif match:
                lost.add(int(match[1]))
        whole[partition, store] = replace(versions, broken=broken, steps=versions.steps - lost)
    checked.stores = summarise(replace(operator, stores=whole))
    return checked


def _damaged(storage: Storage, folder: str, checked: CheckedStores) -> Iterator[tuple[str, str]]:
    listed = list(storage.list_folder(folder))
    sizes = {entry.name: entry.size or 0 for entry in listed if entry.kind == FILE}
    below: dict[str, int] = {}
    for entry in listed:
        if entry.kind == FOLDER and entry.name in FOLDERS:
            inner = storage.list_folder(f"{folder}/{entry.name}")
            below |= {f"{entry.name}/{one.name}": one.size or 0 for one in inner if one.kind == FILE}
    read: dict[str, str] = {}
    for name in sorted(sizes):
        if not STATE_FILE.fullmatch(name):
            continue
        checked.files += 1
        try:
            why = _why_damaged(storage, f"{folder}/{name}", name, sizes, below, read)
        except (FormatError, OSError) as error:
            if isinstance(error, FormatError) and error.kind == VERSION:
                checked.unknown.append((f"{folder}/{name}", str(error)))
                continue
            why = str(error)
        if why:
            yield name, why


def _why_damaged(
    storage: Storage, path: str, name: str, sizes: Mapping[str, int], below: Mapping[str, int], read: dict[str, str]
) -> str:
    size = sizes[name]
    if size == 0:
        return "it has 0 bytes"
    if why := _by_checksum(storage, path, name, sizes):
        return why
    if name.endswith(".zip"):
        if size > SNAPSHOT_LIMIT:
            return f"it has {size:,} bytes, and Spark's have some kB"
        named = read_notes(storage, storage.read_file(path, size + 1), path).files
        return lacks(named, below) or _rows_differ(storage, path.rpartition("/")[0], named, below, read)
    records = read_changelog if name.endswith(".changelog") else read_records
    with storage.open_file(path) as file:
        for _ in records(unpacked(file)):
            continue
    return ""


def _rows_differ(
    storage: Storage, folder: str, named: Mapping[str, int], below: Mapping[str, int], read: dict[str, str]
) -> str:
    """The first file of rows that is not what Hadoop's checksum was made for. read: what was found of each, because
    several snapshots share one."""
    for one in named:
        if one not in read and crc_path(one) in below:
            read[one] = ""
            try:
                with open_state_file(storage, f"{folder}/{one}") as file:
                    while file.read(CRC_BYTES):
                        continue
            except Torn as error:
                read[one] = f"{one}: {error}"
    return next((read[one] for one in named if read.get(one)), "")


def _by_checksum(storage: Storage, path: str, name: str, sizes: Mapping[str, int]) -> str:
    size = sizes[name]
    if f"{name}.crc" in sizes and (why := size_disagrees(storage, path, size)):
        return why
    if storage.checks_crc and f".{name}.crc" in sizes and size <= CRC_BYTES:
        folder, _, _ = path.rpartition("/")
        return crc_disagrees(storage.read_file(path, size + 1), storage.read_file(f"{folder}/.{name}.crc", 1 << 20))
    return ""
