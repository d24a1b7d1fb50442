"""A real browser, offline: what it logs, what it tries to load, what axe-core says of the page.

Where no Chromium is installed the tests skip and say what they did not check (`make test` installs Debian's where it
may).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def find_chromium() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip(
            "no chromium here: not checked are console errors, requests, axe-core, the theme switch, sorting, copying "
            "and hostile text in a real browser. Next: apt-get install chromium"
        )
    return found


@contextmanager
def running_browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no page was opened")
    path = find_chromium()
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class OpenPage:
    """said: console messages and errors; asked_for: what was requested besides the page itself."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked_for: list[str] = field(default_factory=list)


def open_page(browser: Any, path: Path, *, scheme: str = "light", width: int = 1100, for_axe: bool = False) -> OpenPage:
    # Only for axe-core, which is put into the page as a script: everything else runs under the page's own policy.
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=for_axe, offline=True
    )
    opened = OpenPage(context.new_page())
    opened.page.on("console", lambda message: opened.said.append(f"{message.type}: {message.text}"))
    opened.page.on("pageerror", lambda error: opened.said.append(f"error: {error}"))
    opened.page.on("dialog", lambda dialog: opened.said.append(f"dialog: {dialog.message}"))
    url = path.as_uri()
    opened.page.on("request", lambda request: opened.asked_for.append(request.url) if request.url != url else None)
    opened.page.goto(url)
    return opened


def serious_violations(opened: OpenPage) -> list[str]:
    """What axe-core calls serious or critical, with the first element of each."""
    from axe_playwright_python.sync_playwright import Axe

    opened.page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    found = Axe().run(opened.page).response["violations"]
    return [
        f"{one['id']} ({one['impact']}) {len(one['nodes'])} times: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
