"""`surestart explain`: every error that a restart can end in is known, and what is not known is said to be so."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest

from surestart.report.text.explanation import explanation_object, explanation_text
from surestart.verdict.explain import MAX_TEXT, explain
from surestart.verdict.explanations import all_explanations
from surestart.verdict.explanations.explanation import Risk
from surestart.words.codes import all_codes
from tests.diagnosis.called import surestart

EXPECTED = Path(__file__).parent / "expected"

# Conditions that decide over a restart, by where they are raised. Those of Spark 4.1 to 4.3 are not in 4.0's own list.
CONCURRENCY = """CONCURRENT_STREAM_LOG_UPDATE _LEGACY_ERROR_TEMP_2207 CONCURRENT_QUERY DELTA_CONCURRENT_TRANSACTION
    DELTA_CONCURRENT_APPEND DELTA_CONCURRENT_DELETE_READ DELTA_CONCURRENT_DELETE_DELETE"""
CHECKPOINT = """STREAMING_CHECKPOINT_MISSING_METADATA_FILE STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY
    INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION INVALID_LOG_VERSION.EXACT_MATCH_VERSION MALFORMED_LOG_FILE
    BATCH_METADATA_NOT_FOUND CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED CANNOT_LOAD_CHECKPOINT_FILE_MANAGER.X
    STREAMING_UNFINISHED_REPARTITION_DETECTED STATE_REPARTITION_INVALID_CHECKPOINT.LAST_BATCH_FAILED
    STATE_REPARTITION_INVALID_CHECKPOINT.ANYTHING STREAMING_QUERY_EVOLUTION_ERROR.SOURCE_NAMING_NOT_SUPPORTED
    STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT STREAMING_QUERY_EVOLUTION_ERROR.ANYTHING
    STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.ANYTHING _LEGACY_ERROR_TEMP_1298 _LEGACY_ERROR_TEMP_2263"""
STATE = """STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY
    STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE
    STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE
    STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED
    STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED STATE_STORE_INVALID_CONFIG_AFTER_RESTART
    STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE
    STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH
    STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED STATE_STORE_COMMIT_VALIDATION_FAILED
    CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS
    CANNOT_LOAD_STATE_STORE.CANNOT_READ_MISSING_SNAPSHOT_FILE
    CANNOT_LOAD_STATE_STORE.CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT CANNOT_LOAD_STATE_STORE.INVALID_CHECKPOINT_LINEAGE
    CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED CANNOT_LOAD_STATE_STORE.ANYTHING
    STDS_COMMITTED_BATCH_UNAVAILABLE STDS_ANYTHING"""
KAFKA = """KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED KAFKA_DATA_LOSS.PARTITIONS_DELETED
    KAFKA_DATA_LOSS.PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT KAFKA_DATA_LOSS.START_OFFSET_RESET
    KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE
    KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED
    MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED
    END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED
    END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW
    LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW"""
DELTA = """DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE
    DELTA_MISSING_FILES_UNEXPECTED_VERSION DELTA_STREAMING_TRAILING_COMMIT_MISSING DELTA_SOURCE_TABLE_IGNORE_CHANGES
    DELTA_SOURCE_IGNORE_DELETE DELTA_SCHEMA_CHANGED DELTA_SCHEMA_CHANGED_WITH_VERSION
    DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE
    DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG DELTA_STREAMING_METADATA_EVOLUTION
    DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION DELTA_STREAMING_INITIAL_SNAPSHOT_TOO_LARGE
    DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED
    DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS
    DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY
    DELTA_MERGE_SOURCE_CACHED_DURING_EXECUTION"""
USER_CODE = "FOREACH_BATCH_USER_FUNCTION_ERROR STREAM_FAILED STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE"

# Messages as they are printed, with what they are about. None carries the name of a condition.
MESSAGES = {
    "IllegalStateException: Cannot start query with id 7 as another query with same id is already active": (
        "QUERY_ALREADY_ACTIVE"
    ),
    "Multiple streaming queries are concurrently using /data/ck/offsets": "_LEGACY_ERROR_TEMP_2207",
    "java.lang.IllegalStateException: batch 3 doesn't exist": "BATCH_DOES_NOT_EXIST",
    "java.lang.IllegalStateException: Failed to read log file /ck/offsets/4. Incomplete log file": (
        "INCOMPLETE_LOG_FILE"
    ),
    "Incomplete log file in the offset commit log": "INCOMPLETE_LOG_FILE",
    "There are [1] sources in the checkpoint offsets and now there are [2] sources requested by the query.": (
        "SOURCE_COUNT_CHANGED"
    ),
    "Partition orders-3's offset was changed from 9120455 to 17, some data may have been missed.": (
        "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"
    ),
    "Partitions orders-3,orders-4 are gone. Some data may have been missed.": "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
    "The streaming query was reading from an unexpected Delta table (id = 'a').": (
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
    ),
    "24/01/01 INFO DeltaSink: Skipping already complete epoch 12, in query 7": "SKIPPING_COMPLETE_EPOCH",
    "INFO FileStreamSink: Skipping already committed batch 12": "FILE_SINK_BATCH_SKIPPED",
    "Already completed batch 12 will be skipped": "SKIPPING_COMPLETE_EPOCH",
    "WARN MicroBatchExecution: Batch completion log latest batch id is 2, which is not trailing batchid 5 by one": (
        "COMMIT_LOG_BEHIND"
    ),
    "java.io.IOException: No space left on device": "NO_SPACE_LEFT",
    "java.io.FileNotFoundException: /data/offsets/.4.tmp (Read-only file system)": "READ_ONLY_FILE_SYSTEM",
    "The Delta source metadata path used for execution 'a' is different from the one persisted": (
        "DELTA_SOURCE_METADATA_PATH_DIFFERS"
    ),
    "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/ck/offsets/3 at 0": "HADOOP_CHECKSUM_ERROR",
    "StreamingPythonRunnerInitializationException: No module named 'surestart'": (
        "STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE"
    ),
    "IllegalStateException: 'reservoirVersion' has moved back from 9 to 3": "RESERVOIR_VERSION_MOVED_BACK",
}


@pytest.mark.parametrize(
    "name", " ".join((CONCURRENCY, CHECKPOINT, STATE, KAFKA, DELTA, USER_CODE)).split(), ids=lambda name: name
)
def test_every_condition_of_a_restart_is_explained(name: str) -> None:
    answer = explain(f"org.apache.spark.SparkException: [{name}] something went wrong SQLSTATE: XX000")

    assert answer.known
    entry = answer.matches[0].explanation
    assert name == entry.name or name.startswith((entry.name + ".", entry.name + "_"))


@pytest.mark.parametrize(("text", "name"), MESSAGES.items(), ids=list(MESSAGES.values()))
def test_a_message_without_a_condition_is_known_by_its_words(text: str, name: str) -> None:
    answer = explain(text)

    assert answer.known
    assert answer.matches[0].explanation.name == name


def test_every_name_is_spelt_as_spark_kafka_or_delta_spell_it() -> None:
    known = condition_names()
    ours = {code.name for code in all_codes()}
    missing = {entry.name for entry in all_explanations()} - known - LATER_THAN_4_0 - NAMED_HERE - ours

    assert missing == set()


def test_every_streaming_condition_of_the_installed_spark_has_an_answer() -> None:
    asked = [
        name
        for name in condition_names()
        if re.match(r"CANNOT_LOAD_STATE_STORE|STATE_STORE_|STDS_|KAFKA_|DELTA_STREAMING_|DELTA_CONCURRENT_", name)
    ]
    silent = [name for name in asked if not explain(name).known]

    assert len(asked) > 80
    assert silent == []


@pytest.mark.parametrize("entry", all_explanations(), ids=lambda entry: entry.name)
def test_every_explanation_is_whole_and_sends_nobody_into_the_trap(entry: Any) -> None:
    assert entry.happened.endswith(".")
    assert entry.data.endswith(".")
    assert entry.command.verb
    assert len(explanation_text(explain(entry.name))) > 100
    advice = f"{entry.remedy} {entry.command}".lower()
    assert not re.search(r"delete the checkpoint|delete your|new checkpoint location|failondataloss ?= ?false", advice)
    if entry.risk is not Risk.NO:
        assert entry.do_not, "where data is at risk, the tempting wrong step is named"


def test_names_are_unique() -> None:
    names = [entry.name for entry in all_explanations()]

    assert sorted(set(names)) == sorted(names)


def test_a_pasted_traceback_is_explained_by_its_cause_not_by_what_carries_it() -> None:
    answer = explain((EXPECTED / "traceback_foreach_batch.txt").read_text(), environment="prod")

    assert [match.explanation.name for match in answer.matches] == [
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
        "FOREACH_BATCH_USER_FUNCTION_ERROR",
        "STREAM_FAILED",
        "PYTHON_ERROR_IN_BATCH",
    ]
    assert str(answer.matches[0].next) == "surestart run merge-gold -e prod"
    assert dict(answer.facts) == {
        "query id": "0c1f6c1e-3c35-4a26-8a4d-6c2c6a1d4a55",
        "batch": "17",
        "stage": "merge-gold",
    }


@pytest.mark.parametrize(
    "name",
    ["CONCURRENT_STREAM_LOG_UPDATE", "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", "KAFKA_DATA_LOSS", "unknown"],
)
def test_what_is_printed_is_what_was_reviewed(name: str) -> None:
    text = "STREAMING_STATEFUL_OPERATOR_MISMATCH" if name == "unknown" else name
    printed = explanation_text(explain(text))

    assert printed == (EXPECTED / f"explain_{name}.txt").read_text()
    assert max(len(line) for line in printed.splitlines() if not line.startswith("Next: ")) <= 80


def test_an_unknown_text_says_so_and_shows_the_nearest() -> None:
    answer = explain("DELTA_STREAMING_TRAILING_COMIT_MISING")

    assert not answer.known
    assert answer.nearest[0] == "DELTA_STREAMING_TRAILING_COMMIT_MISSING"
    assert "cannot be told" in explanation_text(answer)


def test_text_that_has_nothing_to_do_with_spark_is_not_explained() -> None:
    for text in ("", "   ", "hello", "SELECT 1", "The quick brown fox", "KeyError: 'sensor_id'", "\x00\x1b[2J"):
        assert not explain(text).known, text


def test_a_hostile_text_is_bounded_and_shown_inert() -> None:
    hostile = "\x1b]0;owned\x07" + "A_" * 400_000 + " batch 7 doesn't exist <script>" + "\u202e" * 1000

    answer = explain(hostile)

    assert answer.matches[0].explanation.name == "BATCH_DOES_NOT_EXIST"
    shown = explanation_text(answer) + json.dumps(explanation_object(answer))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown) < 5000


def test_of_a_huge_log_the_end_is_explained_and_not_an_error_long_past() -> None:
    log = "[MALFORMED_LOG_FILE]\n" + "all is well\n" * (MAX_TEXT // 12 + 1) + "batch 3 doesn't exist\n"

    assert [match.explanation.name for match in explain(log).matches] == ["BATCH_DOES_NOT_EXIST"]


@pytest.mark.parametrize("unit", ["A", "Aa", "A_", "/a-b", "INFO batch 17 done\n", "\n", "1", " ", "{"])
def test_eight_megabytes_of_anything_are_answered(unit: str) -> None:
    """A run of one letter took minutes, a log that repeats itself ten seconds, before lines were cut and told once."""
    begin = time.process_time()
    answer = explain(unit * (MAX_TEXT // len(unit)) + "\n[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.")
    assert answer.matches[0].explanation.name == "CONCURRENT_STREAM_LOG_UPDATE"
    assert time.process_time() - begin < 20


def test_an_error_seen_early_and_again_at_the_end_is_explained_though_the_text_is_cut() -> None:
    error = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log of batch 7\n"
    between = "".join(
        f"{letter}{other}{more} {'x' * 4000}\n" for letter in "abcdefgh" for other in "abcdefgh" for more in "abcdefgh"
    )
    assert explain(error + between + error).matches[0].explanation.name == "CONCURRENT_STREAM_LOG_UPDATE"


def test_a_traceback_inside_a_json_line_is_read() -> None:
    line = json.dumps({"message": "query failed\n[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."})
    assert explain(line).matches[0].explanation.name == "CONCURRENT_STREAM_LOG_UPDATE"


def test_the_command_reads_an_argument_a_file_and_standard_input_alike(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text("noise\n" * 1000 + "java.lang.IllegalStateException: batch 3 doesn't exist\n")

    outputs = [
        surestart("explain", "java.lang.IllegalStateException: batch 3 doesn't exist"),
        surestart("explain", "--file", str(log)),
        piped("explain", "-", stdin=log.read_text()),
        piped("explain", stdin=log.read_text()),
    ]

    assert {output.returncode for output in outputs} == {0}
    assert len({output.stdout.split("\n  The text")[0].strip() for output in outputs}) == 1
    assert outputs[0].stdout.startswith("BATCH_DOES_NOT_EXIST\n")


def test_json_is_one_object_and_an_unknown_error_exits_4() -> None:
    known = surestart("explain", "--json", "--stage", "raw-ingest", "MALFORMED_LOG_FILE")
    unknown = surestart("explain", "--json", "NO_SUCH_THING_AT_ALL")

    shown = json.loads(known.stdout)
    assert (known.returncode, shown["schema_version"], shown["known"]) == (0, 1, True)
    assert shown["matches"][0]["next"] == "surestart plan resume raw-ingest -o plan.json"
    assert (unknown.returncode, json.loads(unknown.stdout)["known"]) == (4, False)


def test_a_missing_file_is_a_usage_error_in_four_parts(tmp_path: Path) -> None:
    answer = surestart("explain", "--file", str(tmp_path / "nowhere"))

    assert answer.returncode == 2
    assert answer.stdout == ""
    assert "Meaning:" in answer.stderr
    assert "Next:" in answer.stderr


def test_explaining_imports_neither_spark_nor_arrow() -> None:
    script = (
        "import sys; from surestart.cli.main import main; main(['explain', 'STREAM_FAILED']);"
        "print(sorted({'pyspark', 'pyarrow', 'pandas'} & set(sys.modules)), file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert answer.stderr.strip() == "[]"


def piped(*arguments: str, stdin: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "surestart", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def condition_names() -> set[str]:
    """Every condition, and condition.sub-condition, that the installed Spark, Kafka connector and Delta define."""
    from surestart.spark.jars import read_resolved

    jars = [*Path(pyspark.__file__).parent.glob("jars/spark-common-utils_*.jar"), *read_resolved()]
    names: set[str] = set()
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for member in archive.namelist():
                if re.fullmatch(r"error/(error-conditions|kafka-error-conditions|delta-error-classes)\.json", member):
                    for name, entry in json.load(io.BytesIO(archive.read(member))).items():
                        names |= {name, *(f"{name}.{sub}" for sub in entry.get("subClass", {}))}
    return names


LATER_THAN_4_0 = {
    "KAFKA_NULL_TOPIC_IN_DATA",  # of 4.1
    "KAFKA_MALFORMED_RECORD_TIMESTAMP",  # of 4.2
    "STREAMING_CHECKPOINT_METADATA_ERROR",  # of Databricks, as the next two
    "STREAMING_CHECKPOINT_METADATA_ERROR.DETECTED_PENDING_CONTROL_BATCH",
    "STREAMING_UNRESUMABLE_CONTROL_BATCH_DETECTED",
    "INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED",  # of serverless compute, as the next two
    "NOT_SUPPORTED_WITH_SERVERLESS",
    "CONFIG_NOT_AVAILABLE",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
    "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
    "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
    "CANNOT_LOAD_CHECKPOINT_FILE_MANAGER",
    "STREAMING_UNFINISHED_REPARTITION_DETECTED",
    "STATE_REPARTITION_INVALID_CHECKPOINT",
    "STATE_REPARTITION_INVALID_CHECKPOINT.LAST_BATCH_FAILED",
    "STATE_REPARTITION_INVALID_CHECKPOINT.NO_COMMITTED_BATCH",
    "STATE_REPARTITION_INVALID_CHECKPOINT.NO_BATCH_FOUND",
    "STATE_REPARTITION_INVALID_CHECKPOINT.OFFSET_SEQ_NOT_FOUND",
    "STREAMING_QUERY_EVOLUTION_ERROR",
    "STREAMING_QUERY_EVOLUTION_ERROR.SOURCE_NAMING_NOT_SUPPORTED",
    "STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT",
    "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE",
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
    "STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED",
    "STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH",
    "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
    "STATE_STORE_COMMIT_VALIDATION_FAILED",
    "CANNOT_LOAD_STATE_STORE.INVALID_CHECKPOINT_LINEAGE",
    "CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED",
}
# Texts without a condition of their own, families of conditions, and surestart's own errors.
NAMED_HERE = {
    "QUERY_ALREADY_ACTIVE",
    "INCOMPLETE_LOG_FILE",
    "BATCH_DOES_NOT_EXIST",
    "SOURCE_COUNT_CHANGED",
    "HADOOP_CHECKSUM_ERROR",
    "WATERMARK_TRACKER_IS_NULL",
    "FILE_SOURCE_LOG_CONFLICT",
    "STREAM_METADATA_UNREADABLE",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "KAFKA_TIMEOUT",
    "KAFKA_AUTHENTICATION",
    "STATE_STORE",
    "STDS",
    "RESERVOIR_VERSION_MOVED_BACK",
    "DELTA_SOURCE_METADATA_PATH_DIFFERS",
    "DELTA_STREAMING_SCHEMA_LOG",
    "SKIPPING_COMPLETE_EPOCH",
    "FILE_SINK_BATCH_SKIPPED",
    "COMMIT_LOG_BEHIND",
    "PINNED_CONF_WINS",
    "STOPPED_BY_ANOTHER_START",
    "QUERY_TERMINATED_BY_SIGTERM",
    "NO_SPACE_LEFT",
    "READ_ONLY_FILE_SYSTEM",
    "OUT_OF_MEMORY",
    "PERMISSION_DENIED",
    "SkippedBatch",
    "BatchDropped",
    "ForeignTable",
    "QueryIdUnreadable",
    "CheckpointPathRefused",
    "LeaseHeld",
    "PYTHON_ERROR_IN_BATCH",
    "TASK_FAILED",
}
