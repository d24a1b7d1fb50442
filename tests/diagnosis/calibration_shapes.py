"""The damages that are really restarted: what people do to checkpoints, and what crashes and storages do to them.

A damage is a function of the checkpoint's folder. Files are changed together with their hidden checksum, as an editor
on another machine or an object store would leave them; "stale" shapes leave the checksum behind.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.diagnosis.restart_lab import LAST, Shape, remove, write

Damage = Callable[[Path], object]


def gone(*names: str) -> Damage:
    return lambda checkpoint: remove(*(checkpoint / name for name in names))


def cut(name: str, length: int) -> Damage:
    return lambda checkpoint: write(checkpoint / name, (checkpoint / name).read_bytes()[:length])


def edit(name: str, change: Callable[[str], str]) -> Damage:
    return lambda checkpoint: write(checkpoint / name, change((checkpoint / name).read_text()))


def position(text: str) -> Damage:
    return edit(f"offsets/{LAST}", lambda old: "\n".join([*old.split("\n")[:2], text]))


def both(*damages: Damage) -> Damage:
    def do(checkpoint: Path) -> None:
        for damage in damages:
            damage(checkpoint)

    return do


def stale(name: str, length: int) -> Damage:
    """The file cut, its checksum left as it was."""
    return lambda checkpoint: (checkpoint / name).write_bytes((checkpoint / name).read_bytes()[:length])


def folder_instead(name: str) -> Damage:
    return lambda checkpoint: (remove(checkpoint / name), (checkpoint / name).mkdir())


def beside(name: str, text: str = "") -> Damage:
    return lambda checkpoint: (checkpoint / name).write_text(text)


N, BEFORE = f"offsets/{LAST}", f"offsets/{LAST - 1}"
C, C_BEFORE = f"commits/{LAST}", f"commits/{LAST - 1}"

SHAPES = [
    Shape("nothing", lambda checkpoint: None),
    Shape("in flight", gone(C)),
    Shape("in flight, the commit's checksum left", lambda checkpoint: (checkpoint / C).unlink()),
    Shape("metadata empty", cut("metadata", 0)),
    Shape("metadata cut", cut("metadata", 20)),
    Shape("metadata of another tool", edit("metadata", lambda text: '{"id":"hello"}')),
    Shape("metadata followed by garbage", edit("metadata", lambda text: text + "garbage")),
    Shape("metadata stale checksum", lambda checkpoint: (checkpoint / "metadata").open("a").write("\n")),
    Shape("metadata a folder", folder_instead("metadata")),
    Shape("metadata deleted", gone("metadata")),
    Shape("metadata deleted, in flight", gone("metadata", C)),
    Shape("offsets empty", cut(N, 0)),
    Shape("offsets cut to v1", cut(N, 2)),
    Shape("offsets cut in the settings", cut(N, 100)),
    Shape("offsets without a source", edit(N, lambda text: "\n".join(text.split("\n")[:2]))),
    Shape("offsets cut in the position", edit(N, lambda text: text[:-1])),
    Shape("offsets with two sources", edit(N, lambda text: text + "\n5")),
    Shape("offsets void", position("-")),
    Shape("offsets without settings", edit(N, lambda text: "v1\n\n" + text.split("\n")[2])),
    Shape("offsets stale checksum", stale(N, 100)),
    Shape("offsets version 9", edit(N, lambda text: text.replace("v1", "v9", 1))),
    Shape("offsets no UTF-8", lambda checkpoint: write(checkpoint / N, (checkpoint / N).read_bytes() + b"\xff")),
    Shape("offsets of a Kafka query", position('{"orders":{"0":5}}')),
    Shape("offsets moved back", position('{"logOffset":1}')),
    Shape("offsets beyond the list", position('{"logOffset":99}')),
    Shape("offsets a folder", folder_instead(N)),
    Shape("offsets with a name Java misreads", beside("offsets/+9", "v1")),
    Shape("offsets with a draft left", beside("offsets/.5.9e3b0cd7-9b7c-4b0e-8b7a-0b6f0b0e8f33.tmp")),
    Shape("one before the newest empty", cut(BEFORE, 0)),
    Shape("one before the newest cut", cut(BEFORE, 100)),
    Shape("hole before the newest", gone(BEFORE)),
    Shape("older hole", gone("offsets/1")),
    Shape("commit empty", cut(C, 0)),
    Shape("commit cut to v1", cut(C, 2)),
    Shape("commit cut", cut(C, 10)),
    Shape("commit version 2 without state", edit(C, lambda text: text.replace("v1", "v2", 1))),
    Shape("commit followed by garbage", edit(C, lambda text: text + "xx")),
    Shape("commit a folder", folder_instead(C)),
    Shape("older commit empty", cut(C_BEFORE, 0)),
    Shape("commits behind by two", gone(C, C_BEFORE)),
    Shape("commits deleted", gone("commits")),
    Shape("commits hole", gone("commits/1")),
    Shape("newest offsets deleted", gone(N)),
    Shape("newest offsets deleted, commit hole", gone(N, C_BEFORE)),
    Shape("rewound by one", gone(N, C)),
    Shape("rewound by two", gone(N, BEFORE, C, C_BEFORE)),
    Shape("offsets deleted", gone("offsets")),
    Shape("offsets and commits deleted", gone("offsets", "commits")),
    Shape("all but metadata deleted", gone("offsets", "commits", "sources")),
    Shape("all but sources deleted", gone("offsets", "commits", "metadata")),
    Shape("everything deleted", lambda checkpoint: shutil.rmtree(checkpoint)),
    Shape("file list deleted", gone("sources")),
    Shape("file list behind", gone(f"sources/0/{LAST}")),
    Shape("file list hole", gone("sources/0/1")),
    Shape("file list cut", cut(f"sources/0/{LAST}", 30)),
    Shape("file list cut to v1", cut(f"sources/0/{LAST}", 2)),
    Shape("stateful: nothing", lambda checkpoint: None, "dedup"),
    Shape("stateful: in flight", gone(C), "dedup"),
    Shape("stateful: state deleted", gone("state"), "dedup"),
    Shape("stateful: version of the next batch gone", gone(f"state/0/0/{LAST + 1}.delta"), "dedup"),
    Shape("stateful: in flight, version after it gone", gone(f"state/0/0/{LAST + 1}.delta", C), "dedup"),
    Shape("stateful: partition gone", gone("state/0/1"), "dedup"),
    Shape("stateful: version empty", cut(f"state/0/0/{LAST + 1}.delta", 0), "dedup"),
    Shape("stateful: version cut, stale checksum", stale(f"state/0/0/{LAST + 1}.delta", 20), "dedup"),
    Shape("stateful: metadata gone", gone("state/0/_metadata"), "dedup", since="4.0"),
    Shape("stateful: offsets and commits deleted", gone("offsets", "commits"), "dedup"),
    Shape("stateful: rewound by one", gone(N, C), "dedup"),
    Shape("stateful: commits behind by two", gone(C, C_BEFORE), "dedup"),
]

# Enough for `make test-all`: each class of outcome, each file. The other lines restart all of them.
FAST = [
    shape
    for shape in SHAPES
    if shape.name
    not in {
        "metadata cut",
        "metadata of another tool",
        "offsets cut to v1",
        "offsets version 9",
        "offsets no UTF-8",
        "one before the newest cut",
        "commit cut",
        "commit version 2 without state",
        "older commit empty",
        "commits hole",
        "offsets with a draft left",
        "file list cut",
        "file list hole",
        "stateful: commits behind by two",
        "stateful: partition gone",
    }
]
