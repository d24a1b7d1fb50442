"""Nights of a topic: made anew under its name, and its retention past the checkpoint."""

from __future__ import annotations

import pytest

from tests.nights.kafka_scene import FIRST, KafkaScene, kafka_scene
from tests.nights.scene import Scene
from tests.nights.typist import LIMIT, Typed, mend

pytestmark = [pytest.mark.chaos, pytest.mark.usefixtures("classic_only")]


def mended(own: KafkaScene, name: str) -> list[Typed]:
    typed = mend(own.place, [], FIRST)
    print(f"{name}: {len(typed)} commands")
    for one in typed:
        print(f"    $ {one.command}    [exit {one.exit_code}]")
    assert len(typed) <= LIMIT
    own.assert_exact()
    own.land()
    own.run_all()
    own.assert_all_read()
    return typed


def test_a_topic_made_anew(scene: Scene) -> None:
    """What the former topic held is nowhere any more; a plan says how many rows that is, and leaves it to a person."""
    with kafka_scene(scene) as own:
        own.make_anew()
        own.land(150)
        mended(own, "topic made anew")


def test_retention_past_the_checkpoint(scene: Scene) -> None:
    with kafka_scene(scene) as own:
        own.land(150)
        own.forget_before({partition: end - 20 for partition, end in own.ends().items()})
        own.land(100)
        mended(own, "retention past the checkpoint")
