"""A plan on a screen of 80 columns: what, to which tables, what is lost, the steps, the way back, the next command."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from surestart.remedies.basis.plan import REMOVE_ROWS, Effect, Plan
from surestart.typed import NextStep
from surestart.words.amounts import size_text
from surestart.words.inert import inert

WIDTH = 80


def render_plan(plan: Plan, next_command: NextStep | str = "") -> str:
    return "\n".join(_lines(plan, next_command)) + "\n"


def _lines(plan: Plan, next_command: NextStep | str) -> Iterator[str]:
    how = "" if plan.method == "none" else f", {plan.method}"
    yield f"{plan.remedy} of {inert(plan.target, 60)}{how}"
    yield f"digest {plan.digest[:12]}"
    yield ""
    for statement in plan.statements:
        yield from _wrapped(statement, "  ")
    if plan.loss:
        yield from _wrapped(f"LOST FOR EVER: {plan.loss:,} rows, accepted when this was planned.", "  ")
    yield ""
    if plan.effects:
        yield f"  {'what':<34} {'':<14} {'rows':>9} {'files':>6} {'size':>10}"
        for effect in plan.effects:
            yield _effect(effect)
        yield ""
    if plan.steps:
        for number, step in enumerate(plan.steps, 1):
            yield from _wrapped(step.what, f"  {number:>2}. ", "      ")
        yield ""
    else:
        yield "  There is nothing to do."
        yield ""
    if plan.undo:
        yield from _wrapped(f"Undo: {plan.undo}.", "")
    elif plan.steps:
        yield "Undo: not offered."
    if next_command:
        yield f"Next: {next_command}"


def _effect(effect: Effect) -> str:
    name = inert(effect.target, 200)
    shown = name if len(name) <= 34 else "…" + name[-33:]
    rows = "?" if effect.rows is None and effect.action == REMOVE_ROWS else _number(effect.rows)
    return f"  {shown:<34} {effect.action:<14} {rows:>9} {_number(effect.files):>6} {_size(effect.size):>10}".rstrip()


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _size(value: int | None) -> str:
    return "" if value is None else size_text(value)


def _wrapped(text: str, first: str, rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        inert(text, 2000), WIDTH, initial_indent=first, subsequent_indent=first if rest is None else rest
    )
