"""Settings that a compute does not let anybody change: serverless names a subclass of the error, others the error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from surestart.spark.session import applied, read_setting


class RefusedByCompute(PySparkException):
    """in_text: as clients of Spark 3.5 raise what a server of another version refuses, without the name of its own."""

    def __init__(self, condition: str) -> None:
        self.condition, _, in_text = condition.partition(" ")
        super().__init__(
            message=f"{in_text}[{self.condition}] Configuration is not available." if in_text else "refused"
        )
        self.named = None if in_text else self.condition

    def getCondition(self) -> str | None:
        return self.named

    getErrorClass = getCondition


class Settings:
    """Of a session that takes one key and refuses every other, to read it, too."""

    def __init__(self, condition: str) -> None:
        self.condition, self.held = condition, {"spark.sql.session.timeZone": "CET"}

    def get(self, key: str, default: str | None = None) -> str | None:
        return self._of(key).get(key, default)

    def set(self, key: str, value: str) -> None:
        self._of(key)[key] = value

    def unset(self, key: str) -> None:
        del self._of(key)[key]

    def _of(self, key: str) -> dict[str, str]:
        if key != "spark.sql.session.timeZone":
            raise RefusedByCompute(self.condition)
        return self.held


class Session:
    def __init__(self, condition: str) -> None:
        self.conf = Settings(condition)


WANTED = {"spark.databricks.delta.snapshotPartitions": "1", "spark.sql.session.timeZone": "UTC"}


@pytest.mark.parametrize(
    "condition",
    [
        *("CONFIG_NOT_AVAILABLE", "CONFIG_NOT_AVAILABLE.WITHOUT_SUGGESTION", "CONFIG_NOT_AVAILABLE.WITH_SUGGESTION"),
        *("CANNOT_MODIFY_CONFIG.ANY", "CANNOT_MODIFY_STATIC_CONFIG"),
        "CONFIG_NOT_AVAILABLE.WITHOUT_SUGGESTION (org.apache.spark.sql.AnalysisException) ",
    ],
)
def test_what_cannot_be_set_is_left_and_the_rest_is_set_and_put_back(condition: str) -> None:
    session = Session(condition)
    with applied(session, WANTED):  # type: ignore[arg-type]
        assert session.conf.held == {"spark.sql.session.timeZone": "UTC"}
    assert session.conf.held == {"spark.sql.session.timeZone": "CET"}


@pytest.mark.parametrize("condition", ["INTERNAL_ERROR", "CONFIG_NOT_AVAILABLE_ELSEWHERE", "INTERNAL_ERROR (Error) "])
def test_any_other_error_is_raised(condition: str) -> None:
    with pytest.raises(RefusedByCompute), applied(Session(condition), WANTED):  # type: ignore[arg-type]
        raise AssertionError("not reached")


def test_a_setting_that_may_not_be_read_is_none_and_another_failure_is_raised() -> None:
    session = Session("CONFIG_NOT_AVAILABLE.WITHOUT_SUGGESTION")
    assert read_setting(session, "spark.sql.session.timeZone") == "CET"  # type: ignore[arg-type]
    assert read_setting(session, "spark.sql.streaming.checkpointLocation") is None  # type: ignore[arg-type]
    with pytest.raises(RefusedByCompute):
        read_setting(Session("INTERNAL_ERROR"), "spark.any")  # type: ignore[arg-type]


# On classic Spark only, or with an answer of their own to a refusal.
ASK_THEMSELVES = {"spark/session.py", "guarding/once.py", "facts/kafka/security.py"}


def test_no_other_module_asks_a_session_for_a_setting() -> None:
    """Serverless compute refuses to read nearly all of them: a start would end there in Spark's own error."""
    source = Path(__file__).parents[2] / "src" / "surestart"
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if ".conf.get(" in path.read_text()}
    assert found - ASK_THEMSELVES == set()
