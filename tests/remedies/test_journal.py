"""The journal says the same whether its files are read or a catalog is asked."""

from __future__ import annotations

from typing import Any

from surestart.environment import Environment, environment_from_settings
from surestart.remedies.journal import FINISHED, UNDOING, read_journals
from tests.remedies.journal_by_hand import write_journal


def test_remedies_come_in_the_order_in_which_they_began(
    spark: Any, environment: Environment, classic_only: None
) -> None:
    first, second = "f" * 64, "a" * 64
    write_journal(environment, first, "finished")
    write_journal(environment, second, "undoing")
    settings = {"catalog": "spark_catalog", "schema": "journal_order", "checkpoint_root": environment.checkpoint_root}
    cataloged = environment_from_settings("dev", "sensor", settings, environ={})
    spark.sql("CREATE SCHEMA journal_order")
    try:
        place = environment.table("surestart_remedies").path
        spark.sql(f"CREATE TABLE {cataloged.table('surestart_remedies').sql} USING delta LOCATION '{place}'")

        journals = read_journals(cataloged, spark)
    finally:
        spark.sql("DROP SCHEMA journal_order CASCADE")

    assert [(one.digest, one.state) for one in journals] == [(first, FINISHED), (second, UNDOING)]
    assert journals == read_journals(environment)
