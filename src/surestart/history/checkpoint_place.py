"""One form for every spelling of a checkpoint path, so that two queries on one folder are seen.

/data/ck/q/    /data//ck/q    file:///data/ck/q    /link-to-data/ck/q     ->  /data/ck/q
dbfs:/Volumes/Main/sensor/v/q    /Volumes/main/sensor/v/q                 ->  /Volumes/main/sensor/v/q
dbfs:/ck/q    /dbfs/ck/q                                                  ->  dbfs:/ck/q
s3a://Bucket/q    s3://bucket/q                                           ->  s3://bucket/q
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}


def checkpoint_place(path: str) -> str:
    """The canonical form. Links are followed where this machine sees them."""
    scheme, _, rest = path.partition(":") if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path) else ("", "", path)
    scheme = _SCHEMES.get(scheme.lower(), scheme.lower())
    if scheme == "file":
        scheme, rest = "", unquote(rest)
    if scheme == "dbfs" and re.match(r"/+Volumes/", rest):
        scheme = ""
    if scheme and scheme != "dbfs":
        host, _, inner = rest.lstrip("/").partition("/")
        return f"{scheme}://{host.lower()}/{_clean(inner)}".rstrip("/")
    plain = "/" + _clean(rest)
    if not scheme and plain.startswith("/dbfs/") and not plain.startswith("/dbfs/Volumes/"):
        return f"dbfs:{plain.removeprefix('/dbfs')}"
    if scheme == "dbfs":
        return f"dbfs:{plain}"
    plain = plain.removeprefix("/dbfs") if plain.startswith("/dbfs/Volumes/") else plain
    if plain.startswith("/Volumes/"):
        # Names of catalogs, schemas and volumes do not differ by case; folders in a volume do.
        parts = plain.split("/")
        return "/".join([*parts[:2], *(part.lower() for part in parts[2:5]), *parts[5:]])
    return _own_case(os.path.realpath(plain))


def _clean(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _own_case(path: str) -> str:
    """On a disk that ignores case, the names as the disk has them; elsewhere a name that is there is its own."""
    parts = path.split("/")
    for index in range(1, len(parts)):
        folder = "/".join(parts[:index]) or "/"
        here = "/".join(parts[: index + 1])
        swapped = f"{folder.rstrip('/')}/{parts[index].swapcase()}"
        if parts[index].swapcase() == parts[index] or not os.path.exists(here):  # noqa: PTH110
            continue
        if os.path.exists(swapped) and os.path.samefile(here, swapped):  # noqa: PTH110, PTH121
            parts[index] = next(name for name in os.listdir(folder) if name.lower() == parts[index].lower())  # noqa: PTH208
    return "/".join(parts)
