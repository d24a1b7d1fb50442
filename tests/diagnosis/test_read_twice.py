"""A query that joins a stream of files with itself writes each offset twice and keeps one list of files."""

from __future__ import annotations

from pathlib import Path

from surestart.declaration import SourceDeclaration, StageDeclaration
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.verdict.next_start import Outcome
from surestart.verdict.restart import predict_next_start as predict
from tests.checkpoint.checkpoint_maker import files, make_checkpoint

ONE = SourceDeclaration("files", "/landing", "/landing")


def joined_with_itself(root: Path, second: str = "") -> Path:
    make_checkpoint(root, source=files, planned=range(4), committed=range(4))
    for entry in (root / "offsets").iterdir():
        own = entry.read_text().splitlines()[-1]
        entry.write_text(f"{entry.read_text()}\n{second or own}")
    return root


def declared(*sources: SourceDeclaration) -> StageDeclaration:
    return StageDeclaration(stage="s", query="s", checkpoint="/c", sources=sources, sinks=())


def test_a_list_of_its_own_may_be_gone_so_nobody_can_tell(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(joined_with_itself(tmp_path)))
    start = predict(checkpoint)
    assert (start.outcome, start.at) == (Outcome.CANNOT_TELL, "sources/1")
    assert "reads twice" in start.why


def test_a_source_that_is_declared_twice_starts(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(joined_with_itself(tmp_path)))
    assert predict(checkpoint, declaration=declared(ONE, ONE)).outcome is Outcome.STARTS


def test_two_folders_have_two_lists(tmp_path: Path) -> None:
    other = SourceDeclaration("files", "/other", "/other")
    checkpoint = read_checkpoint(str(joined_with_itself(tmp_path)))
    assert predict(checkpoint, declaration=declared(ONE, other)).outcome is Outcome.CANNOT_TELL


def test_a_source_at_another_entry_has_lost_its_list(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(str(joined_with_itself(tmp_path, second='{"logOffset":7}')))
    assert predict(checkpoint).outcome is Outcome.FAILS
