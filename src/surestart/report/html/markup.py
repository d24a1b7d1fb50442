"""HTML that is escaped unless it was built here: a plain string is text, only `Markup` is markup.

    tag("td", {"class": "number"}, "<b>")     <td class="number">&lt;b&gt;</td>

Topic names, paths and settings come out of a checkpoint that anybody may have written. There is no way in this module
to put such a string onto the page as markup, so that nobody has to remember to escape it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

from surestart.words.inert import inert

TEXT_LIMIT = 400
_VOID = frozenset({"meta", "input", "br", "link"})
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")


class Markup:
    """A piece of the page. Made by `tag`, `join_markup` and, for files of this package, `trusted`."""

    __slots__ = ("html",)

    def __init__(self, html: str, *, built_by_this_module: bool = False) -> None:
        if not built_by_this_module:
            raise TypeError("Markup is made by tag() and join(); a string becomes text by itself")
        self.html = html

    def __str__(self) -> str:
        return self.html

    def __len__(self) -> int:
        return len(self.html)


Child = Markup | str | int | float | None | Iterable["Child"]
Attributes = Mapping[str, str | int | float | bool | None]


def tag(name: str, attributes: Attributes | None = None, *children: Child) -> Markup:
    """One element. An attribute that is None or False is left out; True stands alone."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no element name")
    head = name + "".join(_attribute(key, value) for key, value in (attributes or {}).items())
    if name in _VOID:
        return Markup(f"<{head}>", built_by_this_module=True)
    return Markup(f"<{head}>{_content(children)}</{name}>", built_by_this_module=True)


def join_markup(*children: Child) -> Markup:
    return Markup(_content(children), built_by_this_module=True)


def safe_text(value: object, limit: int = TEXT_LIMIT) -> Markup:
    """Text of unknown origin on one line, at most `limit` characters, hidden characters as codes."""
    return Markup(escape(inert(value, limit), quote=False), built_by_this_module=True)


def lines(value: str) -> Markup:
    """Text with its line breaks, for text that was made inert before."""
    return Markup(
        "\n".join(escape(inert(line, 1 << 20), quote=False) for line in value.split("\n")), built_by_this_module=True
    )


def trusted(source: str) -> Markup:
    """A style sheet or script that is a file of this package. Never anything that was read elsewhere."""
    if "</" in source:
        raise ValueError("an inlined file must not hold '</': it would end the element it stands in")
    return Markup(source, built_by_this_module=True)


def _attribute(key: str, value: str | int | float | bool | None) -> str:
    if not _NAME.fullmatch(key) or key.lower().startswith("on") or key.lower() == "style":
        # The page's content policy forbids inline handlers and inline styles; so does this.
        raise ValueError(f"{key!r} is no attribute for this page")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {key}"
    return f' {key}="{escape(inert(value, 1 << 16), quote=True)}"'


def _content(children: Iterable[Child]) -> str:
    return "".join(_one(child) for child in children)


def _one(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child.html
    if isinstance(child, str | int | float):
        return safe_text(child).html
    return _content(child)
