"""The fleet's page in a real browser: nothing is said, nothing asked for, each link leads to its stream."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.cli.main import main
from tests.checkpoint.checkpoint_maker import make_checkpoint
from tests.report.browser import open_page, running_browser, serious_violations


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fleet")
    for name in ("orders", "clicks", "<img src=x onerror=alert(1)>"):
        make_checkpoint(root / "root" / name, query_id=str(uuid.uuid4()))
    (root / "root/clicks/offsets/4").write_text("v1")
    main(["inspect", "--all", str(root / "root"), "--html", str(root / "fleet.html")])
    return root / "fleet.html"


def test_it_is_silent_and_axe_finds_nothing_serious(browser: Any, page: Path) -> None:
    opened = open_page(browser, page)
    assert opened.said == []
    assert opened.asked_for == []
    assert serious_violations(open_page(browser, page, for_axe=True)) == []


def test_each_row_leads_to_its_section(browser: Any, page: Path) -> None:
    shown = open_page(browser, page).page
    links = shown.locator("#streams a")
    assert links.count() == 3
    for index in range(3):
        name = links.nth(index).inner_text()
        target = links.nth(index).get_attribute("href")
        assert shown.locator(f"{target} h2").inner_text().startswith(name)
    assert links.nth(0).inner_text() == "clicks"
