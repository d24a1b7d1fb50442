"""The catalogue of codes as docs/codes.md has it: `surestart explain --codes` prints it."""

from __future__ import annotations

from surestart.words.codes import all_codes
from surestart.words.codes.code import Code

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
