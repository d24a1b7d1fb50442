"""A twin of serverless compute: Spark Connect that refuses what serverless refuses, with the errors that it gives.

    make test-serverless
        client (pytest, surestart, a notebook's kernel)   install() by sitecustomize, SERVERLESS_TWIN=client
        worker of a foreachBatch function                 install() by sitecustomize, SERVERLESS_TWIN=worker

Open-source Spark Connect refuses none of this, and the server here goes on refusing none. A proxy between client and
server would not be enough: the worker of a foreachBatch function connects to the server by itself. REFUSALS says of
each where it is known from; nothing of it was seen in a workspace of ours.
"""

from __future__ import annotations

import errno
import importlib.abc
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "SERVERLESS_TWIN"
CLIENT, WORKER = "client", "worker"
# A folder that plays /Volumes; for the client and the worker alike.
VOLUMES = "SERVERLESS_TWIN_VOLUMES"
# The folder of the server: what `worker_environment` wrote there is in the environment of each later worker.
FOLDER = "SERVERLESS_TWIN_FOLDER"
WORKER_FILE = "worker-environment"
# One run sees a second action on a batch give nothing, as one account tells; from the batch of that number on, 1 first.
EMPTY_SECOND = "SERVERLESS_TWIN_EMPTY_SECOND_ACTION"
# A worker without this module, as accounts tell of the libraries of a job's environment.
MISSING_MODULE = "SERVERLESS_TWIN_MISSING_MODULE"
# A worker that may not read a checkpoint through Spark either.
NO_READS = "SERVERLESS_TWIN_NO_READS"
RUNTIME = "client.5.1"

SETTABLE = frozenset(
    {
        "spark.sql.shuffle.partitions",
        "spark.sql.session.timeZone",
        "spark.sql.ansi.enabled",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.legacy.timeParserPolicy",
        "spark.databricks.execution.timeout",
    }
)

NOT_A_SETTING = "CONFIG_NOT_AVAILABLE.WITHOUT_SUGGESTION"
NOT_HERE = "NOT_SUPPORTED_WITH_SERVERLESS"
NOT_WITHOUT_END = "INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED"
_STATES = {NOT_A_SETTING: "42K0I"}


@dataclass(frozen=True)
class Refusal:
    """source: docs (Databricks' documentation), live (accounts of runs on serverless by other projects)."""

    what: str
    how: str
    source: str


REFUSALS = (
    Refusal("conf.set, get (with a default, too), unset and SQL SET of every key but six", NOT_A_SETTING, "docs, live"),
    Refusal("persist, cache, checkpoint, localCheckpoint, cacheTable and SQL CACHE TABLE", NOT_HERE, "docs, live"),
    Refusal("every trigger but availableNow (and once)", NOT_WITHOUT_END, "docs, live"),
    Refusal("global temporary views", NOT_HERE, "docs"),
    Refusal("RDD, sparkContext, _jvm", "refused, as on every Spark Connect", "docs"),
    Refusal("the driver's environment variables in a foreachBatch worker", "they are not there", "live, docs"),
    Refusal("numInputRows in the progress of foreachBatch", "0", "live, one account"),
    Refusal("flock, and opening to append, below /Volumes", "OSError EOPNOTSUPP", "docs"),
    Refusal("reading and writing below /Volumes by the worker's own file calls", "PermissionError EACCES", "live"),
    Refusal("libraries of the job in the worker (one run only)", "ModuleNotFoundError", "live, one account"),
    Refusal("a second action on a batch (one run only)", "no rows", "live, one account; doubtful"),
)


def install() -> None:
    """This process refuses what serverless refuses. Does nothing unless the variable is set."""
    side = os.environ.get(VARIABLE, "")
    if side == WORKER:
        _as_a_worker()
    if side:
        sys.addaudithook(_volumes(side))
        _after_import("pyspark.sql.connect.session", _restrict)


def worker_environment(**variables: str) -> None:
    """What each worker that starts from now on has in its environment besides Spark's own."""
    text = "".join(f"{name}={value}\n" for name, value in variables.items())
    (Path(os.environ[FOLDER]) / WORKER_FILE).write_text(text)


def refusal(condition: str, what: str) -> Exception:
    """As the client raises what the server has refused."""
    from pyspark.errors.exceptions.connect import AnalysisException

    state = _STATES.get(condition, "0A000")
    text = f"[{condition}] {what} is not available on serverless compute. SQLSTATE: {state}"
    if not hasattr(AnalysisException, "getCondition"):
        # The client of 3.5 leaves the name of each error that a server gives in its text alone.
        return AnalysisException(text)
    return AnalysisException(message=text, errorClass=condition, messageParameters={}, sql_state=state)


def _restrict() -> None:
    from pyspark.sql.connect.catalog import Catalog
    from pyspark.sql.connect.conf import RuntimeConf
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.readwriter import DataFrameReader
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.connect.streaming.query import StreamingQuery
    from pyspark.sql.connect.streaming.readwriter import DataStreamReader, DataStreamWriter

    for name in ("set", "get", "unset"):
        setattr(RuntimeConf, name, _only_six(getattr(RuntimeConf, name)))
    for name in ("persist", "cache", "checkpoint", "localCheckpoint"):
        setattr(DataFrame, name, _refused(f"DataFrame.{name}"))
    for name in ("createGlobalTempView", "createOrReplaceGlobalTempView"):
        setattr(DataFrame, name, _refused("A global temporary view"))
    setattr(Catalog, "cacheTable", _refused("Catalog.cacheTable"))  # noqa: B010
    _refused_in_sql(SparkSession)
    _only_available_now(DataStreamWriter)
    _without_row_counts(StreamingQuery)
    _auto_loader(DataStreamReader)
    if os.environ.get(NO_READS):
        setattr(DataFrameReader, "text", _refused("A checkpoint"))  # noqa: B010
    if os.environ.get(EMPTY_SECOND):
        from tests.serverless.empty_second import install as empty_second

        empty_second(int(os.environ[EMPTY_SECOND]))


