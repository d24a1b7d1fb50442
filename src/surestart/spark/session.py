"""Sessions: the local one, and the few differences between classic Spark and Spark Connect.

Nothing outside this module touches sparkContext, _jvm, _jdf or an RDD: they do not exist on Spark Connect, on
serverless compute and in standard access mode.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from surestart.cache import cache_folder
from surestart.errors import UsageError
from surestart.library_types import DataFrame, SparkSession
from surestart.spark import class_archive
from surestart.spark.jars import resolve_jars
from surestart.spark.java import Java, find_java, launcher_home
from surestart.spark.settings import EVERYWHERE, JVM, JVM_ON_LINUX, LOCAL_MEMORY, local_settings, pairs
from surestart.spark.spark_lines import installed_line, refuse_too_old
from surestart.typed import surestart, typed
from surestart.words.spark_errors import condition_of, is_condition

_log = logging.getLogger("surestart.spark.session")


def local_session(
    application: str = "surestart",
    *,
    master: str = "local[2]",
    ui: bool = False,
    memory: str = "",
    confs: Mapping[str, str] | None = None,
    more_packages: tuple[str, ...] = (),
) -> SparkSession:
    """A local Spark with Delta, Kafka and Avro, quiet and bound to 127.0.0.1; the running one if there is one."""
    _refuse_two_sparks()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    line = installed_line()
    jars, java = resolve_jars(more=more_packages), find_java(supported=line.java)
    os.environ["JAVA_HOME"] = str(launcher_home(java))
    # Workers must be this interpreter: another minor version fails on the first Python function.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    memory = memory or os.environ.get(MEMORY) or LOCAL_MEMORY.value
    settings = {
        **pairs(local_settings(line)),
        **pairs(EVERYWHERE),
        "spark.ui.enabled": str(ui).lower(),
        LOCAL_MEMORY.key: memory,
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": java_options(java, jars),
        # Without it Spark makes a folder spark-warehouse wherever it is started.
        "spark.sql.warehouse.dir": str(cache_folder() / "warehouse"),
        **(confs or {}),
    }
    if ui:
        settings.pop("spark.sql.ui.explainMode", None)
    if not master.startswith("local"):
        # Executors are processes of their own, which find the connectors at the same place.
        settings.setdefault("spark.executor.extraClassPath", settings["spark.driver.extraClassPath"])
        settings.setdefault("spark.executor.memory", memory)
    builder = SparkSession.builder.appName(application).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def java_options(java: Java, jars: Sequence[Path]) -> str:
    """Spark splits this text at spaces, except between quotation marks."""
    log4j = importlib.resources.files("surestart.spark") / "log4j2.properties"
    options = [
        f"-Dlog4j2.configurationFile={Path(str(log4j)).as_uri()}",
        *(setting.option for setting in JVM + (JVM_ON_LINUX if sys.platform == "linux" else ())),
        *class_archive.archive_options(java, jars),
    ]
    return " ".join([*map(_quoted, options), os.environ.get(JAVA_OPTIONS, "")]).rstrip()


def _quoted(option: str) -> str:
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if escaped != option or any(mark.isspace() or mark == "'" for mark in option) else option


def check_local_spark(say: Callable[[str], object] = lambda line: None) -> None:
    """Where `session` would start a Spark of its own, its Java and its jars are here; raises before anything else has
    been done when they are not. say: gets a line for each jar that has to be downloaded."""
    if not runs_on_databricks() and not os.environ.get("SPARK_REMOTE"):
        find_java(supported=installed_line().java)
        resolve_jars(say=say)


def obtain_session(application: str = "surestart", *, ui: bool = False) -> SparkSession:
    """The session that is there (Databricks, a notebook, Spark Connect by SPARK_REMOTE), else a local one, or one on
    the cluster that SURESTART_MASTER names."""
    if runs_on_databricks() or os.environ.get("SPARK_REMOTE"):
        from pyspark.sql import SparkSession

        # No appName: on a session that exists it would be a setting, which Spark Connect refuses.
        found = SparkSession.builder.getOrCreate()
        refuse_too_old(spark_version(found))
        return found
    return local_session(application, ui=ui, master=os.environ.get(MASTER) or "local[2]")


def session_at_hand() -> SparkSession | None:
    """The session that is there already: of Databricks, or of the server that SPARK_REMOTE names. None where there is
    none: a question starts no Spark, and a local one knows no catalog but its own."""
    return obtain_session() if runs_on_databricks() or os.environ.get("SPARK_REMOTE") else None


# A standalone cluster, such as spark://127.0.0.1:7077. It sees the same paths as this machine.
MASTER = "SURESTART_MASTER"
# More options for the JVM of a local session, such as -XX:TieredStopAtLevel=1 where runs are short.
JAVA_OPTIONS = "SURESTART_JAVA_OPTIONS"
# Heap of a local session, such as 4g.
MEMORY = "SURESTART_MEMORY"


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def stream_session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session for one of several streams of this process. On Spark Connect each has its own: a foreachBatch
    function there runs in the user's session (SPARK-44462), and two streams in it would share the transaction settings
    of their MERGEs: Delta would skip one batch for the other's. Classic Spark gives each stream a copy by itself."""
    if not is_connect(spark):
        yield spark
        return
    own = _another_session(spark)
    try:
        yield own
    finally:
        own.stop()


