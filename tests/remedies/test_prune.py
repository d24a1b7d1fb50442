"""Prune removes retired checkpoints that are old and at rest, by the digest of the list that somebody has read."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from surestart.cli.main import main
from surestart.environment import Environment
from surestart.errors import Refused
from surestart.journal.journal import Journal, read_journals
from surestart.remedies.apply.prune import apply_prune, plan_prune, retired_root
from surestart.remedies.basis.move_aside import move_verified, retired_folder
from tests.remedies.journal_by_hand import write_journal

DAY = 86_400
OLD, NEW, HALF, UNDONE = ("a" * 64, "b" * 64, "c" * 64, "d" * 64)


def retire(environment: Environment, digest: str, days: float, which: str = "", files: int = 3) -> Path:
    """A checkpoint that was moved aside so many days ago."""
    origin = Path(environment.checkpoint("raw-ingest"))
    for number in range(files):
        path = origin / "offsets" / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"v1\n{number}\n")
    aside = retired_folder(environment, "sensor-raw-ingest", digest, which)
    move_verified(origin, aside, None)
    set_age(aside, days)
    return aside


def set_age(aside: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(aside.with_name(aside.name + ".complete"), (then, then))


def prune(environment: Environment, *arguments: str) -> int:
    return main(["prune", "--root", environment.root, *arguments])


def digest_in(shown: str) -> str:
    found = re.search(r"Next: surestart prune .*--apply ([0-9a-f]{12})\n", shown)
    assert found, shown
    return found[1]


def files_below(environment: Environment) -> list[str]:
    root = retired_root(environment)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_only_old_ones_of_a_remedy_at_rest_are_listed_and_then_removed(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, half = (retire(environment, digest, days) for digest, days in ((OLD, 40), (NEW, 2), (HALF, 90)))
    undone = retire(environment, UNDONE, 31, "undone")
    for digest, way in ((OLD, "finished"), (NEW, "finished"), (HALF, "begun"), (UNDONE, "withdrawn")):
        write_journal(environment, digest, way)
    before = files_below(environment)

    assert prune(environment) == 0
    shown = capsys.readouterr().out
    assert files_below(environment) == before
    going = f"sensor-raw-ingest/{OLD[:16]}\n"
    assert f"  {going}" in shown
    assert "remedy: reset of raw-ingest (aaaaaaaaaaaa)\n    undo:   not possible once this is removed" in shown
    assert f"remedy: reset of raw-ingest ({HALF[:12]})\n    stays:  its remedy is half-way: surestart apply" in shown
    assert "(dddddddddddd, undone)\n    undo:   not needed" in shown
    assert NEW[:16] not in shown

    assert prune(environment, "--apply", digest_in(shown)) == 0
    assert "2 retired checkpoints removed" in capsys.readouterr().out
    assert [one.exists() for one in (old, new, half, undone)] == [False, True, True, False]
    left = files_below(environment)
    assert left == [name for name in before if NEW[:16] in name or HALF[:16] in name]


@pytest.mark.parametrize("way", ["begun", "released", "undoing"])
def test_one_of_a_remedy_half_way_stays(environment: Environment, capsys: pytest.CaptureFixture[str], way: str) -> None:
    aside = retire(environment, OLD, 400)
    write_journal(environment, OLD, way)

    prune(environment, "--older-than", "0d")

    shown = capsys.readouterr().out
    assert f"stays:  its remedy is half-way: surestart {'undo' if way == 'undoing' else 'apply'} {OLD[:12]}" in shown
    assert "Nothing to remove." in shown
    assert aside.is_dir()


def test_one_that_no_remedy_of_this_environment_put_there_stays(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    retire(environment, OLD, 400)

    assert prune(environment, "--json") == 0

    found = json.loads(capsys.readouterr().out)
    assert found["digest"] is None
    assert [one["stays"] for one in found["staying"]] == [
        "no remedy in the journal of this environment has put it there"
    ]


def test_a_list_that_has_moved_is_refused_and_nothing_is_removed(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    retire(environment, OLD, 40)
    write_journal(environment, OLD, "finished")
    prune(environment)
    digest = digest_in(capsys.readouterr().out)
    retire(environment, NEW, 35)
    write_journal(environment, NEW, "finished")
    before = files_below(environment)

    assert prune(environment, "--apply", digest) == 3
    assert "PruneMoved" in capsys.readouterr().err
    assert prune(environment, "--apply", digest, "--older-than", "39d") == 0
    assert files_below(environment) == [name for name in before if NEW[:16] in name]


@pytest.mark.parametrize("given", ["", "abc", "../../x", "*" * 12])
def test_a_digest_that_was_never_printed_removes_nothing(
    environment: Environment, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    retire(environment, OLD, 40)
    write_journal(environment, OLD, "finished")
    before = files_below(environment)

    assert prune(environment, "--apply", given) == 2
    assert "Nothing was removed" in capsys.readouterr().err
    assert files_below(environment) == before


def test_an_age_without_a_unit_is_refused(environment: Environment, capsys: pytest.CaptureFixture[str]) -> None:
    assert prune(environment, "--older-than", "30") == 2
    assert "--older-than '30' is not a number and h, d or w" in capsys.readouterr().err


def die(environment: Environment, digest: str, point: str) -> None:
    died = subprocess.run(
        [sys.executable, "-m", "surestart", "prune", "--root", environment.root, "--apply", digest],
        env={**os.environ, "SURESTART_FAILPOINT": point},
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr


POINTS = ("begun", "after_rename:1", "after_rename:2", "before_marker:1", "before_marker:2")


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_the_same_command_goes_on(
    environment: Environment, capsys: pytest.CaptureFixture[str], point: str
) -> None:
    for digest in (OLD, NEW):
        retire(environment, digest, 40)
        write_journal(environment, digest, "finished")
    retire(environment, HALF, 40)
    write_journal(environment, HALF, "begun")
    prune(environment)
    digest = digest_in(capsys.readouterr().out)

    die(environment, digest, f"remedy.prune.{point}")

    # A new list names the one that was begun, and the command that goes on with it.
    prune(environment)
    assert digest_in(capsys.readouterr().out) == digest
    assert prune(environment, "--apply", digest) == 0
    assert {name.split("/")[1][:16] for name in files_below(environment)} == {HALF[:16]}


def test_an_undo_that_has_begun_since_keeps_its_checkpoint(
    environment: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    asides = [retire(environment, digest, 40) for digest in (OLD, NEW)]
    for digest in (OLD, NEW):
        write_journal(environment, digest, "finished")
    prune(environment)
    digest = digest_in(capsys.readouterr().out)
    die(environment, digest, "remedy.prune.before_marker:1")
    write_journal(environment, NEW, "undoing")

    assert prune(environment, "--apply", digest) == 3
    assert f"its remedy is half-way: surestart undo {NEW[:12]}" in capsys.readouterr().err
    assert [one.is_dir() for one in asides] == [False, True]
    assert asides[1].with_name(asides[1].name + ".complete").exists()


def test_an_undo_that_begins_in_the_same_moment_gets_its_checkpoint_back(environment: Environment) -> None:
    retire(environment, OLD, 40)
    write_journal(environment, OLD, "finished")
    now = int(time.time() * 1000)
    digest = plan_prune(environment, read_journals(environment), 30 * DAY * 1000, now).digest
    before = files_below(environment)
    seen: list[str] = []

    def read() -> tuple[Journal, ...]:
        """The third look is the one after the folder has gone out of sight."""
        seen.append("looked")
        if len(seen) == 3:
            write_journal(environment, OLD, "undoing")
        return read_journals(environment)

    with pytest.raises(Refused, match="its remedy is half-way"):
        apply_prune(environment, read, digest, 30 * DAY * 1000, now)

    assert len(seen) == 3
    assert [name for name in files_below(environment) if not name.startswith("prune-")] == before
