"""A page as a test reads it: parsed by a strict reader, the way a person sees it, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = frozenset({"meta", "input", "br", "link", "img"})


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, *names: str) -> Iterator[Element]:
        for child in self.children:
            if isinstance(child, Element):
                if not names or child.name in names:
                    yield child
                yield from child.all(*names)

    def by_id(self, name: str) -> Element:
        return next(element for element in self.all() if element.attributes.get("id") == name)

    def by_class(self, name: str) -> list[Element]:
        return [element for element in self.all() if name in element.attributes.get("class", "").split()]

    def rows(self) -> list[list[str]]:
        """The cells of a table's body."""
        body = next(self.all("tbody"))
        return [[cell.text for cell in row.all("td", "th")] for row in body.all("tr")]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("document", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {key: value or "" for key, value in attrs})
        self._open[-1].children.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if self._open[-1].name != tag:
            raise AssertionError(f"</{tag}> closes <{self._open[-1].name}>")
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment on the page: {data[:80]}")


def read_page(html: str) -> Element:
    """The page's elements; an element that is not closed in its place fails the test."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert [element.name for element in reader._open] == ["document"]
    return reader.root
