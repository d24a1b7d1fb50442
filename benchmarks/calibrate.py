"""Restarts every damaged checkpoint of the calibration on the lines of Spark that are not the default, each in a
throw-away environment.

    python benchmarks/calibrate.py             these lines, one after the other
    python benchmarks/calibrate.py 4.2         one line
    python benchmarks/calibrate.py 4.2 hole    only the shapes whose name contains "hole"

    .surestart/calibrate/<line>/venv           pyspark of that line, made once by uv
    .surestart/calibrate/<line>/lab            the checkpoints of the last run, kept to be looked at

Exit code 1 when a checkpoint was called safe and its start then lost, doubled or failed, or when a start did something
else than was said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from surestart.spark.spark_lines import DEFAULT, NAMES, get_line

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".surestart" / "calibrate"


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--worker"]:
        return restart_here(arguments[1], arguments[2:])
    wanted = arguments[:1] or [line for line in NAMES if line != DEFAULT]
    codes = []
    for line in wanted:
        python = make_environment(line)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
        # The session's own Spark must not leak into another line's.
        environment.pop("SPARK_HOME", None)
        command = [str(python), str(Path(__file__).resolve()), "--worker", line, *arguments[1:]]
        codes.append(subprocess.run(command, env=environment, check=False).returncode)
    return max(codes)


def make_environment(line: str) -> Path:
    """The interpreter of an environment with pyspark of that line and what counting needs."""
    python = HOME / line / "venv" / "bin" / "python"
    done = HOME / line / "venv" / ".done"
    if not done.exists():
        uv = find_uv()
        print(f"calibrate: making an environment for Spark {line}", file=sys.stderr)
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(HOME / line / "venv")], check=True)
        packages = [get_line(line).pyspark, "pyarrow>=18,<25", "setuptools"]
        subprocess.run([uv, "pip", "install", "-q", "--python", str(python), *packages], check=True)
        done.touch()
    return python


def find_uv() -> str:
    beside = ROOT / ".venv" / ".uv" / "bin" / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise SystemExit("calibrate: uv is needed to make the environments. Next: make setup")
    return found


def restart_here(line: str, names: list[str]) -> int:
    """Runs inside the line's environment."""
    from tests.diagnosis.calibration import matrix
    from tests.diagnosis.calibration_shapes import SHAPES
    from tests.diagnosis.restart_lab import Lab, restart_cases

    folder = HOME / line / "lab"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shapes = [shape for shape in SHAPES if not names or any(name in shape.name for name in names)]
    spark = make_session(line)
    begin = time.monotonic()
    cases = restart_cases(Lab(spark, folder), shapes, line, done=_tell)
    print(matrix(cases, f"{line} ({spark.version})"))
    print(f"{time.monotonic() - begin:.0f} s")
    spark.stop()
    return 1 if any(case.falsely_safe or not case.start_as_predicted for case in cases) else 0


def _tell(case: Any, seconds: float) -> None:
    from tests.diagnosis.calibration import describe

    print(f"{seconds:5.1f} s  {case.prediction.verdict.value:<12} {case.shape.name}: {describe(case)}", flush=True)


def make_session(line: str) -> Any:
    from pyspark.sql import SparkSession
    from tests.diagnosis.restart_lab import THRIFTY

    from surestart.spark.jars import resolve_jars
    from surestart.spark.java import find_java, launcher_home
    from surestart.spark.settings import EVERYWHERE, pairs

    jars = resolve_jars()
    os.environ["JAVA_HOME"] = str(launcher_home(find_java()))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.driver.memory": "1g",
        # A batch here is a second of analysis by a cold JVM: neither the second compiler nor re-planning pays off.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(HOME / line / "warehouse"),
        **pairs(EVERYWHERE),
        **THRIFTY,
    }
    builder = SparkSession.builder.master("local[2]").appName(f"calibrate {line}")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
