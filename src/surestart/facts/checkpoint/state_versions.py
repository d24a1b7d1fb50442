"""Whether the state that the next batch loads is there: batch B loads version B of every store of every partition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from surestart.declaration import StageDeclaration
from surestart.facts.checkpoint.batch_logs import CommitLogEntry
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.checkpoint.state_folder import StateOperator
from surestart.facts.checkpoint.state_operator import keeps_one_partition, store_schema_text
from surestart.facts.checkpoint.store_files import ROCKSDB, StoreVersions


@dataclass(frozen=True)
class MissingState:
    """unclear: whether the query keeps state at all cannot be told."""

    detail: str
    path: str
    folder_missing: bool = False
    unclear: bool = False


def find_missing_state(
    checkpoint: Checkpoint, batch: int, declaration: StageDeclaration | None = None
) -> MissingState | None:
    """The first piece of state that a start at `batch` would not find; None for a stateless query or complete state."""
    state = checkpoint.state
    # Each start of a stateful query reads it and compares the code's columns with it, before the first row (4.1.4).
    if torn := next((one.torn_schema for one in state.operators if one.torn_schema is not None), None):
        return MissingState(f"{torn.path}: {torn.detail}", torn.path)
    if batch == 0 or state.sampled:
        return None
    commit = checkpoint.commits.get(batch - 1)
    ids = commit.state_ids if isinstance(commit, CommitLogEntry) else None
    stateful = bool(ids) or bool(declaration and declaration.state)
    if not state.operators:
        if stateful:
            return MissingState(
                f"the query is stateful and state/ holds nothing; batch {batch} loads version {batch}", "state", True
            )
        # A query without state makes no such folder, and one with state leaves it no moment empty (3.5 to 4.2).
        return MissingState("state/ is there and holds no operator", "state", True, True) if state.exists else None
    if gone := sorted((ids or {}).keys() - {operator.id for operator in state.operators}):
        path = f"state/{gone[0]}"
        return MissingState(f"commits/{batch - 1} names state of {path}, which is not there", path, True)
    for operator in state.operators:
        found = _missing_of_operator(checkpoint, operator, batch, None if ids is None else ids.get(operator.id, ()))
        if found:
            return found
    return None


def _missing_of_operator(
    checkpoint: Checkpoint, operator: StateOperator, batch: int, ids: tuple[tuple[str, ...], ...] | None
) -> MissingState | None:
    """ids: of each partition, those that the commit names; None where the commit was not read."""
    provider = checkpoint.state.provider or ""
    folder = f"state/{operator.id}"
    if not operator.stores:
        return MissingState(f"{folder} holds no state; batch {batch} loads version {batch}", folder, True)
    present = {partition for partition, _ in operator.stores}
    for partition in range(expected_partitions(checkpoint, operator) or operator.partitions):
        if partition not in present:
            return MissingState(f"{folder}/{partition} is missing or empty", f"{folder}/{partition}", True)
        for store in operator.store_names:
            versions = operator.stores.get((partition, store))
            path = f"{folder}/{partition}" if store == "default" else f"{folder}/{partition}/{store}"
            if versions is None:
                if (partition, "default") in operator.stores or len(operator.store_names) == 1:
                    continue
                return MissingState(f"{path} is missing", path, True)
            if checkpoint.state.format_v2:
                named = None if ids is None else ids[partition] if partition < len(ids) else ()
                lacking = _missing_v2(versions, batch, named)
            else:
                lacking = versions.missing_for(batch, provider)
            if lacking:
                return MissingState(f"{path} lacks {lacking}, and batch {batch} loads version {batch}", path)
    return None


def expected_partitions(checkpoint: Checkpoint, operator: StateOperator) -> int | None:
    """How many partitions the operator has: as it says itself (Spark 4.0 and newer), else as many as are pinned.

    None: only partition 0 is there, and whether it ever had another cannot be told. A global aggregation and a limit
    keep one partition whatever is pinned or declared; their keys are empty or void. (Seen on 3.5.9: with partition 1 of
    2 deleted the folder looks whole, and the start fails.)
    """
    if operator.declared_partitions is not None:
        return operator.partitions
    pinned = checkpoint.confs.get("spark.sql.shuffle.partitions", "")
    if not re.fullmatch(r"\d{1,6}", pinned) or int(pinned) <= operator.partitions:
        return operator.partitions
    if operator.partitions > 1 or not operator.schema:
        return int(pinned) if operator.partitions > 1 else None
    return 1 if any(keeps_one_partition(found) for found in operator.schemas.values()) else int(pinned)


def _missing_v2(versions: StoreVersions, batch: int, ids: tuple[str, ...] | None) -> str:
    """Format v2: the files of a version carry the id that commits/<version - 1> names. Where it names none, Spark looks
    for files without one."""
    present = versions.ids.get(batch, frozenset())
    if not present:
        return f"version {batch}"
    if ids is None:
        return versions.missing_for(batch, ROCKSDB)
    if not ids:
        return f"version {batch} without an id, as commits/{batch - 1} names none"
    if not any(store_id.lower() in present for store_id in ids):
        return f"version {batch} with the id that commits/{batch - 1} names"
    known = [versions.lacks[batch, one.lower()] for one in ids if (batch, one.lower()) in versions.lacks]
    return known[0] if known else versions.missing_for(batch, ROCKSDB)


@dataclass(frozen=True)
class StoreSummary:
    """One store of an operator, over its partitions.

    rows: where the files say it, as of the versions rows_at (the oldest and the newest of the partitions); None else.
    largest: the partition with the most bytes, and those.
    loadable: versions that are there in every partition, by their names.
    snapshot: the newest version that every partition has a snapshot of, or one before it has."""

    store: str
    partitions: int
    size: int
    largest: tuple[int, int]
    loadable: tuple[int, ...]
    snapshot: int | None
    schema: str
    rows: int | None = None
    rows_at: tuple[int, int] | None = None

    @property
    def skew(self) -> float | None:
        """How many times as large as the mean the largest partition is."""
        return self.largest[1] * self.partitions / self.size if self.size else None


def summarise(operator: StateOperator) -> tuple[StoreSummary, ...]:
    by_store: dict[str, dict[int, StoreVersions]] = {}
    for (partition, store), versions in operator.stores.items():
        by_store.setdefault(store, {})[partition] = versions
    return tuple(_summary(operator, store, found) for store, found in sorted(by_store.items()))


def _summary(operator: StateOperator, store: str, partitions: Mapping[int, StoreVersions]) -> StoreSummary:
    sizes = {partition: versions.size for partition, versions in partitions.items()}
    largest = max(sizes, key=lambda partition: (sizes[partition], -partition))
    whole = len(partitions) >= operator.partitions
    kept = [versions.loadable() for versions in partitions.values()] if whole else [frozenset()]
    newest = [max(versions.full, default=None) for versions in partitions.values()]
    counted = [versions.rows for versions in partitions.values()]
    known = whole and all(rows is not None for rows in counted)
    at = [rows[0] for rows in counted if rows is not None]
    return StoreSummary(
        store=store,
        partitions=len(partitions),
        size=sum(sizes.values()),
        largest=(largest, sizes[largest]),
        loadable=tuple(sorted(frozenset.intersection(*kept))),
        snapshot=min((number for number in newest if number is not None), default=None) if None not in newest else None,
        schema=store_schema_text(operator.schemas.get(store, ())),
        rows=sum(rows[1] for rows in counted if rows is not None) if known else None,
        rows_at=(min(at), max(at)) if known else None,
    )


def ranges_text(numbers: tuple[int, ...]) -> str:
    """Such as "3 to 7, 9": at most four of them."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    said = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    return ", ".join(said if len(said) <= 4 else [*said[:2], "…", *said[-2:]])
