"""A remedy that stands half-way: no stage that it touches may start before it is finished or undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surestart.environment import Environment
from surestart.errors import Refused
from surestart.remedies.journal import FILLING, UNDOING, Journal, find_open, read_journals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODE = "REMEDY_UNFINISHED"


def refuse_half_way(environment: Environment, query: str, spark: SparkSession | None, options: str = "") -> None:
    journal = find_open(read_journals(environment, spark), query)
    if journal is not None:
        raise half_way(journal, query, environment, options)


def half_way(journal: Journal, query: str, environment: Environment, options: str = "") -> Refused:
    first, digest = journal.first, journal.digest[:12]
    verb = "undo" if journal.state == UNDOING else "apply"
    settings = f" -e {environment.name} {options}".rstrip()
    done = len(journal.undone if journal.state == UNDOING else journal.done)
    harm = (
        "New tables are being filled beside its own, to take their place; another remedy would change what they "
        "replace."
        if journal.state == FILLING
        else "Its output is partly cleared or its checkpoint partly moved: a start now would lose or double rows."
    )
    return Refused(
        f"{query} is in the middle of a {first.remedy} of {first.stage} (digest {digest}, {done} steps done, next: "
        f"{journal.last.next or 'its end'})",
        meaning=f"{harm} Nothing was started.",
        next=f"surestart {verb} {digest}{settings}" + ("" if verb == "undo" else "  # or: surestart undo " + digest),
        do_not="start the stage with plain Spark, or delete what is left of its checkpoint.",
        code=CODE,
    )
