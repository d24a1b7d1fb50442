"""A plan as one self-contained page, and after it was applied the same page with its journal and its proof.

state in words > the proof, once there is one > what is lost > what it means > effects > steps > undo > raw JSON

Names of tables, paths and statements come out of a plan file that anybody may have written: text, never markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from surestart.journal.journal import BEGUN, DONE, FILLING, FINISHED, RELEASED, UNDOING, UNDONE, WITHDRAWN, Journal
from surestart.remedies.basis.plan import REMOVE_ROWS, Effect, Plan, Step
from surestart.report.html.certificate import certificate_section, certificate_word
from surestart.report.html.findings import command
from surestart.report.html.markup import (
    BUDGET,
    KINDS,
    TIERS,
    Child,
    Limits,
    Markup,
    icon,
    join_markup,
    json_text,
    safe_text,
    signed_word,
    table,
    tag,
)
from surestart.report.html.page import document
from surestart.typed import NextStep
from surestart.words.amounts import time_text

CERTIFY = "certify"


def render_plan_html(
    plan: Plan, next_command: NextStep | str = "", journal: Journal | None = None, hint: str = ""
) -> str:
    """The page, below the budget whatever the plan holds: what does not fit is left out and said to be.

    next_command: what to run, or to paste, next. hint: what to do next, where it is no command.
    """
    next_step = [hint or "Next", command(next_command) if next_command else ""]
    for limits in TIERS:
        html = _document(plan, next_step if hint or next_command else [], journal, limits)
        if len(html.encode()) <= BUDGET:
            return html
    return html


def describe_state(plan: Plan, journal: Journal | None) -> tuple[str, str]:
    """What has become of the plan, in words, and the kind of sign that goes with it."""
    if journal is None and plan.kind.changes_nothing:
        return f"There is nothing to do; a start would be {plan.verdict}", KINDS.get(plan.verdict, "unknown")
    if journal is None:
        kind = "bad" if plan.loss else "look" if plan.steps else "note"
        return ("A plan: nothing was changed yet" if plan.steps else "There is nothing to do"), kind
    assert journal is not None
    certificate = read_proof(journal)
    said = {
        FILLING: ("New tables are being filled beside; the stages may run", "look"),
        BEGUN: ("Half-way: no stage that it touches may start", "bad"),
        RELEASED: ("The stages may start; what was planned after that is not done", "look"),
        FINISHED: ("Applied; no rows were counted", "look"),
        UNDOING: ("Half-way through its undo: no stage that it touches may start", "bad"),
        WITHDRAWN: ("Applied, and undone", "note"),
    }
    if plan.kind.adds_only:
        said |= {
            BEGUN: ("Half-way; the stages may run", "look"),
            UNDOING: ("Half-way through its withdrawal; the stages may run", "look"),
            WITHDRAWN: ("Withdrawn; rows that it had written stay", "note"),
        }
    if journal.state == FINISHED and certificate:
        return f"Applied, and counted: {certificate_word(certificate)[0]}", certificate_word(certificate)[1]
    return said.get(journal.state, (journal.state, "unknown"))


def read_proof(journal: Journal | None) -> Mapping[str, Any]:
    """The certificate that was counted when the remedy ended; empty where none was, or where it was undone since."""
    return journal.facts(CERTIFY) if journal is not None and journal.state in (RELEASED, FINISHED) else {}


def _document(plan: Plan, next_step: Sequence[Child], journal: Journal | None, limits: Limits) -> str:
    state, kind = describe_state(plan, journal)
    name = f"{plan.remedy} of {plan.target}"
    certificate = read_proof(journal)
    sections: list[tuple[str, str, Callable[[], Child]]] = [
        # What the plan says of losses must not read as what was found.
        ("lost", "What the plan said is lost" if certificate else "What is lost", lambda: _lost(plan)),
        ("meaning", "What it means", lambda: _statements(plan, limits)),
        ("effects", "What it changes", lambda: _effects(plan.effects, limits)),
        ("steps", "Steps", lambda: _steps(plan.steps, journal, limits)),
        ("undo", "Undo", lambda: _undo(plan, journal, limits)),
        ("raw", "The plan itself", lambda: _raw(plan, limits)),
    ]
    if certificate:
        sections.insert(0, ("proof", "Proof", lambda: certificate_section(certificate, limits)))
    links = [tag("li", None, tag("a", {"href": f"#{where}"}, title)) for where, title, _ in sections]
    return document(
        f"{state}: {name}",
        safe_text(name, 200),
        join_markup(
            tag(
                "section",
                {"class": f"verdict {kind}", "aria-labelledby": "verdict"},
                tag("h1", {"id": "verdict"}, icon(kind), state),
                tag(
                    "p",
                    None,
                    safe_text(name, 300),
                    "" if plan.method == "none" else f", {plan.method}",
                    ".",
                    _loss(plan),
                ),
                join_markup(tag("p", {"class": "next"}, next_step[0]), next_step[1]) if next_step else None,
            ),
            _facts(plan, limits),
            tag("nav", {"aria-label": "On this page"}, tag("ul", None, links)),
            [_section(where, title, build()) for where, title, build in sections],
        ),
        skip="Skip to the plan",
        footer="Written by surestart. Times are UTC.",
    )


def _section(where: str, title: str, content: Child) -> Markup:
    return tag(
        "section",
        {"id": where, "aria-labelledby": f"{where}-title"},
        tag("h2", {"id": f"{where}-title"}, title),
        content,
    )


def _facts(plan: Plan, limits: Limits) -> Markup:
    place = plan.environment
    tables = place.get("root") or f"{place.get('catalog')}.{place.get('schema')}"
    facts = [
        ("Digest", plan.digest),
        ("Remedy", plan.remedy),
        ("Target", plan.target),
        ("Made", time_text(plan.created_at)),
        ("Stages it touches", ", ".join(plan.touched) or "none"),
        ("Tables in", tables),
        ("Checkpoints in", str(place.get("checkpoint_root", ""))),
    ]
    if plan.settings:
        facts.append(("Settings", ", ".join(f"{key}={value}" for key, value in sorted(plan.settings.items()))))
    items = [
        tag("div", None, tag("dt", None, name), tag("dd", None, safe_text(said, limits.text))) for name, said in facts
    ]
    return tag("dl", {"class": "facts"}, items)


def _loss(plan: Plan) -> str:
    return f" {plan.loss:,} rows are lost for ever by it." if plan.loss else ""


def _lost(plan: Plan) -> Markup:
    """In words first; the statements below say why."""
    removes = any(effect.action == REMOVE_ROWS for effect in plan.effects)
    if plan.loss:
        said = signed_word(f"{plan.loss:,} rows are lost for ever", "bad")
        return tag("p", None, said, ". Nothing can bring them back. That was accepted when this was planned.")
    if not removes:
        return tag("p", None, signed_word("Nothing is removed", "good"), " from any table, so nothing is lost.")
    if plan.kind.ends_query:
        said = signed_word("What is removed does not come again", "look")
        return tag("p", None, said, " by itself: only the undo brings it back, as long as that is possible.")
    return tag("p", None, signed_word("Nothing is lost", "good"), ": what is removed comes again from the source.")


def _statements(plan: Plan, limits: Limits) -> Markup:
    shown = plan.statements[: limits.rows]
    more = len(plan.statements) - len(shown)
    return join_markup(
        tag("ul", None, [tag("li", None, safe_text(one, 2 * limits.text)) for one in shown]),
        tag("p", {"class": "note"}, f"{more:,} more are in the plan.") if more else None,
    )


def _effects(effects: Sequence[Effect], limits: Limits) -> Markup:
    if not effects:
        return tag("p", None, "It touches nothing.")
    rows: list[Sequence[Child]] = [
        [
            effect.target,
            effect.action,
            _count(effect.rows, unknown=effect.action == REMOVE_ROWS),
            _count(effect.files),
            _count(effect.size),
        ]
        for effect in effects
    ]
    return table(
        "Tables, databases and checkpoints, as they were when this was planned",
        ["What", "What happens", "Rows", "Files", "Bytes"],
        rows,
        table_id="effects-table",
        numbers=(2, 3, 4),
        limit=limits.rows,
        text_limit=limits.text,
        left_out="effects",
    )


def _count(value: int | None, unknown: bool = False) -> Child:
    """The count as text. None where no count applies; a count that was wanted and is not known says so."""
    return f"{value:,}" if value is not None else tag("span", {"class": "unknown"}, "not known") if unknown else ""


def _steps(steps: Sequence[Step], journal: Journal | None, limits: Limits) -> Markup:
    if not steps:
        return tag("p", None, "None: nothing is to be done.")
    columns = ["Step", "What is done"]
    rows: list[list[Child]] = [[f"{number}", step.what] for number, step in enumerate(steps, 1)]
    if journal is not None:
        columns.append("Journal")
        for row, step in zip(rows, steps, strict=True):
            row.append(_progress(step, journal))
    return table(
        "In this order; each is written down before and after, so that it can be interrupted anywhere",
        columns,
        rows,
        table_id="steps-table",
        numbers=(0,),
        limit=limits.rows,
        text_limit=limits.text,
        left_out="steps",
    )


def _progress(step: Step, journal: Journal) -> Markup:
    found = [entry for entry in journal.entries if entry.step == step.id and entry.state in (DONE, UNDONE)]
    if found:
        newest = found[-1]
        kind = "good" if newest.state == DONE else "note"
        return join_markup(signed_word(newest.state, kind), f" {time_text(newest.at)}")
    return signed_word("next", "look") if journal.last.next == step.id else signed_word("not done", "note")


def _undo(plan: Plan, journal: Journal | None, limits: Limits) -> Markup:
    if not plan.steps:
        return tag("p", None, "There is nothing to undo.")
    if not plan.undo:
        return tag("p", None, signed_word("Not offered", "look"), f" for a {plan.remedy}.")
    if journal is not None and journal.state == WITHDRAWN:
        return tag("p", None, f"Done {time_text(journal.last.at)}: checkpoints and tables are what they were before.")
    said = plan.undo[:1].upper() + plan.undo[1:]
    return tag("p", None, safe_text(said, 2 * limits.text), ".")


def _raw(plan: Plan, limits: Limits) -> Markup:
    if not limits.json:
        return tag("p", {"class": "note"}, "Left out to keep the page small: the plan's file has it.")
    return json_text("As one JSON object", plan.as_json(), limits, "the file has all")
