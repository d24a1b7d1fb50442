"""The rows of a range are read from the files that it is in, and from no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sensor_pipeline.stages import build_stages
from surestart.environment import Environment
from surestart.remedies.basis.position_sets import Range, read_range_rows
from tests.foundation.rows import land


@pytest.mark.parametrize(
    ("name", "alone"), [("Plain-0_1.jsonl", True), ("a name with 100% {odd} [marks] é+.jsonl", False), ("%20", False)]
)
def test_a_hole_in_one_file_opens_no_other_file(spark: Any, environment: Environment, name: str, alone: bool) -> None:
    """By a name that Spark would encode it could not find the file: then it opens them all."""
    land(environment, 40, per_file=20)
    landing = Path(environment.landing)
    others = list(landing.iterdir())
    wanted = landing / "below" / name
    wanted.parent.mkdir()
    wanted.write_bytes(b"".join(b"%d\n" % number for number in range(9)))

    rows = read_range_rows(spark, environment, build_stages({})[0], [Range(f"file:{wanted}", 0, 3, 4)])
    if alone:
        # Spark has listed them all by now.
        for other in others:
            other.unlink()

    assert sorted((row.offset, bytes(row.payload)) for row in rows.collect()) == [(3, b"3"), (4, b"4")]
