"""The frame of every page: one file without network, font or picture from elsewhere, light and dark, inert.

The page's content policy allows exactly its own style sheet and its own script, by hash. So even markup that slipped
past the escaping could neither run, nor load anything, nor change how the page looks.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files

from surestart.report.html.markup import Child, Markup, safe_text, tag, trusted


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
