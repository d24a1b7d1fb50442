"""What a night begins with: one thing is broken in a running pipeline, as people and machines break it. What has been
typed already, because the fault showed in it, is the answer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.nights.scene import TABLES, Scene
from tests.nights.typist import FIRST, Typed

FAILPOINT = "SURESTART_FAILPOINT"
STAGES = tuple(TABLES)


def checkpoint_deleted(scene: Scene, stage: str) -> list[Typed]:
    shutil.rmtree(scene.checkpoint(stage))
    return []


def newest_two_deleted(scene: Scene, stage: str) -> list[Typed]:
    for log in ("offsets", "commits"):
        for path in _newest(scene.checkpoint(stage) / log)[-2:]:
            path.unlink()
            _checksum(path).unlink(missing_ok=True)
    return []


def newest_offsets_emptied(scene: Scene, stage: str) -> list[Typed]:
    path = _newest(scene.checkpoint(stage) / "offsets")[-1]
    path.write_bytes(b"")
    _checksum(path).unlink(missing_ok=True)
    return []


def another_checkpoint_copied_over(scene: Scene, stage: str) -> list[Typed]:
    other = STAGES[STAGES.index(stage) - 1] if stage != STAGES[0] else STAGES[1]
    shutil.rmtree(scene.checkpoint(stage))
    shutil.copytree(scene.checkpoint(other), scene.checkpoint(stage))
    return []


def table_restored(scene: Scene, stage: str) -> list[Typed]:
    scene.sql(f"RESTORE TABLE {scene.table(stage)} TO VERSION AS OF {scene.newest_version(stage) - 1}")
    return []


def rows_deleted(scene: Scene, stage: str) -> list[Typed]:
    scene.sql(f"DELETE FROM {scene.table(stage)} WHERE offset % 7 = 3")
    return []


def all_rows_deleted(scene: Scene, stage: str) -> list[Typed]:
    scene.sql(f"DELETE FROM {scene.table(stage)}")
    return []


def rows_deleted_and_restored(scene: Scene, stage: str) -> list[Typed]:
    before = scene.newest_version(stage)
    scene.sql(f"DELETE FROM {scene.table(stage)}")
    scene.sql(f"RESTORE TABLE {scene.table(stage)} TO VERSION AS OF {before}")
    return []


def rows_updated(scene: Scene, stage: str) -> list[Typed]:
    time = "ingested_at" if stage == "raw-ingest" else "deserialized_at"
    scene.sql(f"UPDATE {scene.table(stage)} SET {time} = current_timestamp() WHERE offset % 7 = 3")
    return []


def column_added(scene: Scene, stage: str) -> list[Typed]:
    scene.sql(f"ALTER TABLE {scene.table(stage)} ADD COLUMNS (note STRING)")
    return []


def read_file_removed(scene: Scene, stage: str) -> list[Typed]:
    scene.landed()[0].unlink()
    return []


def unread_file_removed(scene: Scene, stage: str) -> list[Typed]:
    scene.land()
    scene.landed()[-1].unlink()
    return []


def file_of_the_batch_removed(scene: Scene, stage: str) -> list[Typed]:
    """Planned, and the driver killed before the table had the batch."""
    return _removed_in_flight(scene, "append.before_commit")


def file_of_the_written_batch_removed(scene: Scene, stage: str) -> list[Typed]:
    """The table has the batch, the checkpoint does not know."""
    return _removed_in_flight(scene, "append.after_commit")


def apply_killed(scene: Scene, stage: str) -> list[Typed]:
    _plan_and_die(scene, stage)
    return []


def carried_on_apply_killed(scene: Scene, stage: str) -> list[Typed]:
    _plan_and_die(scene, stage)
    _dies(scene, scene.type(FIRST).next, "remedy.move.before_removal")
    return []


def undo_killed(scene: Scene, stage: str) -> list[Typed]:
    scene.type(f"surestart plan reset {stage} -o plan.json")
    done = scene.type("surestart apply plan.json")
    undo = re.search(r"^Undo: (.+)$", done.screen, re.M)
    assert undo, done.screen
    _dies(scene, undo[1], "remedy.restore.after_commit")
    return []


def claim_torn(scene: Scene, stage: str) -> list[Typed]:
    """As a power cut leaves the claim of a stage that ran."""
    path = scene.root / "claims" / f"sensor-{stage}.lock"
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"record": {"run_id": "0f2')
    return []


def disk_full(scene: Scene, stage: str) -> list[Typed]:
    """Somebody makes room after the run has failed; played on a small disk."""
    ballast = scene.fill_the_disk(left=120_000)
    failed = scene.type(f"surestart run {stage}" if stage != STAGES[0] else FIRST)
    assert failed.exit_code != 0, failed.screen
    ballast.unlink()
    return [failed]


def root_read_only(scene: Scene, stage: str) -> list[Typed]:
    """In mid-run, once the stage has planned its batch."""
    planned = len(_newest(scene.checkpoint(stage) / "offsets"))
    with scene.read_only_once(lambda: len(_newest(scene.checkpoint(stage) / "offsets")) > planned):
        failed = scene.type(FIRST)
    assert failed.exit_code != 0, failed.screen
    return [failed]


def _removed_in_flight(scene: Scene, point: str) -> list[Typed]:
    scene.land()
    _dies(scene, "surestart run raw-ingest", point)
    scene.landed()[-1].unlink()
    return []


def _plan_and_die(scene: Scene, stage: str) -> None:
    scene.type(f"surestart plan reset {stage} -o plan.json")
    _dies(scene, "surestart apply plan.json", "remedy.clear.after_commit")


def _dies(scene: Scene, command: str, point: str) -> None:
    died = scene.type(command, **{FAILPOINT: point})
    assert died.exit_code in (-9, 137), died.screen


def _newest(log: Path) -> list[Path]:
    return sorted((path for path in log.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")
