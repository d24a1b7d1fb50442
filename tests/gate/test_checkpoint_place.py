"""Every spelling of one folder is one place; different folders stay different."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestart.history.checkpoint_place import checkpoint_place


@pytest.mark.parametrize(
    ("spellings", "place"),
    [
        (("/data/ck/q", "/data/ck/q/", "/data//ck/./q", "file:/data/ck/q", "file:///data/ck/q/"), "/data/ck/q"),
        (
            (
                "/Volumes/main/sensor/v/q", "dbfs:/Volumes/main/sensor/v/q", "/Volumes/MAIN/Sensor/v/q/",
                "/dbfs/Volumes/main/sensor/v/q", "dbfs:///Volumes/main/sensor/v/q", "file:/Volumes/main/sensor/v/q",
            ),
            "/Volumes/main/sensor/v/q",
        ),
        (("dbfs:/ck/q", "/dbfs/ck/q", "dbfs:///ck/q/", "file:/dbfs/ck/q"), "dbfs:/ck/q"),
        (("s3://bucket/ck/q", "s3a://bucket/ck//q/", "S3A://bucket/ck/q"), "s3://bucket/ck/q"),
        (("abfss://c@a.dfs.core.windows.net/q", "ABFS://c@A.dfs.core.windows.net/q/"),
         "abfss://c@a.dfs.core.windows.net/q"),
    ],
)  # fmt: skip
def test_every_spelling_is_one_place(spellings: tuple[str, ...], place: str) -> None:
    assert {checkpoint_place(spelling) for spelling in spellings} == {place}


def test_a_link_is_the_folder_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real" / "q").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert checkpoint_place(f"{tmp_path}/link/q") == checkpoint_place(f"file:{tmp_path}/real/q/")


def test_different_folders_stay_different(tmp_path: Path) -> None:
    for name in ("q", "Q"):
        (tmp_path / name).mkdir()
    paths = [
        f"{tmp_path}/q",
        f"{tmp_path}/Q",
        "/dbfs/q",
        "/Volumes/a/b/c/q",
        "/Volumes/a/b/c/Q",
        "s3://b/q",
        "s3://c/q",
    ]
    assert len({checkpoint_place(path) for path in paths}) == len(paths)
