"""A plan's page, read without a browser: its state in words first, losses before everything else, text never markup."""

from __future__ import annotations

import re
import unicodedata

import pytest

from surestart.journal.journal import BEGUN, FINISHED, WITHDRAWN
from surestart.remedies.basis.plan import Effect, Plan, Step
from surestart.report.html.markup import BUDGET
from surestart.report.html.plan import render_plan_html
from tests.report.checkpoints import HOSTILE
from tests.report.pages import Element, read_page
from tests.report.plans import (
    STEPS,
    make_certificate,
    make_hostile_certificate,
    make_hostile_plan,
    make_journal,
    make_plan,
)


def page_of(plan: Plan, *given: object, **more: object) -> Element:
    return read_page(render_plan_html(plan, *given, **more))  # type: ignore[arg-type]


def headline(page: Element) -> str:
    return next(page.all("h1")).text


def first_words(page: Element, section: str) -> str:
    return next(page.by_id(section).all("p")).text


def test_a_plan_says_that_nothing_was_changed_and_what_it_would_do() -> None:
    plan = make_plan()
    page = page_of(plan, "surestart apply plan.json")

    assert headline(page) == "A plan: nothing was changed yet"
    assert plan.digest in page.text
    assert "reset of local/sensor-raw-ingest, in-place." in page.text
    assert next(page.all("pre")).text == "surestart apply plan.json"
    assert page.by_id("effects-table").rows() == [
        ["sensor_raw", "remove rows", "3,500", "8", "120,000"],
        ["postgres gold", "remove rows", "not known", "", ""],
        ["/data/sensor/checkpoints/sensor-raw-ingest", "move aside", "", "22", "9,120"],
    ]
    assert [row[1] for row in page.by_id("steps-table").rows()] == [step.what for step in STEPS]
    assert "Possible until a VACUUM" in page.by_id("undo").text
    for statement in plan.statements:
        assert statement in page.by_id("meaning").text


KEEPS = (Effect("sensor_raw", "stays as it is", 3_500),)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"loss": 1_200}, "bad", "1,200 rows are lost for ever. Nothing can bring them back."),
        ({}, "look", "Nothing is lost: what is removed comes again from the source."),
        ({"remedy": "retire"}, "look", "What is removed does not come again by itself: only the undo"),
        ({"remedy": "retire", "effects": KEEPS}, "look", "Nothing is removed from any table, so nothing is lost."),
    ],
    ids=["lost", "comes again", "emptied", "stays"],
)
def test_what_is_lost_is_the_first_section_and_said_in_words(given: dict, kind: str, words: str) -> None:
    page = page_of(make_plan(**given))

    assert next(page.all("h2")).text == "What is lost"
    assert first_words(page, "lost").startswith(words)
    box = next(page.all("section"))
    assert kind in box.attributes["class"].split()
    assert ("1,200 rows are lost for ever by it." in box.text) == ("loss" in given)


@pytest.mark.parametrize(
    ("verdict", "kind"), [("safe", "good"), ("attention", "look"), ("cannot tell", "unknown"), ("unsafe", "bad")]
)
def test_a_resume_wears_the_verdict_of_the_start(verdict: str, kind: str) -> None:
    page = page_of(make_plan(remedy="resume", method="none", steps=(), effects=KEEPS, undo="", verdict=verdict))

    assert headline(page) == f"There is nothing to do; a start would be {verdict}"
    assert kind in next(page.all("section")).attributes["class"].split()
    assert first_words(page, "undo") == "There is nothing to undo."


