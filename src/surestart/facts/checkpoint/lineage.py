"""Of which files a version of RocksDB's state is made, in checkpoint format 2.

commits/11 names the id of version 12; 12_<id>.changelog begins with the ids of those before it, back to a snapshot:

    writeUTF("v3" or "v4")   writeUTF([{"version":11,"checkpointUniqueId":"…"},…])

A version may be there several times, of attempts that were given up: whether those are whole does not matter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from surestart.facts.checkpoint.log_file import Torn


def read_lineage(pieces: Iterator[bytes]) -> dict[int, str]:
    """Version -> id of those since the snapshot, as a changelog of format 2 names them; none of another one."""
    data = b""
    while len(data) < 6 or len(data) < 6 + int.from_bytes(data[4:6], "big"):
        piece = next(pieces, b"")
        if not piece:
            break
        data += piece
    if data[:4] not in (b"\x00\x02v3", b"\x00\x02v4"):
        return {}
    try:
        said = json.loads(data[6 : 6 + int.from_bytes(data[4:6], "big")])
        return {int(item["version"]): str(item["checkpointUniqueId"]) for item in said}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Torn(f"it does not name the versions before its own ({str(error)[:60]})") from error


def find_base(version: int, own: str, lineage: Mapping[int, str], names: Mapping[str, str]) -> tuple[str, str]:
    """The snapshot that the version of this id begins with, "" for none, and what is not there of what it is made of.

    names: of the files, by themselves in lower case."""
    named = f"{version}_{own}"
    for number in range(version, 0, -1):
        one = own if number == version else lineage.get(number, "").lower()
        if f"{number}_{one}.zip" in names:
            return names[f"{number}_{one}.zip"], ""
        if f"{number}_{one}.changelog" not in names:
            return "", f"version {number} with the id that {named}.changelog names"
    return "", ""
