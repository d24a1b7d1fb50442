"""What a file says in the place where a checkpoint was, or will be: where the stream is now.

Written by a move (surestart.remedies.basis.durable), and read by whoever looks at the place.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_MARK = "surestart: "
# Whatever else stands there is not read to its end.
_LIMIT = 1 << 16


@dataclass(frozen=True)
class Signpost:
    """place: where the checkpoint is.
    query_id: whose.
    digest: of the move that has put it up.
    coming: the checkpoint is on its way to where the file stands."""

    place: str
    query_id: str
    digest: str
    coming: bool = False

    @property
    def says(self) -> str:
        return f"is on its way to here from {self.place}" if self.coming else f"was moved to {self.place}"

    def as_text(self) -> str:
        said = (
            "The checkpoint of a stream is on its way to this place. It is still at"
            if self.coming
            else "The checkpoint of a stream was here. Since it was moved, the stream goes on at"
        )
        return (
            f"{said}\n\n    {self.place}\n\n"
            "A query that is started here fails, so that it does not begin anew beside that one.\n"
            f"{_MARK}{json.dumps(asdict(self), sort_keys=True)}\n"
        )


def read_signpost(path: Path) -> Signpost | None:
    """None where something else is there, or nothing."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            text = file.read(_LIMIT).decode("utf-8", errors="replace")
        found = json.loads(text.rpartition(_MARK)[2])
        return Signpost(str(found["place"]), str(found["query_id"]), str(found["digest"]), bool(found["coming"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
