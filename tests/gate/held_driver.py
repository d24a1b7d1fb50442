"""A driver whose batches wait before they are written: `python -m tests.gate.held_driver ROOT STAGE=BATCH…`.

Each stage runs in a thread of its own, behind its gate. Batch BATCH of it makes the file <ROOT>/held/STAGE and waits
for <ROOT>/held/go. At the end one JSON object on stdout: stage -> {"code": …, "text": …} of how its run ended.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surestart.declaration import SinkDeclaration
from surestart.environment import Environment
from surestart.errors import SurestartError
from surestart.runs.runner import run_stage
from surestart.spark.session import local_session
from surestart.stage import BatchContext, Sink, Stage


@dataclass(frozen=True)
class HeldBack:
    """The sink, whose own function of a batch is called once this test lets it."""

    sink: Sink
    reached: Path
    batch: int

    def prepare(self, spark: Any, environment: Environment) -> None:
        self.sink.prepare(spark, environment)

    def start(self, writer: Any, context: BatchContext) -> Any:
        return self.sink.start(_Waiting(writer, self.reached, self.batch), context)

    def declare(self, environment: Environment) -> tuple[SinkDeclaration, ...]:
        return self.sink.declare(environment)


@dataclass(frozen=True)
class _Waiting:
    writer: Any
    reached: Path
    batch: int

    # Spark's own name.
    def foreachBatch(self, write: Callable[[Any, int], None]) -> Any:
        def wait(rows: Any, batch_id: int) -> None:
            if batch_id == self.batch:
                self.reached.touch()
                while not self.reached.with_name("go").exists():
                    time.sleep(0.01)
            write(rows, batch_id)

        return self.writer.foreachBatch(wait)


def drive(
    environment: Environment, stages: Mapping[str, tuple[Environment, Stage, int]], accept: Sequence[str] = ()
) -> None:
    """name -> (its environment, the stage, the batch that waits)."""
    folder = Path(environment.root) / "held"
    folder.mkdir()
    spark = local_session("held driver")
    ended: dict[str, dict[str, str]] = {}

    def run(name: str, own: Environment, stage: Stage, batch: int) -> None:
        try:
            run_stage(spark, own, replace(stage, sink=HeldBack(stage.sink, folder / name, batch)), accept=accept)
        except SurestartError as error:
            ended[name] = {"code": error.code, "text": str(error)}
        else:
            ended[name] = {"code": "", "text": "it ended without an error"}

    threads = [threading.Thread(target=run, args=(name, *one)) for name, one in stages.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(ended), flush=True)


def main() -> None:
    from sensor_pipeline.stages import build_stages
    from surestart.environment import environment_from_settings

    environment = environment_from_settings("local", "sensor", {"root": sys.argv[1]}, environ={})
    batches = dict(word.split("=") for word in sys.argv[2:])
    stages = {stage.name: stage for stage in build_stages(FEW)}
    drive(environment, {name: (environment, stages[name], int(batch)) for name, batch in batches.items()})


FEW = {"max_files_per_trigger": "1", "max_table_files_per_trigger": "1"}

if __name__ == "__main__":
    main()
