"""The doctor's answer as one self-contained page: the table of all stages, then each stage's own page inside it.

Each stage's page is the one that `inspect --html` writes, in a frame without scripts' access to the rest (srcdoc), so
that one checkpoint's hostile text stays inside its frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from surestart.diagnosis.diagnose import Diagnosis
from surestart.diagnosis.finding import Verdict
from surestart.diagnosis.time_text import time_text
from surestart.environment import Environment
from surestart.report.inert import inert
from surestart.report.stage_table import next_command, verdict_of_all, worst_finding

_WORDS = {
    Verdict.SAFE: "Safe: every stage may start.",
    Verdict.ATTENTION: "Attention: read the findings, then start.",
    Verdict.CANNOT_TELL: "Cannot tell: evidence is missing; do not start yet.",
    Verdict.UNSAFE: "Unsafe: do not start; a start would lose or double rows, or fail.",
}


def render_stages_html(environment: Environment, diagnoses: Sequence[Diagnosis], options: str = "") -> str:
    title = escape(f"{environment.pipeline} · {environment.name}")
    rows = "".join(_row(diagnosis) for diagnosis in diagnoses)
    frames = "".join(_frame(diagnosis) for diagnosis in diagnoses)
    asked = escape(time_text(diagnoses[0].asked_at)) if diagnoses else ""
    command = escape(next_command(environment, worst_finding(diagnoses), options))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: surestart doctor</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="verdict">{escape(_WORDS[verdict_of_all(diagnoses)])}</p>
<p>Next: <code>{command}</code></p>
<table>
<caption>Stages, asked at {asked}</caption>
<thead><tr><th scope="col">Stage</th><th scope="col">Verdict</th><th scope="col">Next start</th>
<th scope="col">Sinks</th></tr></thead>
<tbody>{rows}</tbody>
</table>
{frames}
</main>
</body>
</html>
"""


def _row(diagnosis: Diagnosis) -> str:
    sinks = "; ".join(f"{answer.acceptance.value}: {answer.detail}" for answer in diagnosis.sinks)
    cells = [
        diagnosis.verdict.value,
        f"Spark {diagnosis.start.spark} {diagnosis.start.sentence}",
        sinks or "no sink declared",
    ]
    data = "".join(f"<td>{escape(inert(cell, 400))}</td>" for cell in cells)
    return f'<tr><th scope="row"><a href="#{escape(diagnosis.stage)}">{escape(diagnosis.stage)}</a></th>{data}</tr>'


def _frame(diagnosis: Diagnosis) -> str:
    from surestart.report.html import render

    name = escape(diagnosis.stage)
    page = escape(render(diagnosis.inspection), quote=True)
    return (
        f'<section id="{name}"><h2>{name}</h2>'
        f'<iframe title="Stage {name}" sandbox="allow-same-origin" srcdoc="{page}"></iframe></section>'
    )


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; color: #1b1b1b; background: #fff; }
main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
.verdict { font-size: 1.25rem; font-weight: 600; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; padding: .5rem 0; }
th, td { border: 1px solid #767676; padding: .4rem .6rem; text-align: left; vertical-align: top; }
iframe { width: 100%; height: 60rem; border: 1px solid #767676; }
a { color: #0b57d0; }
@media (prefers-color-scheme: dark) {
  body { color: #f1f1f1; background: #181818; }
  a { color: #9ec3ff; }
}
"""
