"""A diagnosis as one self-contained page: no network, no font, no picture from elsewhere, readable from a mail.

verdict in words > what to do next > findings, worst first
per checkpoint: next start > batches > sources > state > sinks against commits > pinned settings > raw JSON

The frame of every page: one file without network, font or picture from elsewhere, light and dark, inert.

The page's content policy allows exactly its own style sheet and its own script, by hash. So even markup that slipped
past the escaping could neither run, nor load anything, nor change how the page looks."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from surestart.report.html.chart import patterns
from surestart.report.html.checkpoint import checkpoint_sections, summary_list
from surestart.report.html.findings import command, findings_section
from surestart.report.html.markup import (
    BUDGET,
    KINDS,
    TIERS,
    VERDICTS,
    Child,
    Limits,
    Markup,
    icon,
    join_markup,
    safe_text,
    signed_word,
    table,
    tag,
    trusted,
)
from surestart.report.html.report import CheckpointReport
from surestart.report.named_file import write_named_file
from surestart.report.progress_history import BatchFacts, of_query
from surestart.typed import NOTHING, NextStep, surestart
from surestart.verdict.inspection import Inspection
from surestart.words.amounts import time_text
from surestart.words.finding import Finding, Verdict, verdict_of

_ALL = surestart("inspect", "--json")


@dataclass(frozen=True)
class Page:
    """title: what the page is about.
    next: what to do next.
    all_with: lists what does not fit."""

    title: str
    reports: tuple[CheckpointReport, ...]
    asked_at: int
    next: NextStep = NOTHING
    all_with: NextStep = _ALL

    @property
    def verdict(self) -> Verdict:
        return verdict_of(finding for _, finding in self.findings)

    @property
    def findings(self) -> tuple[tuple[str, Finding], ...]:
        several = len(self.reports) > 1
        return tuple(
            (report.name if several else "", finding)
            for report in self.reports
            for finding in report.inspection.findings
        )


def render(
    inspection: Inspection, *, name: str = "", progress: Sequence[BatchFacts] = (), asked_at: int | None = None
) -> str:
    """The page of one checkpoint."""
    folder = inspection.checkpoint.location.rstrip("/").rpartition("/")[2]
    report = CheckpointReport(
        name or folder,
        inspection,
        sinks=inspection.sink_evidence,
        progress=of_query(progress, inspection.checkpoint.query_id),
    )
    return render_page(Page(f"Checkpoint {report.name}", (report,), _now(asked_at), _next(inspection.findings)))


def render_page(page: Page) -> str:
    """The page, below the budget whatever the checkpoint holds: what does not fit is left out and said to be."""
    for limits in TIERS:
        html = _document(page, limits)
        if len(html.encode()) <= BUDGET:
            return html
    return html


def write_page(path: str, html: str) -> None:
    """The page is at that path, whole; an older one there was replaced."""
    write_named_file(path, html, "the page", "The checkpoint was read, and nothing was changed.")


def _now(asked_at: int | None) -> int:
    return int(time.time() * 1000) if asked_at is None else asked_at


def _next(findings: Sequence[Finding]) -> NextStep:
    """The worst finding's command; findings come worst first."""
    return next((finding.next for finding in findings if finding.severity.value != "info"), NOTHING)


def _document(page: Page, limits: Limits) -> str:
    return document(
        f"{page.verdict.value.upper()}: {page.title}",
        join_markup(safe_text(page.title, 200), " · asked ", time_text(page.asked_at)),
        _main(page, limits),
        skip="Skip to the verdict",
        footer="Written by surestart. Nothing was changed by looking. Times are UTC.",
        patterns=patterns(),
    )


def _main(page: Page, limits: Limits) -> Markup:
    verdict = page.verdict
    kind = KINDS[verdict.value]
    parts: list[Child] = [
        tag(
            "section",
            {"class": f"verdict {kind}", "aria-labelledby": "verdict"},
            tag("h1", {"id": "verdict"}, icon(kind), VERDICTS[verdict]),
            _sentence(page, limits),
            join_markup(tag("p", {"class": "next"}, "Next"), command(page.next)) if page.next else None,
        ),
    ]
    parts.append(_stages(page, limits) if len(page.reports) > 1 else summary_list(page.reports[0], limits))
    parts += [_contents(page), findings_section(page.findings, limits, page.all_with)]
    for index, report in enumerate(page.reports):
        parts.append(_report(report, index, len(page.reports) > 1, limits))
    return join_markup(parts)


