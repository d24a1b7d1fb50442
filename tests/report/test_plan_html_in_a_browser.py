"""A plan's page in headless Chromium: silent, offline, accessible in light and dark, no wider than a phone, inert."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.journal.journal import FINISHED
from surestart.report.html.plan import render_plan_html
from tests.report.browser import open_page, running_browser, serious_violations
from tests.report.plans import (
    make_certificate,
    make_hostile_certificate,
    make_hostile_plan,
    make_journal,
    make_plan,
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, plan, evil = tmp_path_factory.mktemp("plans"), make_plan(loss=1_200), make_hostile_plan()
    written = {
        "plan": render_plan_html(plan, "surestart apply plan.json"),
        "applied": render_plan_html(plan, journal=make_journal(plan, FINISHED, make_certificate(lost=3))),
        "hostile": render_plan_html(evil, "x", make_journal(evil, FINISHED)),
        "hostile-proof": render_plan_html(plan, journal=make_journal(plan, FINISHED, make_hostile_certificate())),
    }
    for name, html in written.items():
        (folder / f"{name}.html").write_text(html)
    return {name: folder / f"{name}.html" for name in written}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["plan", "applied"])
def test_axe_finds_nothing_serious(browser, pages: dict[str, Path], name: str, scheme: str) -> None:
    assert serious_violations(open_page(browser, pages[name], scheme=scheme, for_axe=True)) == []


@pytest.mark.parametrize("name", ["plan", "applied", "hostile", "hostile-proof"])
def test_it_is_silent_asks_for_nothing_and_fits_a_phone(browser, pages: dict[str, Path], name: str) -> None:
    opened = open_page(browser, pages[name], width=360)

    assert opened.said == []
    assert opened.asked_for == []
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("h1").is_visible()
    assert opened.page.locator("img").count() == 0
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 360
