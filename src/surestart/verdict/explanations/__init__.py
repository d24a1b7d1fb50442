"""What each error of Spark, Kafka and Delta means for a restart: one module for each area, data only."""

from __future__ import annotations

from functools import cache

from surestart.verdict.explanations.explanation import Explanation


@cache
def all_explanations() -> tuple[Explanation, ...]:
    """Every explanation, the specific ones before the wrappers that carry them."""
    from surestart.verdict.explanations import (
        checkpoint_errors,
        concurrency_errors,
        delta_source_errors,
        delta_table_errors,
        kafka_errors,
        log_lines,
        our_errors,
        state_errors,
        user_code_errors,
    )

    modules = (
        checkpoint_errors,
        concurrency_errors,
        delta_source_errors,
        delta_table_errors,
        kafka_errors,
        state_errors,
        log_lines,
        our_errors,
        user_code_errors,
    )
    by_hand = tuple(entry for module in modules for entry in module.EXPLANATIONS)
    told = {entry.name for entry in by_hand}
    return (*by_hand, *(entry for entry in our_errors.OF_THE_CATALOGUE if entry.name not in told))
