"""Which versions of one store of one partition there are, and which of them a start could load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HDFS = "hdfs"
ROCKSDB = "rocksdb"


@dataclass(frozen=True)
class StoreVersions:
    """One store of one partition.

    full: versions with a snapshot.
    steps: a delta or changelog.
    ids: their uuids.
    broken: snapshots that a start would choose and cannot load, and why.
    rows: a version and how many rows it has, where the snapshot that a start begins with says it."""

    full: frozenset[int] = frozenset()
    steps: frozenset[int] = frozenset()
    ids: Mapping[int, frozenset[str]] = field(default_factory=dict)
    broken: Mapping[int, str] = field(default_factory=dict)
    files: int = 0
    size: int = 0
    rows: tuple[int, int] | None = None

    def loadable(self) -> frozenset[int]:
        """The versions for which `missing_for` finds nothing missing."""
        found, before, whole = set(), 0, True
        for version in sorted(self.full | self.steps):
            follows = whole and version == before + 1
            whole = version not in self.broken if version in self.full else follows
            if whole:
                found.add(version)
            before = version
        return frozenset(found)

    @property
    def latest(self) -> int | None:
        return max(self.full | self.steps, default=None)

    @property
    def oldest(self) -> int | None:
        return min(self.full | self.steps, default=None)

    def missing_for(self, version: int, provider: str) -> str:
        """What a restart that loads `version` would not find, or ""."""
        base = max((number for number in self.full if number <= version), default=0)
        if base in self.broken:
            # The newest snapshot is the one that is loaded: an older one that is whole does not help.
            return self.broken[base]
        if version == 0 or version in self.full:
            return ""
        if provider == ROCKSDB and not self.steps:
            return f"snapshot {version}.zip"
        gap = next((number for number in range(base + 1, version + 1) if number not in self.steps), None)
        return "" if gap is None else f"version {gap}"
