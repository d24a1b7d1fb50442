"""How a MERGE merged, as far as its commit says: Delta writes the condition and the kinds of the clauses, not what an
update sets. So an insert of new keys is known to be harmless when it comes twice; an update may add to what is there.

    predicate              ["((id#725L = id#227L) AND (v#726L <=> v#228L))"]
    matchedPredicates      [{"actionType":"update"}]
    notMatchedPredicates   [{"actionType":"insert"}]
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from surestart.facts.delta import Commit

_EQUAL = re.compile(r"\(?\(*([\w.`]+?)#\d+L? (?:=|<=>) ([\w.`]+?)#\d+L?\)*")


def merge_keys(commits: Sequence[Commit]) -> tuple[str, ...]:
    """The columns by which all of these MERGEs matched rows, where each condition is nothing but equal columns."""
    found = {_keys(commit) for commit in commits}
    return found.pop() if len(found) == 1 else ()


def only_inserts(commits: Sequence[Commit]) -> tuple[str, ...]:
    """The keys, where every one of these commits is a MERGE that inserts rows of keys that are not there and does
    nothing else; but for the first, which may have made the table."""
    merges = [commit for commit in commits if commit.operation == "MERGE"]
    rest = [commit for commit in commits if commit.operation != "MERGE"]
    if not merges or len(rest) > 1 or (rest and rest[0].version != 0):
        return ()
    if any(_clauses(commit) != ("insert",) for commit in merges):
        return ()
    return merge_keys(merges)


def _keys(commit: Commit) -> tuple[str, ...]:
    if commit.operation != "MERGE":
        return ()
    try:
        (condition,) = json.loads(commit.parameters.get("predicate", ""))
    except (ValueError, TypeError):
        return ()
    names = []
    for part in str(condition).split(" AND "):
        equal = _EQUAL.fullmatch(part.strip())
        if equal is None or equal[1] != equal[2]:
            return ()
        names.append(equal[1])
    return tuple(names)


def _clauses(commit: Commit) -> tuple[str, ...]:
    kinds = []
    for name in ("matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates"):
        try:
            clauses = json.loads(commit.parameters.get(name, "[]"))
            kinds += [str(clause["actionType"]) for clause in clauses]
        except (ValueError, TypeError, KeyError):
            return ("unknown",)
    return tuple(kinds)
