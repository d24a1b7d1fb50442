"""A stage that has stopped says why: the cause in its first words, and by its own name, and not what carried it."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestart.environment import environment_from_settings
from surestart.runs.stage_failures import failed
from surestart.stage import BatchContext

CARRIED = (
    "[STREAM_FAILED] Query [id = 0c1f6c1e-3c35-4a26-8a4d-6c2c6a1d4a55, runId = 55] terminated with exception: "
    "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. "
    "Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
    '  File "/work/pyspark/sql/utils.py", line 120, in call\n    raise e\n'
    '  File "/work/gold.py", line 41, in write_batch\n    spark.sql(merge)\n'
)
JVM = "\n\nJVM stacktrace:\norg.apache.spark.X: [OTHER_NAME] more\n\tat org.apache.spark.Y(Y.scala:1)\nNoise: below"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            "pyspark.errors.exceptions.captured.AnalysisException: [DELTA_MERGE_UNRESOLVED_EXPRESSION] "
            "Cannot resolve t.note in UPDATE clause;\n'MergeIntoTable\n:- Relation",
            "DELTA_MERGE_UNRESOLVED_EXPRESSION",
            "Cannot resolve t.note",
        ),
        ("ValueError: no such room", "FOREACH_BATCH_USER_FUNCTION_ERROR", "ValueError: no such room"),
    ],
)
def test_a_batch_that_failed_in_python_names_its_cause(tmp_path: Path, error: str, code: str, said: str) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    context = BatchContext(environment, "merge-gold", "sensor-merge-gold", "/ck")
    jvm = JVM if code.startswith("DELTA") else ""
    found = failed(context, RuntimeError(CARRIED + error + jvm))
    assert found.code == code
    assert said in found.what
    assert "Traceback" not in found.what
    assert str(found.next).startswith(f"surestart explain {code} --stage merge-gold")


def test_another_error_is_said_by_its_first_line(tmp_path: Path) -> None:
    environment = environment_from_settings("local", "sensor", {"root": str(tmp_path)}, environ={})
    context = BatchContext(environment, "merge-gold", "sensor-merge-gold", "/ck")
    found = failed(context, RuntimeError("\n[DELTA_SCHEMA_CHANGED] the schema\nhas changed"))
    assert (found.code, found.what) == (
        "DELTA_SCHEMA_CHANGED",
        "stage 'merge-gold' stopped: [DELTA_SCHEMA_CHANGED] the schema",
    )
