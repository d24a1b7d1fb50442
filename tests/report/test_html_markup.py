"""The page's builder: what is not markup by construction is text, and what a page must not hold cannot be built."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestart.report.html.markup import Markup, join_markup, lines, safe_text, tag, trusted
from tests.report.pages import read_page


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_comes_back_as_text_and_as_an_attribute_value(content: str, value: str) -> None:
    page = read_page(str(tag("p", {"title": value}, content, safe_text(content), [content])))

    (element,) = list(page.all())
    assert element.name == "p"
    assert list(element.attributes) == ["title"]
    if content.isascii() and content.isprintable():
        assert element.text == content * 3
    if value.isascii() and value.isprintable():
        assert element.attributes["title"] == value


def test_text_is_cut_before_it_is_escaped() -> None:
    assert str(safe_text("<" * 50, 3)) == "&lt;&lt;…"


def test_line_breaks_stay_where_they_are_meant() -> None:
    assert str(lines("{\n  <a>\x1b\n}")) == "{\n  &lt;a&gt;\\x1b\n}"


def test_a_string_cannot_be_declared_markup() -> None:
    with pytest.raises(TypeError, match="becomes text by itself"):
        Markup("<script>")


@pytest.mark.parametrize("name", ["a b", "p>", "", "img/onerror", "1"])
def test_an_element_has_a_plain_name(name: str) -> None:
    with pytest.raises(ValueError, match="no element name"):
        tag(name)


@pytest.mark.parametrize("key", ["onclick", "style", "x y", "a=b", ""])
def test_handlers_and_inline_styles_cannot_be_written(key: str) -> None:
    with pytest.raises(ValueError, match="no attribute"):
        tag("p", {key: "x"})


def test_an_inlined_file_cannot_end_its_own_element() -> None:
    with pytest.raises(ValueError, match="'</'"):
        trusted("a = '</script><img>'")


def test_absent_attributes_are_left_out() -> None:
    assert (
        str(join_markup(tag("td", {"class": None, "hidden": False, "open": True, "x": 0}, None)))
        == '<td open x="0"></td>'
    )
