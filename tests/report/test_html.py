"""The page's content, read without a browser: what it says first, that it holds together, what hostile text becomes."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest

from surestart.cli.main import main
from surestart.report.html.markup import BUDGET, VERDICTS
from surestart.report.html.page import render
from surestart.report.html.sinks import compare_batches
from surestart.report.progress_history import read_progress
from surestart.verdict.inspection import Inspection, inspect_checkpoint
from surestart.words.finding import Finding, Severity
from tests.checkpoint.checkpoint_maker import compact, delta, files, make_checkpoint, make_state, offsets_text
from tests.report.checkpoints import (
    BATCHES,
    HOSTILE,
    TOPIC,
    make_busy,
    make_hostile,
    make_table,
    offsets_of,
    progress_of,
)
from tests.report.pages import Element, read_page

SAME_ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "a", "svg", "defs", "pattern", "path", "header", "p", "fieldset",
    "legend", "label", "input", "main", "section", "h1", "h2", "h3", "h4", "pre", "code", "dl", "div", "dt", "dd",
    "nav", "ul", "li", "article", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td",
    "figure", "figcaption", "g", "rect", "text", "span", "footer", "script",
}  # fmt: skip


def page_of(inspection: Inspection, **given: object) -> Element:
    return read_page(render(inspection, **given))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """46 batches planned, the last one in flight, state in five partitions."""
    return make_busy(tmp_path_factory.mktemp("busy") / "sensor-raw-ingest")


@pytest.fixture(scope="module")
def page(busy: Path) -> Element:
    table = make_table(busy.parent / "table", BATCHES - 1)
    progress = read_progress([progress_of(batch, behind=30) for batch in range(30, 45)])
    return page_of(inspect_checkpoint(str(busy), sinks=(str(table),)), progress=progress)


@pytest.mark.parametrize("verdict", ["unsafe", "attention", "cannot tell", "safe"])
def test_the_verdict_comes_first_in_words(tmp_path: Path, verdict: str) -> None:
    root = make_checkpoint(tmp_path / "ck")
    sinks = {"cannot tell": (), "safe": (str(make_table(tmp_path / "t", 4)),)}.get(verdict, ("none",))
    if verdict == "unsafe":
        (root / "offsets/4").write_text("v1\n{")
    if verdict == "attention":
        (root / "notes.txt").write_text("")
    inspection = inspect_checkpoint(str(root), sinks=sinks)
    assert inspection.verdict.value == verdict
    page = page_of(inspection)

    headings = list(page.all("h1", "h2", "h3", "h4"))
    assert headings[0].name == "h1"
    assert headings[0].text == VERDICTS[inspection.verdict]
    assert next(page.all("title")).text.startswith(f"{verdict.upper()}: ")


def test_findings_stand_worst_first_with_their_four_parts(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck")
    (root / "offsets/4").write_text("v1\n{")
    (root / "notes.txt").write_text("")
    inspection = inspect_checkpoint(str(root))
    articles = list(page_of(inspection).by_id("findings").all("article"))

    order = ["Unsafe", "Cannot tell", "Attention", "Note"]
    shown = [next(article.all("h3")).text.partition(":")[0] for article in articles]
    assert set(shown) >= {"Unsafe", "Cannot tell", "Attention"}
    assert shown == sorted(shown, key=order.index)
    for article, finding in zip(articles, inspection.findings, strict=True):
        said = article.text
        assert finding.code in said
        for part in (finding.evidence, finding.meaning, finding.do_not):
            assert part in said
        assert next(article.all("pre")).text == str(finding.next)


def test_every_chart_has_the_same_numbers_in_a_table(page: Element, busy: Path) -> None:
    figures = list(page.all("figure"))
    captions = [next(figure.all("figcaption")).text for figure in figures]

    assert len(figures) == 7
    assert all(caption.endswith(".") for caption in captions)
    tables = {figure.attributes["data-table"]: page.by_id(figure.attributes["data-table"]) for figure in figures}
    assert all(table.name == "table" and next(table.all("caption")).text for table in tables.values())

    batches = {row[0]: row for row in tables["s0-batches-table"].rows()}
    assert set(batches) == {str(batch) for batch in range(BATCHES)}
    assert batches["45"][1] == "in flight"
    assert batches["44"] == [
        "44",
        "committed",
        "2025-11-13 02:57 UTC",
        "210",
        "210",
        "2.08",
        "1.78",
        "0.12",
        "0.08",
        "0.10",
    ]
    assert batches["3"][3:6] == ["210", "not known", "not known"]

    offsets = {row[0]: row for row in tables["s0-source-0-table"].rows()}
    assert offsets[f"{TOPIC}-5"] == [f"{TOPIC}-5", "3,700", "3,760", "60", "3,880", "120"]
    state = {row[0]: row for row in tables["s0-state-0-table"].rows()}
    assert state["4"] == ["4", "4", "20,060", "43", "45", "1"]


def test_every_cell_of_a_chart_is_in_its_table(page: Element) -> None:
    for figure in page.all("figure"):
        labels = {row[0] for row in page.by_id(figure.attributes["data-table"]).rows()}
        drawn = [title.text.partition(":")[0].split(" ")[-1] for title in figure.all("title")]
        assert drawn
        assert set(drawn) <= labels | {label.rpartition("-")[2] for label in labels}


def test_without_progress_durations_and_lag_are_said_to_be_unknown(busy: Path) -> None:
    page = page_of(inspect_checkpoint(str(busy), sinks=("none",)))

    assert "A checkpoint does not say how long batches took" in page.by_id("s0-batches").text
    assert "The source was not asked" in page.by_id("s0-sources").text
    assert "Lag" not in page.by_id("s0-source-0-table").text


def test_progress_of_another_query_is_not_shown(busy: Path) -> None:
    foreign = {**progress_of(44), "id": "99999999-30cc-4be9-9a0c-2f3a1b8f6d11"}
    page = page_of(inspect_checkpoint(str(busy), sinks=("none",)), progress=read_progress([foreign]))

    assert "A checkpoint does not say how long batches took" in page.by_id("s0-batches").text


@pytest.mark.parametrize(
    ("last", "said", "agreements"),
    [
        (44, "equal: both end at batch 44", {"45": "neither yet", "44": "equal"}),
        (45, "ahead by the batch in flight, 45", {"45": "sink ahead, replay recognised", "44": "equal"}),
        (50, "ahead by 6: the checkpoint was rewound", {"50": "sink ahead", "46": "sink ahead", "44": "equal"}),
        (40, "behind by 4: committed up to 44", {"44": "sink behind", "41": "sink behind", "40": "equal"}),
    ],
)
def test_the_sink_is_held_against_the_commits(
    tmp_path: Path, busy: Path, last: int, said: str, agreements: dict[str, str]
) -> None:
    table = make_table(tmp_path / "table", last)
    page = page_of(inspect_checkpoint(str(busy), sinks=(str(table),)))

    assert said in page.by_id("s0-sinks").text
    rows = {row[0]: row for row in page.by_id("s0-sink-0-table").rows()}
    assert {batch: rows[batch][5] for batch in agreements} == agreements
    assert rows["40"][2:5] == ["has it", "41", "2025-11-13 02:53 UTC"]


def test_a_batch_whose_commit_left_the_tables_log_is_counted_and_not_claimed_as_seen(
    tmp_path: Path, busy: Path
) -> None:
    table = make_table(tmp_path / "table", 45, first_batch=43)
    rows = {
        row[0]: row
        for row in page_of(inspect_checkpoint(str(busy), sinks=(str(table),))).by_id("s0-sink-0-table").rows()
    }

    assert rows["44"][2] == "has it"
    assert rows["42"][2:4] == ["counts up to 45", ""]


@pytest.mark.parametrize(
    ("committed", "in_flight", "known", "sign"),
    [(4, None, 4, "good"), (4, 5, 5, "look"), (4, 5, 6, "bad"), (4, None, 5, "bad"), (4, None, 3, "bad"),
     (None, 0, 0, "look"), (None, None, None, "unknown"), (4, None, None, "unknown")],
)  # fmt: skip
def test_only_an_equal_ledger_is_called_good(
    committed: int | None, in_flight: int | None, known: int | None, sign: str
) -> None:
    assert compare_batches(committed, in_flight, known)[1] == sign


def test_a_checkpoint_rewound_behind_its_table_is_never_called_equal(tmp_path: Path) -> None:
    root = make_busy(tmp_path / "ck", batches=3, committed=3)
    page = page_of(
        inspect_checkpoint(
            str(root), sinks=(str(make_table(tmp_path / "t", 5_000_000_000, first_batch=4_999_999_999)),)
        )
    )

    assert "ahead by 4,999,999,998" in page.by_id("s0-sinks").text
    assert len(page.by_id("s0-sink-0-table").rows()) < 130


def test_files_and_delta_sources_tell_their_positions(tmp_path: Path) -> None:
    listed = page_of(inspect_checkpoint(str(make_checkpoint(tmp_path / "a", source=files)), sinks=("none",)))
    rows = dict(listed.by_id("s0-source-0-table").rows())
    assert rows["Files seen"] == "5"
    assert rows["Newest file seen"] == "file:///landing/part-4-0.json"
    versions = page_of(inspect_checkpoint(str(make_checkpoint(tmp_path / "b", source=delta)), sinks=("none",)))
    assert dict(versions.by_id("s0-source-0-table").rows())["Newest batch ends at"].startswith(
        "everything up to version 15"
    )


def test_holes_and_damage_are_drawn_and_named(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path / "ck", planned=[0, 1, 2, 5, 6, 90], committed=[0, 1, 2, 5, 90])
    (root / "offsets/2").write_text("v1\n{")
    page = page_of(inspect_checkpoint(str(root), sinks=("none",)))
    rows = {row[0]: row[1] for row in page.by_id("s0-batches-table").rows()}

    assert rows == {
        "90": "committed", "7–89": "missing", "6": "planned, commit missing", "5": "committed", "4": "missing",
        "3": "missing", "2": "damaged: offsets/2 torn", "1": "committed", "0": "committed",
    }  # fmt: skip
    titles = [title.text for title in page.by_id("s0-batches").all("title")]
    assert "2: planned, damaged or out of place" in titles


@pytest.mark.parametrize("where", ["absent", "empty", "a file", "a table"])
def test_what_is_no_checkpoint_gets_a_page_too(tmp_path: Path, where: str) -> None:
    path = tmp_path / "ck"
    if where == "empty":
        path.mkdir()
    if where == "a file":
        path.write_text("x")
    if where == "a table":
        make_table(path, 3)
    page = page_of(inspect_checkpoint(str(path)))

    assert "start it" not in next(page.all("h1")).text or "do not" in next(page.all("h1")).text
    assert list(page.by_id("findings").all("article"))


# Hostile input


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = make_hostile(tmp_path_factory.mktemp("h") / '"><img src=x onerror=window.hacked=1>')
    return render(inspect_checkpoint(str(root)))


def test_hostile_text_is_on_the_page_as_text_only(hostile: str) -> None:
    page = read_page(hostile)

    assert HOSTILE[0] in page.text
    assert HOSTILE[1] in page.text
    assert {element.name for element in page.all()} <= SAME_ELEMENTS
    assert len(list(page.all("script"))) == len(list(page.all("style"))) == 1
    assert "window.hacked" not in next(page.all("script")).text + next(page.all("style")).text
    for element in page.all():
        for key, value in element.attributes.items():
            assert not key.startswith("on")
            assert key not in ("style", "src", "srcdoc", "action", "formaction")
            assert key != "href" or re.fullmatch(r"#[a-z0-9-]+", value)


def test_no_character_on_the_page_hides_or_reverses(hostile: str) -> None:
    for character in hostile:
        assert character == "\n" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def test_the_page_allows_its_own_style_and_script_and_nothing_else(hostile: str) -> None:
    page = read_page(hostile)
    policy = next(meta for meta in page.all("meta") if meta.attributes.get("http-equiv") == "Content-Security-Policy")

    rules = dict(rule.strip().split(" ", 1) for rule in policy.attributes["content"].split(";"))
    assert rules["default-src"] == "'none'"
    assert all(re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", rules[name]) for name in ("script-src", "style-src"))
    assert not re.search(r"https?://(?!www\.w3\.org/)", hostile)
    # Before anything that came from the checkpoint: a policy binds only what stands behind it.
    assert hostile.index("Content-Security-Policy") < hostile.index("<title>")


def test_a_command_with_hidden_characters_or_too_long_cannot_be_copied(tmp_path: Path) -> None:
    from dataclasses import replace

    inspection = inspect_checkpoint(str(make_checkpoint(tmp_path / "ck")), sinks=("none",))
    commands = ("surestart doctor x", "surestart doctor 'safe\u202e'", "surestart doctor " + "x" * 5_000)
    findings = tuple(Finding("CODE", Severity.UNSAFE, "e", "m", command) for command in commands)
    page = page_of(replace(inspection, findings=findings))

    blocks = [next(article.all("pre")) for article in page.by_id("findings").all("article")]
    assert ["data-copy" in block.attributes for block in blocks] == [True, False, False]


def huge(root: Path) -> Path:
    """Two sources of 2,000 partitions with names to escape, 3,000 settings, 200 state partitions, 300 batches."""
    topics = compact({"&" * 200 + str(number): {str(one): 1 for one in range(50)} for number in range(40)})
    confs = {f"spark.{'<' * 300}{number}": "&" * 900 for number in range(3_000)}
    make_checkpoint(root, planned=range(300), committed=range(250), source=lambda batch: offsets_of(batch, 2))
    (root / "offsets/299").write_text(offsets_text(topics, topics, confs=confs))
    make_state(root, range(1, 3), partitions=200, name="<" * 500)
    for number in range(60):
        (root / f"{'&' * 100}{number}").write_text("")
    return root


def test_the_page_stays_small_whatever_the_checkpoint_holds(tmp_path: Path) -> None:
    html = render(inspect_checkpoint(str(huge(tmp_path / "ck"))))
    page = read_page(html)

    assert len(html.encode()) <= BUDGET < 300_000
    assert "--json" in page.by_id("s0-raw").text
    assert "more settings not shown here" in page.text


def test_a_usual_page_is_small_and_whole(page: Element, busy: Path) -> None:
    html = render(inspect_checkpoint(str(busy), sinks=("none",)))

    assert len(html.encode()) < 150_000
    assert '"schema_version": 1' in read_page(html).by_id("s0-raw").text


# From the command line


def test_inspect_writes_the_page_with_durations_from_a_file(tmp_path: Path, busy: Path, capsys) -> None:
    import json

    (tmp_path / "progress.jsonl").write_text("\n".join(json.dumps(progress_of(batch)) for batch in range(40, 45)))
    out = tmp_path / "page.html"
    code = main(
        ["inspect", str(busy), "--sink", "none", "--html", str(out), "--progress", str(tmp_path / "progress.jsonl")]
    )

    assert code == 0
    assert "How long batches took: at most 2.08 s, batch 44." in read_page(out.read_text()).text


def test_a_page_that_cannot_be_written_is_a_message_and_no_traceback(tmp_path: Path, busy: Path, capsys) -> None:
    assert main(["inspect", str(busy), "--sink", "none", "--html", str(tmp_path / "none/page.html")]) == 2
    assert "the page cannot be written to" in capsys.readouterr().err


def test_doctor_puts_every_stage_on_one_page_with_ids_of_their_own(tmp_path: Path, capsys) -> None:
    root = tmp_path / "root"
    make_busy(root / "checkpoints/sensor-raw-ingest")
    make_table(root / "tables/sensor_raw", 60)
    out = tmp_path / "page.html"
    code = main(["doctor", "-e", "local", "--root", str(root), "--html", str(out)])
    page = read_page(out.read_text())

    assert code == 3
    assert next(page.all("h1")).text == "Unsafe: do not start it"
    assert next(row[:2] for row in page.by_id("stages").rows()) == ["raw-ingest", "unsafe"]
    assert "in raw-ingest" in next(page.by_id("findings").all("h3")).text
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = {element.attributes["href"][1:] for element in page.all("a")}
    assert links <= set(ids)
    headings = [int(element.name[1]) for element in page.all("h1", "h2", "h3", "h4")]
    assert all(below - above <= 1 for above, below in pairwise(headings))


def test_a_delta_sources_lag_is_counted_in_versions(tmp_path: Path, capsys) -> None:
    """The position stands before version 13 of a table whose newest version is 20: 13 to 20 are unread."""
    root = tmp_path / "root"
    position = {"sourceVersion": 1, "reservoirId": "T", "reservoirVersion": 13, "index": -1, "isStartingVersion": False}
    make_checkpoint(root / "checkpoints/sensor-deserialize", source=lambda batch: compact(position))
    make_table(root / "tables/sensor_raw", 19)
    out = tmp_path / "page.html"
    main(["doctor", "deserialize", "-e", "local", "--root", str(root), "--html", str(out)])

    rows = dict(read_page(out.read_text()).by_id("s0-source-0-table").rows())
    assert (rows["Table's newest version"], rows["Lag in versions"]) == ("20", "8")
    assert rows["How that is known"].startswith("Asked at ")
