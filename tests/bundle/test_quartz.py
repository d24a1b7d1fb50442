from __future__ import annotations

import pytest

from tests.bundle.quartz import faults_of


@pytest.mark.parametrize(
    "expression",
    [
        "0 0/10 * * * ?",
        "0 3/10 * * * ?",
        "0 30 6 ? * MON-FRI",
        "0 0 2 1 * ?",
        "0 0 0 L * ?",
        "0 0 0 15W * ?",
        "0 15 10 ? * 6L",
        "0 15 10 ? * FRI#3",
        "0 0,30 8-18 * JAN,JUL ? 2026-2030",
    ],
)
def test_a_quartz_expression_is_accepted(expression):
    assert faults_of(expression) == ()


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("*/10 * * * *", "has 5 fields"),
        ("", "has 0 fields"),
        ("0 0/10 * * * *", "exactly one"),
        ("0 0/10 * ? * ?", "exactly one"),
        ("0 60 * * * ?", "minutes '60'"),
        ("0 0 24 * * ?", "hours '24'"),
        ("0 0 0 0 * ?", "day-of-month '0'"),
        ("0 0 0 ? * FUN", "day-of-week 'FUN'"),
        ("0 0 0 ? * 0", "day-of-week '0'"),
        ("0 0/0 * * * ?", "minutes '0/0'"),
        ("0 0/x * * * ?", "minutes '0/x'"),
        ("every 10 minutes at the hour", "seconds 'every'"),
    ],
)
def test_an_expression_that_databricks_would_refuse_is_named(expression, fault):
    assert any(fault in found for found in faults_of(expression)), faults_of(expression)
