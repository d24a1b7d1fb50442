"""Where a checkpoint is, changed in surestart.toml: that one value, and not a byte beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestart.errors import Refused, SurestartError
from surestart.streams.change_file import make_change, plan_change
from surestart.streams.project_file import read_project_file

OLD, NEW = "/data/ck/orders", "/mnt/fast/orders"
WRITTEN = {
    "a table of its own": f"""\
# the streams of {OLD}
[stream.other]
checkpoint = "{OLD}2"   # not "{OLD}"

[stream.orders]  # owner: ada
sink = {{ delta = "{OLD}/../t" }}
checkpoint = "{OLD}"  # was "{OLD}" all along
""",
    "literal quotes": f"[stream.orders]\ncheckpoint = '{OLD}'\n",
    "dotted": f'stream.orders.checkpoint = "{OLD}"\nstream.other.checkpoint = "/x"\n',
    "on one line": f'stream = {{ orders = {{ checkpoint = "{OLD}" }}, other = {{ checkpoint = "/x" }} }}\n',
    "quoted keys": f'[stream."orders"]\n"checkpoint"="{OLD}"',
    "escaped": '[stream.orders]\ncheckpoint = "\\u002fdata/ck/orders"\n',
    "three quotes": f'[stream.orders]\ncheckpoint = """{OLD}"""\n',
    "lines of Windows": f'# a\r\n[stream.orders]\r\ncheckpoint = "{OLD}"\r\nstate = ["{OLD}"]\r\n',
    "the same text as a state and in a sink": (
        f'[stream.orders]\nstate = ["{OLD}"]\nsink = {{ kafka = "{OLD}" }}\ncheckpoint = "{OLD}"\n'
    ),
}


@pytest.mark.parametrize("how", WRITTEN)
@pytest.mark.parametrize("place", [NEW, '/mnt/o\'brien "x" \\ ü/orders'])
def test_one_value_is_another_one_and_comes_back_byte_for_byte(tmp_path: Path, how: str, place: str) -> None:
    file = tmp_path / "surestart.toml"
    file.write_bytes(WRITTEN[how].encode())
    before = read_project_file(file)
    change = plan_change(file, "orders", place)
    assert file.read_bytes() == WRITTEN[how].encode()
    for _ in range(2):
        make_change(change)
    after = read_project_file(file)
    assert {one.name: one.checkpoint for one in after.streams} == {
        **{one.name: one.checkpoint for one in before.streams},
        "orders": place,
    }
    assert len(file.read_bytes()) == len(WRITTEN[how].encode()) + len(change.new.encode()) - len(change.former.encode())
    for _ in range(2):
        make_change(change.back)
    assert file.read_bytes() == WRITTEN[how].encode()
    assert [path.name for path in tmp_path.iterdir()] == ["surestart.toml"]


def test_what_others_have_added_since_stays(tmp_path: Path) -> None:
    file = tmp_path / "surestart.toml"
    file.write_text(WRITTEN["dotted"])
    change = plan_change(file, "orders", NEW)
    make_change(change)
    file.write_text("# new owner\n" + file.read_text())
    make_change(change.back)
    assert file.read_text() == "# new owner\n" + WRITTEN["dotted"]


def test_a_link_to_the_file_stays_one(tmp_path: Path) -> None:
    real, file = tmp_path / "real.toml", tmp_path / "surestart.toml"
    real.write_text(WRITTEN["dotted"])
    file.symlink_to(real)
    make_change(plan_change(file, "orders", NEW))
    assert file.is_symlink()
    assert NEW in real.read_text()


def test_what_somebody_has_declared_anew_meanwhile_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "surestart.toml"
    file.write_text(WRITTEN["dotted"])
    change = plan_change(file, "orders", NEW)
    changed = WRITTEN["dotted"].replace(OLD, "/third")
    file.write_text(changed)
    with pytest.raises(Refused) as said:
        make_change(change)
    assert said.value.code == "ProjectFileClosed"
    assert file.read_text() == changed


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[stream.orders]\ncheckpoint = """\\\n  /data/ck/orders"""\n', NEW),
        (WRITTEN["dotted"], "/x"),
        (WRITTEN["dotted"], "relative"),
        (WRITTEN["dotted"], "/\udcff"),
    ],
)
def test_what_cannot_be_written_is_refused_when_it_is_planned(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "surestart.toml"
    file.write_text(text)
    with pytest.raises(SurestartError):
        plan_change(file, "orders", place)
    assert file.read_text() == text
