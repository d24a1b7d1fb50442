"""Streams that surestart.toml declares beside the stages, and that read a table out of which a plan takes rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment, Table
from surestart.history.checkpoint_place import checkpoint_place
from surestart.remedies.basis.plan import Plan
from surestart.streams.stream import Stream

_TAKES_ROWS = ("remove rows", "replace rows")


def name_readers(plan: Plan, environment: Environment, streams: Sequence[Stream]) -> Plan:
    """The same plan, which also says which of these streams its change stops. Nobody can tell their code to pass over
    it, as a stage does."""
    lines = []
    for effect in plan.effects:
        # A database or a sink of one's own is a kind with a name behind it.
        if effect.action not in _TAKES_ROWS or " " in effect.target:
            continue
        table = environment.table(effect.target)
        names = [one.name for one in streams if any(_reads(source, table) for source in one.sources)]
        if names:
            lines.append(
                f"{', '.join(names)}, declared in surestart.toml, {'reads' if len(names) == 1 else 'read'} "
                f"{effect.target}: what is taken back has been read there or will be, and the stream stops at the "
                "change. Retire it before, and let it begin anew behind the change."
            )
    return replace(plan, statements=(*plan.statements, *lines)) if lines else plan


def _reads(source: SourceDeclaration, table: Table) -> bool:
    if source.kind != "delta":
        return False
    if table.path and source.path:
        return checkpoint_place(source.path) == checkpoint_place(table.path)
    return bool(table.qualified) and source.target == table.qualified