def _refused(what: str) -> Callable[..., Any]:
    def refuse(*given: Any, **named: Any) -> Any:
        raise refusal(NOT_HERE, what)

    return refuse


def _only_six(method: Callable[..., Any]) -> Callable[..., Any]:
    def checked(self: Any, key: str, *rest: Any, **named: Any) -> Any:
        # The client of open-source Spark reads settings for itself; that of serverless knows what it may read.
        if key not in SETTABLE and not sys._getframe(1).f_globals["__name__"].startswith("pyspark."):
            raise refusal(NOT_A_SETTING, f"Configuration {key}")
        return method(self, key, *rest, **named)

    return checked


def _refused_in_sql(session: Any) -> None:
    asked = session.sql

    def sql(self: Any, query: str, *rest: Any, **named: Any) -> Any:
        found = re.match(r"\s*(?:RE)?SET\s+([\w.]+)", query, re.I)
        if found and found[1] not in SETTABLE:
            raise refusal(NOT_A_SETTING, f"Configuration {found[1]}")
        if re.match(r"\s*CACHE\s", query, re.I):
            raise refusal(NOT_HERE, "CACHE TABLE")
        return asked(self, query, *rest, **named)

    session.sql = sql


def _only_available_now(writer: Any) -> None:
    trigger, start = writer.trigger, writer._start_internal

    def checked(self: Any, **given: Any) -> Any:
        if not (given.get("availableNow") or given.get("once")):
            raise refusal(NOT_WITHOUT_END, f"Trigger {given}")
        self._bounded = True
        return trigger(self, **given)

    def begin(self: Any, *given: Any, **named: Any) -> Any:
        if not getattr(self, "_bounded", False):
            raise refusal(NOT_WITHOUT_END, "Trigger ProcessingTime")
        return start(self, *given, **named)

    writer.trigger, writer._start_internal = checked, begin


def _without_row_counts(query: Any) -> None:
    recent, last = query.recentProgress, query.lastProgress

    def counted_nowhere(report: Any) -> Any:
        if report is not None and "ForeachBatchSink" in str(report["sink"]):
            report["numInputRows"] = 0
            for source in report["sources"]:
                source["numInputRows"] = 0
        return report

    query.recentProgress = property(lambda self: [counted_nowhere(one) for one in recent.fget(self)])
    query.lastProgress = property(lambda self: counted_nowhere(last.fget(self)))


def _auto_loader(reader: Any) -> None:
    """Not a refusal: there is no Auto Loader outside of Databricks, and Spark's file source stands in for it."""
    chosen, given = reader.format, reader.option

    def format_of(self: Any, source: str) -> Any:
        if source != "cloudFiles":
            return chosen(self, source)
        return given(given(chosen(self, "binaryFile"), "recursiveFileLookup", "true"), "maxFileAge", "36500d")

    def option(self: Any, key: str, value: Any) -> Any:
        if key.startswith("cloudFiles."):
            name = key.removeprefix("cloudFiles.")
            return given(self, name, value) if name.startswith("max") else self
        return given(self, key, value)

    reader.format, reader.option = format_of, option


def _as_a_worker() -> None:
    """A worker has Spark's variables and no driver's, dies alone, and lacks what it is told to lack."""
    told = Path(os.environ.get(FOLDER, "")) / WORKER_FILE
    if told.exists():
        os.environ.update(line.split("=", 1) for line in told.read_text().splitlines())
    # A fail point kills the process group: without this the server's.
    os.setpgid(0, 0)
    missing = os.environ.get(MISSING_MODULE)
    if missing:
        sys.meta_path.insert(0, _Missing(missing))


class _Missing(importlib.abc.MetaPathFinder):
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] == self._name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _after_import(name: str, act: Callable[[], None]) -> None:
    """`act` is called once, when the module has been imported: most processes never need pyspark."""
    if name in sys.modules:
        act()
        return
    sys.meta_path.insert(0, _AfterImport(name, act))


class _AfterImport(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name, self._act = name, act

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        loader: Any = spec.loader
        run, act = loader.exec_module, self._act

        def exec_module(module: Any) -> None:
            run(module)
            act()

        loader.exec_module = exec_module
        return spec


def _volumes(side: str) -> Callable[[str, Any], None]:
    """What Python says of itself before it touches a file: an answer here is what the file system would give."""
    named = {"open": 0, "os.listdir": 0, "os.scandir": 0, "os.mkdir": 0, "os.remove": 0, "os.rename": 1, "os.rmdir": 0}
    descriptors: Mapping[str, int] = {"fcntl.flock": 0, "fcntl.lockf": 0}

    def hook(event: str, given: Any) -> None:
        if event in named:
            _refuse_path(side, event, given[named[event]], given)
        elif event in descriptors:
            _refuse_lock(given[0])

    return hook


def _below(path: Any) -> bool:
    root = os.environ.get(VOLUMES)
    if not root or not isinstance(path, str | bytes | os.PathLike):
        return False
    return str(Path(os.fsdecode(path)).absolute()).startswith(f"{root}/")


def _refuse_path(side: str, event: str, path: Any, given: Any) -> None:
    if not _below(path):
        return
    if side == WORKER:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(path))
    if event == "open" and given[2] & os.O_APPEND:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), os.fsdecode(path))


def _refuse_lock(descriptor: Any) -> None:
    number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
    if os.environ.get(VOLUMES) and _below(Path(f"/proc/self/fd/{number}").readlink()):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
