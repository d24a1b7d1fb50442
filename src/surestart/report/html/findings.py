"""Findings on the page, worst first: what, meaning, next as a command to copy, do not. Notes are folded away."""

from __future__ import annotations

from collections.abc import Sequence

from surestart.report.html.markup import Child, Limits, Markup, icon, join_markup, safe_text, tag
from surestart.typed import NextStep
from surestart.words.finding import Finding, Severity
from surestart.words.inert import inert

COMMAND_LIMIT = 1_000
_ORDER = (Severity.UNSAFE, Severity.CANNOT_TELL, Severity.ATTENTION, Severity.INFO)


def findings_section(
    found: Sequence[tuple[str, Finding]], limits: Limits, all_with: NextStep, *, level: int = 2, name: str = "findings"
) -> Markup:
    """found: (stage or "", finding). all_with: the command that lists those that do not fit. level: of its heading."""
    ranked = [pair for severity in _ORDER for pair in found if pair[1].severity is severity]
    loud = [pair for pair in ranked if pair[1].severity is not Severity.INFO]
    notes = [pair for pair in ranked if pair[1].severity is Severity.INFO]
    shown, quiet = loud[: limits.findings], notes[: limits.findings]
    parts: list[Child] = [tag(f"h{level}", {"id": f"{name}-title"}, "Findings")]
    if not loud:
        parts.append(tag("p", None, "Nothing speaks against a start, as far as was asked."))
    parts += [_finding(stage, finding, limits, level + 1) for stage, finding in shown]
    if len(loud) > len(shown):
        parts.append(
            tag(
                "p",
                {"class": "note"},
                f"{len(loud) - len(shown):,} more findings not shown here: {all_with} lists them.",
            )
        )
    if notes:
        many = f"{len(notes):,} note{'s' if len(notes) != 1 else ''} without consequence"
        cut = (
            None
            if len(notes) == len(quiet)
            else tag("p", {"class": "note"}, f"{len(quiet)} shown: {all_with} lists all.")
        )
        parts.append(
            tag(
                "details",
                None,
                tag("summary", None, many),
                [_finding(stage, one, limits, level + 1) for stage, one in quiet],
                cut,
            )
        )
    return tag("section", {"id": name, "aria-labelledby": f"{name}-title"}, parts)


def command(value: NextStep | str) -> Markup:
    """A command, with a copy button only where what is shown is exactly what would be run."""
    line = str(value)
    shown = inert(line, COMMAND_LIMIT)
    if shown == line:
        return tag(
            "pre", {"class": "command", "data-copy": "command"}, tag("code", None, safe_text(shown, COMMAND_LIMIT))
        )
    return join_markup(
        tag("pre", {"class": "command"}, tag("code", None, safe_text(shown, COMMAND_LIMIT))),
        tag(
            "p",
            {"class": "note"},
            "This holds hidden characters, shown as codes, or is too long to show whole: it "
            "cannot be copied from here.",
        ),
    )


def _finding(stage: str, finding: Finding, limits: Limits, level: int) -> Markup:
    kind = {
        Severity.UNSAFE: "bad",
        Severity.CANNOT_TELL: "unknown",
        Severity.ATTENTION: "look",
        Severity.INFO: "note",
    }[finding.severity]
    what = finding.severity.value.capitalize() if finding.severity is not Severity.INFO else "Note"
    rows: list[Child] = [
        tag("dt", None, "What"),
        tag("dd", None, safe_text(finding.evidence, limits.text)),
        tag("dt", None, "Meaning"),
        tag("dd", None, safe_text(finding.meaning, limits.text)),
    ]
    if finding.next:
        rows += [tag("dt", None, "Next"), tag("dd", None, command(finding.next))]
    if finding.do_not:
        rows += [tag("dt", None, "Do not"), tag("dd", {"class": "do-not"}, safe_text(finding.do_not, limits.text))]
    where = f" in {stage}" if stage else None
    return tag(
        "article",
        {"class": f"finding {kind}"},
        tag(f"h{level}", None, icon(kind), f"{what}: ", tag("code", None, finding.code), where),
        tag("dl", None, rows),
    )
