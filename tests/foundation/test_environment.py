"""Names and paths: the same at every run, never shared, never inside one another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment, check_distinct_checkpoints, environment_from_settings
from surestart.errors import UsageError


def test_a_checkpoint_path_is_the_root_and_the_query_name() -> None:
    environment = environment_from_settings("dev", "sensor", {"root": "/data/sensor"}, environ={})

    assert environment.checkpoint("raw-ingest") == "/data/sensor/checkpoints/sensor-raw-ingest"
    assert environment.checkpoint("raw-ingest") == environment.checkpoint("raw-ingest")
    assert environment.table("sensor_raw").sql == "delta.`/data/sensor/tables/sensor_raw`"


def test_a_catalog_gives_three_level_names_and_a_volume_for_checkpoints() -> None:
    environment = environment_from_settings("prod", "sensor", {"catalog": "main", "schema": "sensor"}, environ={})

    assert environment.table("sensor_gold").sql == "`main`.`sensor`.`sensor_gold`"
    assert environment.checkpoint("merge-gold") == "/Volumes/main/sensor/checkpoints/sensor-merge-gold"


@pytest.mark.parametrize(
    "root",
    [
        "relative/checkpoints",
        "",
        "/data/2026-11-18/checkpoints",
        "/data/20261118",
        "/data/year=%Y",
        "/data/{{job.run_id}}",
        "/data/${run}",
        "/data/run_id=7/checkpoints",
        "/data/application_1700000000000_0001",
        "/data/7f6d9cde-1111-2222-3333-444455556666",
        "/data/1763467200",
        "/data/../data/checkpoints",
        "/data/{date}/ck",
        "/data/$DATE/ck",
        "/data/year=2026/month=11/day=18/ck",
        "/data/dt=today/ck",
        "/data/18-11-2026/ck",
        "/data/18112026/ck",
        "/data/2026-11/ck",
        "/data/2026/11/ck",
        "/data/2026-W47/ck",
    ],
)
def test_a_path_that_another_run_would_spell_differently_is_refused(root: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Environment(name="local", pipeline="sensor", checkpoint_root=root, root="/data")

    assert refusal.value.code == "CheckpointPathRefused"
    assert "checkpoint_root" in str(refusal.value)


def test_ordinary_paths_are_accepted() -> None:
    for root in (
        "/Volumes/main/sensor/checkpoints",
        "abfss://lake@account.dfs.core.windows.net/ck",
        "/srv/v2/ck",
        "/srv/room-2026/ck",
        "/srv/sensor-12.4.1/ck",
        "/srv/birthday/dates/ck",
    ):
        Environment(name="prod", pipeline="sensor", checkpoint_root=root, catalog="main", schema="sensor")


def test_a_checkpoint_inside_the_tables_folder_is_refused() -> None:
    with pytest.raises(UsageError, match="inside the tables"):
        environment_from_settings(
            "local", "sensor", {"root": "/data", "checkpoint_root": "/data/tables/sensor_raw/checkpoints"}, environ={}
        )


def test_neither_checkpoints_nor_tables_lie_in_the_folder_whose_files_are_read() -> None:
    with pytest.raises(UsageError, match="inside the landing folder") as refusal:
        environment_from_settings(
            "local", "sensor", {"root": "/data", "checkpoint_root": "/data/landing/checkpoints"}, environ={}
        )
    assert refusal.value.code == "CheckpointPathRefused"
    with pytest.raises(UsageError, match="tables' folder /data/tables is inside the landing folder"):
        environment_from_settings(
            "local", "sensor", {"root": "/data", "landing": "/data", "checkpoint_root": "/ck"}, environ={}
        )


CATALOG = {"SURESTART_CATALOG": "main", "SURESTART_SCHEMA": "sensor"}


def test_a_root_that_is_given_wins_over_a_catalog_of_the_variables() -> None:
    environment = environment_from_settings("dev", "sensor", {"root": "/data"}, environ=CATALOG)

    assert environment.table("sensor_raw").path == "/data/tables/sensor_raw"
    assert environment.checkpoint("raw-ingest") == "/data/checkpoints/sensor-raw-ingest"
    assert (environment.catalog, environment.schema) == ("", "")
    assert environment_from_settings("dev", "sensor", {}, environ=CATALOG).table("t").label == "main.sensor.t"


def test_a_root_and_a_catalog_given_together_are_refused() -> None:
    with pytest.raises(UsageError, match="root '/data' is given, and catalog and schema too"):
        environment_from_settings("dev", "sensor", {"root": "/data", "catalog": "main", "schema": "s"}, environ={})


def test_two_queries_of_one_name_are_two() -> None:
    with pytest.raises(UsageError, match="used by two queries of the name a"):
        check_distinct_checkpoints([("a", "/ck/a"), ("a", "/ck/a")])


def test_two_stages_of_one_name_are_refused_before_one_of_them_starts() -> None:
    from surestart.cli.arguments import choose_stages
    from surestart.stage import Pipeline

    one, two, _ = build_stages({})
    pipeline = Pipeline("sensor", lambda settings: (one, replace(two, name=one.name)))

    with pytest.raises(UsageError, match="2 stages of the name 'raw-ingest'") as refusal:
        choose_stages(pipeline, {}, "all")
    assert refusal.value.code == "CheckpointPathRefused"


@pytest.mark.parametrize(
    "paths",
    [
        {"a": "/ck/one", "b": "/ck/one"},
        {"a": "/ck/one", "b": "/ck/one/"},
        {"a": "/ck/one", "b": "/ck/one/two"},
        {"a": "/ck/one/two", "b": "/ck/one"},
    ],
)
def test_shared_and_nested_checkpoints_are_refused(paths: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        check_distinct_checkpoints(paths)


def test_neighbours_with_a_common_prefix_are_not_nested() -> None:
    check_distinct_checkpoints({"a": "/ck/sensor-raw", "b": "/ck/sensor-raw-2"})


@pytest.mark.parametrize("name", ["production", "", "LOCAL", "../local"])
def test_an_unknown_environment_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        environment_from_settings(name, "sensor", {"root": "/data"}, environ={})


@pytest.mark.parametrize("table", ["a.b", "a`b", "a b", "../a", "a;DROP TABLE x", ""])
def test_a_table_name_that_would_name_something_else_is_refused(table: str) -> None:
    environment = environment_from_settings("local", "sensor", {"root": "/data"}, environ={})

    with pytest.raises(UsageError):
        environment.table(table)


def test_prod_without_a_place_for_its_tables_is_refused() -> None:
    with pytest.raises(UsageError, match="neither a root folder nor a catalog"):
        environment_from_settings("prod", "sensor", {}, environ={})