def _another_session(spark: SparkSession) -> SparkSession:
    remote = os.environ.get("SPARK_REMOTE")
    if remote:
        fresh: SparkSession = type(spark).builder.remote(remote).create()
        return fresh
    if importlib.util.find_spec("databricks.connect") is not None:
        from databricks.connect import DatabricksSession

        own: SparkSession = DatabricksSession.builder.create()
        return own
    raise UsageError(
        "several streams need a Spark Connect session each, and how to open another one is not known here",
        meaning="In one session they would share the transaction of their MERGEs, and lose batches to each other.",
        next=surestart("run", "STAGE", note="one process per stage"),
        code="OneSessionForAll",
    )


def running_query_id(spark: SparkSession, query: str) -> str:
    """Inside foreachBatch: the id that the query itself runs under, whatever its checkpoint says by now. "" outside of
    a query, and where Spark does not tell."""
    from pyspark.errors import PySparkException

    if not is_connect(spark):
        # A property of the thread that runs the batch, which this call comes from (StreamExecution.QUERY_ID_KEY).
        return spark.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
    try:
        # Connect runs the function in the user's session, whose query it is.
        return next((str(one.id) for one in spark.streams.active if one.name == query), "")
    except PySparkException:
        return ""


def qualified(spark: SparkSession, path: str) -> str | None:
    """The path as Spark takes it, with its file system and folder; None where this session cannot say."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    if is_connect(spark):
        return None
    classic: Any = spark
    jvm, inner = classic._jvm, classic._jsparkSession
    try:
        folder = jvm.org.apache.hadoop.fs.Path(path)
        found = folder.getFileSystem(inner.sessionState().newHadoopConf()).makeQualified(folder)
        return str(found.toString())
    except Py4JJavaError:
        # A store that this session cannot open: the start itself will say so.
        return None


def restarts_running(spark: SparkSession) -> bool:
    """Whether Spark ends a running query when the same one is started again, as it does unless told otherwise."""
    return (read_setting(spark, "spark.sql.streaming.stopActiveRunOnRestart") or "true").lower() == "true"


def read_setting(spark: SparkSession, key: str) -> str | None:
    """None where the session has no such setting, and on a compute that neither tells nor changes it (serverless)."""
    from pyspark.errors import PySparkException

    try:
        return spark.conf.get(key, None)
    except PySparkException as refusal:
        if not is_condition(refusal, _NOT_CHANGEABLE):
            raise
        return None


def side_session(spark: SparkSession) -> SparkSession:
    """A session beside the user's, at the same catalog and schema, in which settings may be changed while theirs is in
    use. Spark Connect has none to give: there it is theirs."""
    if is_connect(spark):
        return spark
    own = spark.newSession()
    own.catalog.setCurrentCatalog(spark.catalog.currentCatalog())
    own.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
    return own


def spark_version(spark: SparkSession) -> str:
    return str(spark.version)


@contextmanager
def applied(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[frozenset[str]]:
    """The session has these settings inside the block and its former ones afterwards, also when the block fails. What
    this compute lets nobody change (serverless) stays as it is, with a log line, and is what the block is given."""
    former: dict[str, str | None] = {}

    def change(key: str) -> None:
        # Serverless refuses to read such a setting, too; and what cannot be read could not be put back.
        before = spark.conf.get(key, None)
        spark.conf.set(key, settings[key])
        former[key] = before

    try:
        yield frozenset(key for key in settings if not _unless_refused(spark, key, change))
    finally:
        for key, before in former.items():
            if before is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, before)


@contextmanager
def only_inside(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session has these settings inside the block and none of them afterwards. Raises where it may not."""
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


