"""Nights: a pipeline is broken in one way, and mended by typing what the screens print, until every stage runs and the
count says lost 0, duplicated 0. At most five commands, no circle, no document.

`pytest -m chaos tests/nights -rP` prints the commands of each night; docs/nights.md has their number.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from tests.nights import damages
from tests.nights.damages import STAGES
from tests.nights.scene import Scene
from tests.nights.typist import LIMIT, Typed, mend

Damage = Callable[[Scene, str], list[Typed]]
EVERY_STAGE: tuple[Damage, ...] = (
    damages.checkpoint_deleted,
    damages.newest_two_deleted,
    damages.newest_offsets_emptied,
    damages.another_checkpoint_copied_over,
    damages.table_restored,
    damages.rows_deleted,
    damages.all_rows_deleted,
    damages.rows_deleted_and_restored,
    damages.rows_updated,
    damages.column_added,
    damages.apply_killed,
    damages.undo_killed,
    damages.carried_on_apply_killed,
    damages.claim_torn,
    damages.root_read_only,
)
FIRST_STAGE: tuple[Damage, ...] = (
    damages.read_file_removed,
    damages.unread_file_removed,
    damages.file_of_the_batch_removed,
    damages.file_of_the_written_batch_removed,
    damages.disk_full,
)
# What they break is a run, so there is something to run.
IN_MID_RUN = (damages.disk_full, damages.root_read_only)
NIGHTS = [(damage, stage) for damage in EVERY_STAGE for stage in STAGES] + [(one, STAGES[0]) for one in FIRST_STAGE]
FAST = ((damages.newest_offsets_emptied, "deserialize"), (damages.rows_deleted, "merge-gold"))


def name_of(damage: Damage, stage: str) -> str:
    return f"{damage.__name__.replace('_', ' ')}, {stage}"


@pytest.mark.long(instead="typed/test_next_of_every_place.py::test_every_place_is_rendered_and_can_be_typed")
@pytest.mark.usefixtures("classic_only")
@pytest.mark.parametrize(
    ("damage", "stage"),
    [pytest.param(*night, id=name_of(*night), marks=() if night in FAST else pytest.mark.chaos) for night in NIGHTS],
)
def test_a_night_ends_by_typing_what_the_screens_print(scene: Scene, damage: Damage, stage: str) -> None:
    with scene.on_a_disk_of(64) if damage is damages.disk_full else nullcontext():
        if damage in IN_MID_RUN:
            scene.land()
        typed = damage(scene, stage)
        if damage not in IN_MID_RUN:
            scene.land()
        typed = mend(scene.place, typed)

        print(f"{name_of(damage, stage)}: {len(typed)} commands")
        for one in typed:
            print(f"    $ {one.command}    [exit {one.exit_code}]")
        assert len(typed) <= LIMIT
        scene.assert_exact()
        # And the pipeline goes on as before.
        scene.land()
        scene.run_all()
        scene.assert_all_read()
