"""What a person asks of each store first: how much is in it, how it is spread, and how far one can go back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from surestart.facts.checkpoint.state_folder import StateOperator
from surestart.facts.checkpoint.state_operator import store_schema_text
from surestart.facts.checkpoint.store_versions import StoreVersions


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
