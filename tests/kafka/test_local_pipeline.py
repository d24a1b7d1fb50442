"""`make kafka && make run SOURCE=kafka`: the broker of this folder, its topic filled once, three stages, counted."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sensor_pipeline.kafka_simulate import read_sent
from sensor_pipeline.simulate import read_truth
from surestart.cli.main import main
from surestart.local.kafka_detached import is_broker, start_detached
from tests.foundation.project import serve_the_sensor_pipeline


def run(root: Path) -> int:
    settings = ["source=kafka", "readings=900", "max_offsets_per_trigger=400"]
    return main(["run", "all", "--root", str(root), *(part for one in settings for part in ("--set", one))])


@pytest.mark.long(instead="kafka/test_source.py::test_every_record_arrives_untouched_with_its_position")
@pytest.mark.usefixtures("spark", "classic_only")
def test_the_three_stages_read_the_broker_of_the_folder_and_are_counted_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    serve_the_sensor_pipeline(tmp_path)
    root = tmp_path / "root"
    # Nobody's broker is taken for it.
    assert run(root) == 2
    assert "no local broker runs" in capsys.readouterr().err
    assert not root.exists()

    broker = start_detached(tmp_path / ".surestart" / "kafka")
    try:
        assert run(root) == 0
        told = capsys.readouterr()
        assert "No data in topic 'sensor': making 900 readings" in told.err
        truth = read_truth(root / "truth-sensor.json")
        assert truth is not None
        assert truth.records == 900
        assert len(list(read_sent(broker.bootstrap, "sensor"))) == 900
        assert "900" in told.out

        # What is there is not made again, and nothing new is nothing to do.
        assert run(root) == 0
        assert "making" not in capsys.readouterr().err
        assert len(list(read_sent(broker.bootstrap, "sensor"))) == 900
    finally:
        os.kill(broker.pid, signal.SIGTERM)
        os.waitpid(broker.pid, 0)
    assert not is_broker(broker.pid, broker.folder)
