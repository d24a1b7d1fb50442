"""Remedies one after another where the first stage reads a topic: the same sequences by chance, the same count."""

from __future__ import annotations

from pathlib import Path

import pytest

from sensor_pipeline.kafka_simulate import write_topic
from tests.remedies.sequences import Lab, chosen_seeds

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("seed", chosen_seeds(5, and_rewinding=2), ids=lambda seed: f"seed{seed}")
def test_any_sequence_ends_exact(spark, environment, broker, topic, tmp_path, seed, classic_only) -> None:
    settings = {
        "source": "kafka",
        "bootstrap": broker.bootstrap,
        "topic": topic,
        "max_offsets_per_trigger": "25",
        "max_table_files_per_trigger": "3",
    }
    truth = Path(environment.root) / "truth.json"
    lab = Lab(spark, environment, tmp_path, lambda readings: write_topic(broker.bootstrap, topic, truth, readings))
    lab.settings = settings
    lab.begin()
    lab.do_seed(seed)
