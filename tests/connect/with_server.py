"""A Spark Connect server around one command: `python -m tests.connect.with_server [--worker PYTHON] [--twin] CMD …`.

    server (JVM of this Python's pyspark)  <── sc://127.0.0.1:PORT ──  CMD, with SPARK_REMOTE set
       └── workers: PYTHON (default: this one); its minor version must be CMD's own

--twin: CMD and the workers refuse what serverless compute refuses (tests/serverless/twin.py); the server does not.

The server knows nothing of surestart beyond its jars and settings; the shared `spark` fixture takes SPARK_REMOTE.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from surestart.cache import cache_folder
from surestart.spark.jars import resolve_jars
from surestart.spark.java import find_java, launcher_home
from surestart.spark.settings import local_settings, pairs
from surestart.spark.spark_lines import installed_line
from tests.serverless import twin
from tests.servers.free_port import free_port

ROOT = Path(__file__).parents[2]
SITE = ROOT / "tests" / "serverless" / "site"
SECONDS_TO_START = 120
UNCOMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def connect_server(folder: Path, worker: str = sys.executable, *, as_twin: bool = False) -> Iterator[str]:
    """The address of a server that is there inside the block. folder: for its log and warehouse."""
    port = free_port()
    log4j = ROOT / "src" / "surestart" / "spark" / "log4j2.properties"
    settings = {
        **pairs(local_settings(installed_line())),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in resolve_jars()),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} -XX:TieredStopAtLevel=1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    if as_twin:
        # Its sessions may not set these; the tests would spend their time in 50 tasks for each look at a table.
        settings |= {"spark.databricks.delta.snapshotPartitions": "1", **UNCOMPILED}
    home = Path(str(importlib.util.find_spec("pyspark").origin)).parent  # type: ignore[union-attr]
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    variables = {
        **os.environ,
        "JAVA_HOME": str(launcher_home(find_java())),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(_worker(folder, worker, home, as_twin)),
    }
    variables.pop("SPARK_REMOTE", None)
    if as_twin:
        # A worker inherits the server's variables, and on serverless has none of the driver's.
        for name in [one for one in variables if one.startswith(("DATABRICKS_", "SURESTART_"))]:
            del variables[name]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, env=variables, stdout=log, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True
        )
        try:
            _wait_for(port, server, folder / "server.log")
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def client_variables(folder: Path, remote: str, *, as_twin: bool) -> dict[str, str]:
    """The environment of a process that works through the server."""
    variables = {**os.environ, "SPARK_REMOTE": remote}
    if as_twin:
        found = [str(SITE), str(ROOT), variables.get("PYTHONPATH", "")]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, found))
        variables |= {twin.VARIABLE: twin.CLIENT, twin.FOLDER: str(folder), "DATABRICKS_RUNTIME_VERSION": twin.RUNTIME}
    return variables


def _worker(folder: Path, python: str, home: Path, as_twin: bool) -> Path:
    """A Python that starts within Spark's ten seconds on a busy machine, too: pyspark from its folder, compiled once,
    where Spark's own path leads to a zip of sources, compiled at each start. Functions of the tests' own modules are
    unpickled in it, so it finds those as well."""
    modules = folder / "modules"
    modules.mkdir()
    (modules / "pyspark").symlink_to(home)
    script = folder / "worker-python"
    path, twins = f"{modules}:{ROOT}", ""
    if as_twin:
        path, twins = f"{modules}:{SITE}:{ROOT}", f'{twin.VARIABLE}={twin.WORKER} {twin.FOLDER}="{folder}" '
    script.write_text(
        "#!/bin/sh\n"
        "unset PYTHONDONTWRITEBYTECODE\n"
        f'{twins}PYTHONPYCACHEPREFIX="{cache_folder() / "bytecode"}" PYTHONPATH="{path}" exec "{python}" "$@"\n'
    )
    script.chmod(0o755)
    # Compiles what a worker imports, now: the first one would pass its ten seconds on a busy machine.
    subprocess.run([script, "-c", "import pyspark.sql.connect.streaming.worker.foreach_batch_worker"], check=True)
    return script


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        # Nothing tells when the port opens but asking for it.
        time.sleep(0.2)
    raise RuntimeError(f"no Spark Connect server within {SECONDS_TO_START} s:\n{log.read_text()[-3000:]}")


def main() -> int:
    words = sys.argv[1:]
    worker = sys.executable
    # Ended by a signal, too, the server goes first.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if words[:1] == ["--worker"]:
        worker, words = str(Path(words[1]).absolute()), words[2:]
    as_twin = words[:1] == ["--twin"]
    words = words[as_twin:]
    with tempfile.TemporaryDirectory(prefix="connect-server-") as folder:
        with connect_server(Path(folder), worker, as_twin=as_twin) as remote:
            variables = client_variables(Path(folder), remote, as_twin=as_twin)
            code = subprocess.run(words, env=variables, check=False).returncode
        if code:
            sys.stderr.write((Path(folder) / "server.log").read_text()[-4000:])
    return code


if __name__ == "__main__":
    sys.exit(main())
