"""One act of a sequence in a process of its own, on the JVM of the tests: `… WHERE_AND_SETTINGS apply|undo|run WHAT`.

Exit code 3: refused beforehand.
"""

from __future__ import annotations

import json
import os
import sys

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.errors import CannotTell, Refused, StoppedHalfway, UsageError
from surestart.remedies.apply.apply import apply_plan
from surestart.remedies.apply.undo import undo_remedy
from surestart.remedies.basis.chain import read_chain
from surestart.remedies.basis.plan import read_plan
from surestart.runs.runner import run_stage
from tests.remedies.shared_driver import session_of_the_tests


def main() -> int:
    given, verb, what = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
    environment, stages = Environment(**given["environment"]), build_stages(given["settings"])
    spark, chain = session_of_the_tests(), read_chain(environment, stages)
    try:
        if verb == "run":
            for stage in stages:
                if stage.name in what.split("+"):
                    run_stage(spark, environment, stage)
            return 0
        act = undo_remedy if verb == "undo" else apply_plan
        act(spark, environment, chain, read_plan(what), lambda plan: plan.target)
    except StoppedHalfway:
        raise
    except (Refused, CannotTell, UsageError) as problem:
        sys.stderr.write(f"{problem.code}: {problem.what}\n")
        return 3
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Its context is the tests' own: stopping it, as the end of a driver does, would stop theirs.
    os._exit(code)
