"""An explained error as text for a person and as an object for a program."""

from __future__ import annotations

from typing import Any

from surestart.typed import surestart
from surestart.verdict.explain import Answer, Match
from surestart.verdict.explanations.explanation import Risk
from surestart.words.codes import all_codes
from surestart.words.codes.code import Code
from surestart.words.finding import labelled
from surestart.words.inert import inert

SCHEMA_VERSION = 1
_RISK = {Risk.NO: "No.", Risk.POSSIBLE: "Possibly.", Risk.YES: "Yes."}


def explanation_text(answer: Answer) -> str:
    if not answer.known:
        return _unknown(answer)
    lines: list[str] = []
    for match in answer.matches:
        if match.explanation.wrapper and lines:
            continue
        lines += [*_paragraph(match, cause=not lines), ""]
    carried = [match.explanation.name for match in answer.matches[1:] if match.explanation.wrapper]
    if carried:
        lines += labelled("Carried by", ", ".join(carried))
    for label, value in answer.facts:
        lines += labelled(f"The text's {label}", inert(value), gap=22)
    return "\n".join([*lines, *([""] if lines[-1] else []), f"Next: {answer.matches[0].next}"]) + "\n"


def _paragraph(match: Match, cause: bool) -> list[str]:
    """The command that follows from the cause is the last line of the screen, as on every other."""
    entry = match.explanation
    return [
        entry.name,
        *labelled("What happened", entry.happened),
        *labelled("Data at risk", f"{_RISK[entry.risk]} {entry.data}"),
        *(labelled("In this stage", inert(match.stage_says, 1000)) or labelled("Remedy", entry.remedy)),
        *([] if cause else labelled("Next", str(match.next), keep_lines=True)),
        *labelled("Do not", match.do_not or entry.do_not),
    ]


def _unknown(answer: Answer) -> str:
    lines = ["Not known here. Whether data is at risk cannot be told from this text.", ""]
    if answer.nearest:
        lines += labelled("Nearest", ", ".join(answer.nearest))
    lines += labelled("Do not", "delete the checkpoint, whatever the message says.")
    lines += ["", f"Next: {surestart('doctor')}"]
    return "\n".join(lines) + "\n"


def explanation_object(answer: Answer) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "known": answer.known,
        "matches": [
            {
                "name": match.explanation.name,
                "found": inert(match.found),
                "carries_another": match.explanation.wrapper,
                "happened": match.explanation.happened,
                "data_at_risk": match.explanation.risk.value,
                "data": match.explanation.data,
                "remedy": match.explanation.remedy,
                "next": str(match.next),
                "do_not": match.do_not or match.explanation.do_not,
                **({"in_this_stage": inert(match.stage_says, 1000)} if match.stage_says else {}),
            }
            for match in answer.matches
        ],
        "nearest": list(answer.nearest),
        "facts": {label.replace(" ", "_"): inert(value) for label, value in answer.facts},
    }


_HEAD = """\
# Codes

Every code that surestart prints, as `surestart explain --codes` lists them: the page is made from the catalogue in
`src/surestart/words/codes/`, and a test holds the catalogue to the code. `surestart explain CODE` says what one means
for the data. A finding has its section in [findings.md](findings.md).

"""


def codes_text() -> str:
    codes = sorted(all_codes(), key=lambda code: (not code.finding, code.name))
    return _HEAD + "\n".join(
        [
            *_table("Findings", "what the doctor, `inspect` and the gate find", [one for one in codes if one.finding]),
            *_table("Errors", "what a call ends with", [one for one in codes if not one.finding]),
        ]
    )


def _table(title: str, what: str, codes: list[Code]) -> list[str]:
    lines = [
        f"## {title}: {what}",
        "",
        f"| code | {'severity' if codes[0].finding else 'kind'} | says |",
        "|---|---|---|",
    ]
    for code in codes:
        name = f"[{code.name}](findings.md#{code.name.lower()})" if code.finding else code.name
        lines.append(f"| {name} | {', '.join(code.kinds)} | {code.says} |")
    return [*lines, ""]