@pytest.mark.parametrize(
    ("counts", "kind", "words"),
    [
        ({}, "good", "Applied, and counted: exact, lost 0, duplicated 0"),
        ({"lost": 3}, "bad", "Applied, and counted: not exact, lost 3, duplicated 0"),
        ({"undecided": 2}, "unknown", "Applied, and counted: cannot tell whether all rows are there"),
    ],
)
def test_an_applied_plan_wears_its_proof(counts: dict, kind: str, words: str) -> None:
    plan, certificate = make_plan(), make_certificate(**counts)
    page = page_of(plan, journal=make_journal(plan, FINISHED, certificate))

    assert headline(page) == words
    assert kind in next(page.all("section")).attributes["class"].split()
    assert [row[0] for row in page.by_id("counts-table").rows()] == [
        "raw-ingest, positions: landing to sensor_raw",
        "merge-gold, keys: readings to sensor_gold",
    ]
    assert [heading.text for heading in page.all("h2")][:2] == ["Proof", "What the plan said is lost"]
    # Of gold only the output was counted: what its input has is not known, and must not read as nothing.
    assert page.by_id("counts-table").rows()[1][1:4] == ["not known", "9", "9"]
    assert ("places-table" in render_plan_html(plan, journal=make_journal(plan, FINISHED, certificate))) == (
        "lost" in counts
    )
    assert {row[2].split(" ")[0] for row in page.by_id("steps-table").rows()} == {"done"}


def test_without_a_count_an_applied_plan_is_not_called_exact() -> None:
    plan = make_plan(steps=STEPS[:3])
    page = page_of(plan, journal=make_journal(plan, FINISHED))

    assert headline(page) == "Applied; no rows were counted"
    assert "exact" not in page.by_id("main").text


def test_half_way_says_what_is_done_and_what_comes_next() -> None:
    plan = make_plan()
    page = page_of(plan, journal=make_journal(plan, BEGUN))

    assert headline(page) == "Half-way: no stage that it touches may start"
    states = [row[2] for row in page.by_id("steps-table").rows()]
    assert states[0].startswith("done 2025-11-13 ")
    assert states[1:] == ["next", "not done", "not done", "not done"]


def test_an_undone_plan_no_longer_shows_the_proof_of_what_was_undone() -> None:
    plan = make_plan()
    html = render_plan_html(plan, journal=make_journal(plan, WITHDRAWN, make_certificate()))
    page = read_page(html)

    assert headline(page) == "Applied, and undone"
    assert first_words(page, "undo").startswith("Done 2025-11-13 ")
    assert "counts-table" not in html


@pytest.fixture(scope="module")
def hostile() -> str:
    plan = make_hostile_plan()
    return render_plan_html(plan, HOSTILE[0], make_journal(plan, FINISHED, None), hint=HOSTILE[1])


@pytest.fixture(scope="module")
def hostile_proof() -> str:
    plan = make_plan()
    return render_plan_html(plan, journal=make_journal(plan, FINISHED, make_hostile_certificate()))


@pytest.mark.parametrize("name", ["hostile", "hostile_proof"])
def test_hostile_text_is_on_the_page_as_text_only(request: pytest.FixtureRequest, name: str) -> None:
    html = request.getfixturevalue(name)
    page = read_page(html)

    assert HOSTILE[0] in page.text
    assert HOSTILE[1] in page.text
    assert len(list(page.all("script"))) == len(list(page.all("style"))) == 1
    assert not list(page.all("img"))
    assert "window.hacked" not in next(page.all("script")).text + next(page.all("style")).text
    for element in page.all():
        for key, value in element.attributes.items():
            assert not key.startswith("on")
            assert key not in ("style", "src", "srcdoc", "action", "formaction")
            assert key != "href" or re.fullmatch(r"#[a-z0-9-]+", value)
    for character in html:
        assert character == "\n" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def test_a_huge_plan_stays_below_the_budget_and_says_what_is_left_out() -> None:
    plan = make_plan(
        steps=tuple(Step(f"s{number}", "clear", "<" * 900) for number in range(3_000)),
        effects=tuple(Effect("&" * 900, "remove rows", number) for number in range(3_000)),
        statements=("'" * 2_000,) * 3_000,
    )
    html = render_plan_html(plan, "surestart apply plan.json")

    assert len(html.encode()) <= BUDGET
    assert "more steps not shown here" in html
    assert "more are in the plan." in html
