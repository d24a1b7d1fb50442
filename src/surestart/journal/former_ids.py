"""Under which query ids a stage has written: each rewind gives its checkpoint another one, and its table keeps all."""

from __future__ import annotations

from collections.abc import Iterable

from surestart.journal.journal import DONE, Journal


def former_ids(journals: Iterable[Journal], stage: str, query_id: str) -> tuple[str, ...]:
    """The present id first, then the one that the checkpoint had before it was rewound, and so on."""
    former = {
        str(entry.facts["query_id"]): str(entry.facts["former"])
        for journal in journals
        for entry in journal.entries
        if entry.state == DONE and entry.step == f"rewind:{stage}" and entry.facts.get("query_id")
    }
    found = [query_id]
    while (one := former.get(found[-1])) and one not in found:
        found.append(one)
    return tuple(found)
