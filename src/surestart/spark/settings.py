"""Every Spark and Delta setting that surestart chooses, in one place, each with its reason and its scope.

EVERYWHERE   set on the stream's session before it starts, on a laptop and on a cluster alike
LOCAL        set when surestart builds a local session, with what its line of Spark wants (local_settings); a cluster
             has its own
JVM          options of a local session's JVM; JVM_ON_LINUX only there
MERGE        set on the batch's session around our MERGE
FEW_ROWS     set on the batch's session around an append of few rows
TABLE        a table property, given when surestart creates a table
"""

from __future__ import annotations

from dataclasses import dataclass

from surestart.spark.spark_lines import SparkLine


@dataclass(frozen=True)
class Setting:
    key: str
    value: str
    reason: str


EVERYWHERE = (
    Setting(
        "spark.sql.streaming.stopActiveRunOnRestart",
        "false",
        "Spark's default kills the running query when the same one is started again in the same application.",
    ),
    Setting(
        "spark.databricks.delta.snapshotPartitions",
        "1",
        "Delta rebuilds a table's state after every commit with 50 tasks; these logs are small. "
        "Measured: 2757 -> 587 ms for a tiny append.",
    ),
    Setting(
        "spark.sql.parquet.datetimeRebaseModeInWrite",
        "CORRECTED",
        "Spark 3.5 ends a stream at a reading of before 1900, and at every start again; 4.0 has this as its default.",
    ),
    Setting("spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED", "The same, where times are written as INT96."),
    Setting("spark.sql.session.timeZone", "UTC", "Reading times must not depend on the machine. Serverless has UTC."),
)

LOCAL = (
    Setting("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension", "Delta."),
    Setting("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog", "Delta."),
    Setting("spark.sql.shuffle.partitions", "2", "Two cores. Spark 4.0 pins it in a checkpoint at the first start."),
    Setting("spark.sql.adaptive.enabled", "false", "Re-planning costs more than it saves on two partitions."),
    Setting("spark.ui.enabled", "false", "No port is opened unless asked for; `--ui` turns it on."),
    Setting("spark.ui.showConsoleProgress", "false", "Its bar overwrites our progress lines."),
    Setting("spark.driver.host", "127.0.0.1", "Nothing listens on the network."),
    Setting("spark.driver.bindAddress", "127.0.0.1", "Nothing listens on the network."),
    Setting("spark.sql.ansi.enabled", "true", "As on serverless; Spark 4.0's default, said aloud."),
    Setting(
        "spark.sql.sources.parallelPartitionDiscovery.threshold",
        "10000",
        "A batch of more than 32 files is otherwise looked up by a Spark job of its own with a task for each file.",
    ),
    Setting(
        "spark.sql.ui.explainMode",
        "simple",
        "Every query's plan is written out for the UI, also when there is none; the default, which `--ui` keeps, "
        "writes it in full: a tenth of the driver's work for a tiny batch.",
    ),
    Setting(
        "spark.sql.parquet.outputTimestampType",
        "TIMESTAMP_MICROS",
        "Spark's default, INT96, is deprecated, has no statistics in the file and costs more to write.",
    ),
    Setting(
        "spark.sql.json.filterPushdown.enabled",
        "false",
        "With it Spark's JSON reader resets its filters for every record, also where there are none: 6 % of the "
        "time in deserialize.",
    ),
    Setting("spark.sql.debug.maxToStringFields", "100", "Keeps a warning out of the screen."),
)


def local_settings(line: SparkLine) -> tuple[Setting, ...]:
    """What surestart chooses for a local session on that line of Spark."""
    return (
        *LOCAL,
        Setting(
            "spark.sql.streaming.checkpointFileManagerClass",
            f"{line.file_managers}.FileSystemBasedCheckpointFileManager",
            "The default forks `chmod` and `stat` processes for every log file on a disk without libhadoop. This one "
            "relies on rename, which is atomic on a local disk only. Measured: 70 -> 23 ms a batch.",
        ),
    )


LOCAL_MEMORY = Setting(
    "spark.driver.memory",
    "1g",
    "Enough for 2,000,000 readings in batches of 20 files, on two cores: 1.57 GB in all, Python included. "
    "SURESTART_MEMORY=4g overrides it, for larger batches.",
)


@dataclass(frozen=True)
class JvmOption:
    option: str
    reason: str


JVM = (
    JvmOption(
        "-XX:+UseParallelGC",
        "2,000,000 readings on two cores: 87 s and at most 1.57 GB; with the serial collector 90 to 92 s and 1.66 GB.",
    ),
    JvmOption(
        "-Dderby.system.home=/nonexistent", "Nobody uses Derby; it would write derby.log where Spark is started."
    ),
)

JVM_ON_LINUX = (
    JvmOption(
        "-Djdk.lang.Process.launchMechanism=VFORK",
        "Without libhadoop Hadoop starts a process for each file that it makes, 18 for a tiny batch. Measured "
        "on some hundreds: 1.8 ms each, so 1.1 ms. macOS refuses it.",
    ),
)

# Set for the one MERGE statement and put back after it.
MERGE = (
    Setting(
        "spark.databricks.delta.merge.materializeSource",
        "none",
        "The merged batch is read from Delta by fixed versions through deterministic functions, so reading it twice "
        "gives the same rows; the default writes it to a checkpointed RDD first. Measured: 1388 -> 1060 ms.",
    ),
)

# Set for the write of one batch and put back after it, on classic Spark outside of Databricks only.
FEW_ROWS = (
    Setting(
        "spark.sql.codegen.factoryMode",
        "NO_CODEGEN",
        "surestart.sinks.delta.few_rows. Measured, medians of three rounds in turn: 614 -> 525 ms for a tiny append.",
    ),
)

TABLE = (
    Setting(
        "delta.checkpointInterval",
        "100",
        "A table checkpoint every 10 commits costs 0.5 s each time; every 100 keeps opening the log cheap enough.",
    ),
)


def pairs(settings: tuple[Setting, ...]) -> dict[str, str]:
    return {setting.key: setting.value for setting in settings}