def takes_setting(spark: SparkSession, key: str) -> bool:
    """Whether a session can have that setting on this compute: tried, and put back."""
    with applied(spark, {key: "asked"}) as refused:
        return key not in refused


def _unless_refused(spark: SparkSession, key: str, act: Callable[[str], None]) -> bool:
    """False: this compute lets nobody change that setting. Each session is asked once."""
    from pyspark.errors import PySparkException

    known = _REFUSED.setdefault(spark, set())
    if key in known:
        return False
    try:
        act(key)
    except PySparkException as refusal:
        if not is_condition(refusal, _NOT_CHANGEABLE):
            raise
        known.add(key)
        _log.warning("%s cannot be set here (%s); going on without it", key, condition_of(refusal))
        return False
    return True


# What each session was refused: settings, and to keep rows.
_REFUSED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
_KEEPING = "persist"
_NOT_CHANGEABLE = frozenset({"CONFIG_NOT_AVAILABLE", "CANNOT_MODIFY_CONFIG", "CANNOT_MODIFY_STATIC_CONFIG"})
_NOT_KEPT = frozenset({"NOT_SUPPORTED_WITH_SERVERLESS"})


@contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """The rows are computed once for several writes inside the block. Serverless compute refuses to keep any; there
    they are computed for each write."""
    with persisted_if_possible(rows):
        yield rows


@contextmanager
def persisted_if_possible(rows: DataFrame) -> Iterator[bool]:
    """As `persisted`; whether they are."""
    held = _is_kept(rows)
    try:
        yield held
    finally:
        if held:
            rows.unpersist()


def keeps_batch_rows(spark: SparkSession) -> bool:
    """Whether rows can be kept on this compute; each session is asked once."""
    if not is_connect(spark):
        return True
    with persisted_if_possible(spark.range(0)) as held:
        return held


def _is_kept(rows: DataFrame) -> bool:
    """Asked by trying: the worker of a foreachBatch function has no variable that says where it runs."""
    from pyspark.errors import PySparkException

    known = _REFUSED.setdefault(rows.sparkSession, set())
    if _KEEPING in known:
        return False
    try:
        rows.persist()
    except PySparkException as refusal:
        if not is_condition(refusal, _NOT_KEPT):
            raise
        known.add(_KEEPING)
        return False
    return True


def _refuse_two_sparks() -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        connect = version("databricks-connect")
        plain = version("pyspark")
    except PackageNotFoundError:
        return
    raise UsageError(
        f"both databricks-connect {connect} and pyspark {plain} are installed here",
        meaning="They own the same files; whichever came last has half replaced the other.",
        next=typed(sys.executable, "-m", "pip", "uninstall", "-y", "databricks-connect", "pyspark"),
        do_not="put the extras `local` and `connect` into one environment.",
        code="TwoSparks",
    )


def runs_on_databricks() -> bool:
    return "DATABRICKS_RUNTIME_VERSION" in os.environ
