"""The page in headless Chromium: silent, offline, accessible in light and dark, usable by keyboard, inert."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surestart.report.html.page import Page, render, render_page
from surestart.report.html.report import CheckpointReport
from surestart.report.progress_history import read_progress
from surestart.typed import surestart
from surestart.verdict.inspection import inspect_checkpoint
from tests.report.browser import open_page, running_browser, serious_violations
from tests.report.checkpoints import FIRST_MINUTE, make_busy, make_hostile, make_runs, make_table, progress_of

SCHEMES = {"light": (255, 255, 255), "dark": (13, 17, 23)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight batches, the last one in flight, a sink that is ahead, durations: every chart and every sign."""
    folder = tmp_path_factory.mktemp("pages")
    root = make_busy(folder / "sensor-raw-ingest", batches=8)
    inspection = inspect_checkpoint(str(root), sinks=(str(make_table(folder / "table", 9)),))
    page = folder / "usual.html"
    progress = read_progress([progress_of(batch, 5 * batch) for batch in range(2, 7)])
    report = CheckpointReport(
        "raw-ingest", inspection, inspection.sink_evidence, progress=progress, runs=tuple(make_runs())
    )
    page.write_text(
        render_page(Page("sensor · local, raw-ingest", (report,), FIRST_MINUTE, surestart("plan", "replay")))
    )
    return page


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    page = folder / "hostile.html"
    page.write_text(render(inspect_checkpoint(str(make_hostile(folder / "<img src=x onerror=window.hacked=1>")))))
    return page


def first_pixel(png: bytes) -> tuple[int, int, int]:
    """Colour of the upper left pixel: the first row of a PNG has no row above it that a filter could refer to."""
    at, data = 8, b""
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += 12 + size
    row = zlib.decompressobj().decompress(data, 4)
    return row[1], row[2], row[3]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_opens_silently_asks_for_nothing_and_wears_the_systems_colours(browser, usual: Path, scheme: str) -> None:
    opened = open_page(browser, usual, scheme=scheme)

    assert opened.said == []
    assert opened.asked_for == []
    assert first_pixel(opened.page.screenshot(full_page=True)) == SCHEMES[scheme]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_serious(browser, usual: Path, scheme: str) -> None:
    assert serious_violations(open_page(browser, usual, scheme=scheme, for_axe=True)) == []


def test_axe_would_find_something_if_it_were_there(browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><html><title>x</title><body><p style='color:#999;background:#fff'>pale</p></body>")

    found = serious_violations(open_page(browser, bad, for_axe=True))
    assert {one.split(" ")[0] for one in found} == {"html-has-lang", "color-contrast"}


@pytest.mark.parametrize(("system", "choice"), [("light", "Dark"), ("dark", "Light")])
def test_the_colours_can_be_switched_by_keyboard(browser, usual: Path, system: str, choice: str) -> None:
    opened = open_page(browser, usual, scheme=system)
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.textContent") == "Skip to the verdict"
    opened.page.keyboard.press("Tab")
    while not opened.page.get_by_role("radio", name=choice).is_checked():
        opened.page.keyboard.press("ArrowRight")

    assert first_pixel(opened.page.screenshot()) == SCHEMES[choice.lower()]


def test_focus_can_be_seen(browser, usual: Path) -> None:
    page = open_page(browser, usual).page
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")

    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2


def test_a_command_is_copied_exactly(browser, usual: Path) -> None:
    page = open_page(browser, usual).page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    command = page.locator("pre.command").first.inner_text()
    page.get_by_role("button", name="Copy command").first.click()
    page.get_by_role("button", name="Copied command").first.wait_for()

    assert command.startswith("surestart ")
    assert page.evaluate("navigator.clipboard.readText()") == command


def test_a_table_is_sorted_by_keyboard_numbers_as_numbers(browser, usual: Path) -> None:
    page = open_page(browser, usual).page
    lag = page.locator("#s0-source-0-table thead th").last
    for direction, expected in (("ascending", "20"), ("descending", "120")):
        lag.get_by_role("button").focus()
        page.keyboard.press("Enter")
        assert lag.get_attribute("aria-sort") == direction
        assert page.locator("#s0-source-0-table tbody tr").first.locator("td").last.inner_text() == expected


def test_nothing_is_wider_than_a_phone(browser, usual: Path, hostile: Path) -> None:
    for path in (usual, hostile):
        page = open_page(browser, path, width=360).page
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_on_paper_every_table_is_there_and_the_ground_is_white(browser, usual: Path) -> None:
    page = open_page(browser, usual, scheme="dark").page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("#s0-batches-table tbody tr").first.is_visible()
    assert not page.locator(".themes").is_visible()


def test_hostile_text_runs_nothing_loads_nothing_and_hides_nothing(browser, hostile: Path) -> None:
    opened = open_page(browser, hostile)

    assert opened.said == []
    assert opened.asked_for == []
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("h1").is_visible()
    assert opened.page.locator("img").count() == 0


def test_the_content_policy_stops_what_escaping_would_have_let_through(browser, usual: Path) -> None:
    """As if the escaping had failed: markup inside the page neither runs, nor loads, nor restyles."""
    broken = usual.with_name("broken.html")
    html = usual.read_text()
    attack = (
        "<script>window.hacked=1</script><img src='https://198.51.100.1/x.png' onerror='window.hacked=1'>"
        "<style>body{display:none}</style><p style='color:red'>x</p>"
    )
    broken.write_text(html.replace("<footer>", attack + "<footer>"))
    opened = open_page(browser, broken)

    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("h1").is_visible()
    refused = [said for said in opened.said if "Content Security Policy" in said]
    assert len(refused) >= 4
