"""Whether the state that the next batch loads is there: batch B loads version B of every store of every partition."""

from __future__ import annotations

import re
from dataclasses import dataclass

from surestart.declaration import StageDeclaration
from surestart.facts.checkpoint.batch_logs import CommitLogEntry
from surestart.facts.checkpoint.snapshot import Checkpoint
from surestart.facts.checkpoint.state_folder import StateOperator
from surestart.facts.checkpoint.state_operator import keeps_one_partition
from surestart.facts.checkpoint.store_versions import ROCKSDB, StoreVersions


@dataclass(frozen=True)
class MissingState:
    detail: str
    path: str
    folder_missing: bool = False


def find_missing_state(
    checkpoint: Checkpoint, batch: int, declaration: StageDeclaration | None = None
) -> MissingState | None:
    """The first piece of state that a start at `batch` would not find; None for a stateless query or complete state."""
    state = checkpoint.state
    if batch == 0 or state.sampled:
        return None
    commit = checkpoint.commits.get(batch - 1)
    ids = commit.state_ids if isinstance(commit, CommitLogEntry) else {}
    stateful = bool(ids) or bool(declaration and declaration.state)
    if not state.operators:
        if stateful:
            return MissingState(
                f"the query is stateful and state/ holds nothing; batch {batch} loads version {batch}", "state", True
            )
        return None
    for operator in state.operators:
        found = _missing_of_operator(checkpoint, operator, batch, ids.get(operator.id, ()))
        if found:
            return found
    return None


def _missing_of_operator(
    checkpoint: Checkpoint, operator: StateOperator, batch: int, ids: tuple[tuple[str, ...], ...]
) -> MissingState | None:
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
                lacking = _missing_v2(versions, batch, ids[partition] if partition < len(ids) else ())
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


def _missing_v2(versions: StoreVersions, batch: int, ids: tuple[str, ...]) -> str:
    """Format v2: the files of a version carry the id that commits/<version - 1> names."""
    present = versions.ids.get(batch, frozenset())
    if not present:
        return f"version {batch}"
    if ids and not any(store_id.lower() in present for store_id in ids):
        return f"version {batch} with the id that commits/{batch - 1} names"
    return versions.missing_for(batch, ROCKSDB)
