"""A store whose client is missing: what is named is what opens that store, and no other."""

from __future__ import annotations

import sys

import pytest

from surestart.errors import CannotTell
from surestart.facts.storage import cloud_stores
from surestart.facts.storage.open_storage import open_storage

CASES = {
    "s3://b/ck": ("fsspec s3fs", "surestart[s3]"),
    "s3a://b/ck": ("fsspec s3fs", "surestart[s3]"),
    "gs://b/ck": ("fsspec gcsfs", "surestart[gcs]"),
    "abfss://c@a.dfs.core.windows.net/ck": ("fsspec adlfs", "surestart[azure]"),
    "wasbs://c@a.blob.core.windows.net/ck": ("fsspec adlfs", "surestart[azure]"),
    "hdfs://name/ck": ("fsspec pyarrow", "HADOOP_HOME"),
    "oss://b/ck": ("fsspec", "no extra of surestart opens oss://"),
}


@pytest.mark.parametrize("url", CASES)
def test_the_client_that_is_missing_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests have no client of any store; where somebody has installed one, it is hidden.
    for name in ("s3fs", "gcsfs", "adlfs", "ossfs"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(cloud_stores, "find_spec", lambda name: None)

    with pytest.raises(CannotTell) as raised:
        open_storage(url)

    packages, note = CASES[url]
    command, _, said = str(raised.value.next).partition("  # ")
    assert command.endswith(f"-m pip install {packages}")
    assert note in said
    assert ("[s3]" in str(raised.value.next)) == url.startswith("s3")
    assert raised.value.code in ("StorageNotInstalled", "StorageNotReachable")


def test_a_client_that_is_there_and_cannot_log_in_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError("no credentials")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
    monkeypatch.setattr(cloud_stores, "find_spec", lambda name: object())
    with pytest.raises(CannotTell) as raised:
        open_storage("s3://b/ck")
    assert "pip install" not in str(raised.value.next)
    assert raised.value.code == "StorageNotReachable"
