"""Folders that a kernel makes up: /proc has as many as the machine has threads, and keeps no file of anybody's."""

from __future__ import annotations

import os
import re

# What Linux mounts for its own use. A tmpfs, a FUSE mount and overlayfs hold files.
_SYSTEMS = (
    *("bpf", "configfs", "debugfs", "devpts", "mqueue", "nsfs", "proc", "sysfs", "tracefs"),
    *("binfmt_misc", "cgroup", "cgroup2", "efivarfs", "fusectl", "pstore", "rpc_pipefs", "securityfs", "selinuxfs"),
)
_MOUNTS = "/proc/self/mountinfo"


def kernel_folders(root: str) -> dict[str, str]:
    """Path below the root -> the kernel's name for what is mounted there; "" is the root, where it lies in one."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123  pathlib costs 8 ms.
            mounts = dict(_read_mount(line) for line in file)
    except (OSError, IndexError):
        # No Linux, or none that says: every folder is searched.
        return {}
    real = os.path.realpath(root)
    found: dict[str, str] = {}
    for place, system in mounts.items():
        below = place if real == "/" else place.removeprefix(real)
        if system in _SYSTEMS and below.startswith("/") and (real == "/" or below != place):
            found[below.lstrip("/")] = system
    own = max((place for place in mounts if f"{real}/".startswith(f"{place.rstrip('/')}/")), key=len, default="")
    return {**found, "": mounts[own]} if mounts.get(own) in _SYSTEMS else found


def _read_mount(line: str) -> tuple[str, str]:
    """`22 27 0:21 / /proc rw,relatime - proc proc rw`, with spaces and such as octal numbers."""
    fields, _, system = line.partition(" - ")
    place = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields.split()[4])
    return place, system.split()[0]
