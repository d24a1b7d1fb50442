from __future__ import annotations

from pathlib import Path

import pytest

from tests.state import fixtures


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NAME/checkpoint and NAME/expected.json of each stream in the archive. Nobody writes in it."""
    into = tmp_path_factory.mktemp("state")
    fixtures.unpack(into)
    return into