def _sentence(page: Page, limits: Limits) -> Markup:
    if len(page.reports) != 1:
        counts: dict[str, int] = {}
        for report in page.reports:
            counts[report.inspection.verdict.value] = counts.get(report.inspection.verdict.value, 0) + 1
        said = ", ".join(f"{count} {name}" for name, count in counts.items())
        return tag("p", None, f"{len(page.reports)} stages: {said}.")
    inspection = page.reports[0].inspection
    start = f"Spark {inspection.start.spark} {inspection.start.sentence}."
    if not inspection.sinks:
        return tag("p", None, safe_text(start, limits.text), " The sink was not asked.")
    sinks = "; ".join(f"{answer.sink.target} {answer.detail}" for answer in inspection.sinks)
    lead = (
        f" The sink {inspection.acceptance.value}: " if inspection.acceptance.value != "cannot tell" else " The sink: "
    )
    return tag("p", None, safe_text(start, limits.text), lead, safe_text(sinks, limits.text))


def _stages(page: Page, limits: Limits) -> Markup:
    rows: list[list[Child]] = []
    for index, report in enumerate(page.reports):
        inspection = report.inspection
        sinks = "; ".join(f"{answer.acceptance.value}: {answer.detail}" for answer in inspection.sinks) or "not asked"
        rows.append(
            [
                tag("a", {"href": f"#stage-{index}"}, report.name),
                signed_word(inspection.verdict.value),
                f"Spark {inspection.start.spark} {inspection.start.sentence}",
                sinks,
            ]
        )
    return table(
        "Stages, in the order in which rows pass them",
        ["Stage", "Verdict", "Next start", "Sinks"],
        rows,
        table_id="stages",
        limit=limits.rows,
        text_limit=limits.text,
    )


def _contents(page: Page) -> Markup:
    links = [("#findings", "Findings")]
    if len(page.reports) > 1:
        links += [(f"#stage-{index}", report.name) for index, report in enumerate(page.reports)]
    else:
        links += [(f"#s0-{name}", title) for name, title, _ in checkpoint_sections(page.reports[0])]
    items = [tag("li", None, tag("a", {"href": href}, safe_text(title, 60))) for href, title in links]
    return tag("nav", {"aria-label": "On this page"}, tag("ul", None, items))


def _report(report: CheckpointReport, index: int, several: bool, limits: Limits) -> Markup:
    prefix, level = f"s{index}-", 3 if several else 2
    parts: list[Child] = []
    if several:
        inspection = report.inspection
        parts += [
            tag("h2", {"id": f"stage-{index}"}, safe_text(report.name, 80), " ", signed_word(inspection.verdict.value)),
            summary_list(report, limits),
        ]
    for name, title, build in checkpoint_sections(report):
        own = f"{prefix}{name}"
        heading = tag(f"h{level}", {"id": f"{own}-title"}, title)
        parts.append(
            tag(
                "section", {"id": own, "aria-labelledby": f"{own}-title"}, heading, build(report, prefix, level, limits)
            )
        )
    return join_markup(parts)


def document(title: str, about: Child, main: Child, *, skip: str, footer: str, patterns: Markup | None = None) -> str:
    """about: one line above everything. skip: what the first link jumps to. patterns: hatches that charts refer to."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    policy += "; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        None,
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("meta", {"name": "referrer", "content": "no-referrer"}),
        tag("title", None, safe_text(title, 160)),
        tag("style", None, trusted(style)),
    )
    body = tag(
        "body",
        None,
        tag("a", {"class": "skip", "href": "#main"}, skip),
        patterns,
        tag("header", None, tag("p", {"class": "about"}, about), _themes()),
        tag("main", {"id": "main", "tabindex": "-1"}, main),
        tag("footer", None, tag("p", None, footer)),
        tag("div", {"id": "said", "class": "unseen", "aria-live": "polite"}),
        tag("script", None, trusted(script)),
    )
    return f"<!doctype html>\n{tag('html', {'lang': 'en'}, head, body)}\n"


def _themes() -> Markup:
    """Radio buttons that the style sheet reads, so that they work where scripts do not run."""
    choices = []
    for value, title in (("system", "As the system"), ("light", "Light"), ("dark", "Dark")):
        button: Mapping[str, str | bool] = {
            "type": "radio",
            "name": "theme",
            "id": f"theme-{value}",
            "value": value,
            "checked": value == "system",
        }
        choices.append(tag("label", {"for": f"theme-{value}"}, tag("input", button), title))
    return tag("fieldset", {"class": "themes"}, tag("legend", None, "Colours"), choices)


def _asset(name: str) -> str:
    return (files("surestart.report") / "html_assets" / name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
