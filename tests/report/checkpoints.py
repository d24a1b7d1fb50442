"""Checkpoints and tables worth a page: a busy one with a batch in flight, and one in which every text is hostile."""

from __future__ import annotations

import json
from pathlib import Path

from tests.checkpoint.checkpoint_maker import QUERY_ID, commit_text, compact, make_checkpoint, make_state, offsets_text
from tests.deltalog.handmade import create, info, txn, write_commit

FIRST_MINUTE = 1_763_000_000_000
BATCHES = 46
TOPIC = "orders"

# Markup for text, attribute, script and style position; terminal codes; text that reads backwards; template marks.
HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "</style><style>body{display:none}</style>",
    "</title></head><svg onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "\x1b[2J\x1b]0;owned\x07",
    "safe\u202egnp.exe",
    "{{7*7}}${7*7}",
    "&lt;script&gt;",
    "<!--",
    "]]>",
)


def offsets_of(batch: int, partitions: int = 6) -> str:
    """Partition n grows by 10 * (n + 1) in each batch."""
    return compact({TOPIC: {str(number): 1000 + 10 * (number + 1) * (batch + 1) for number in range(partitions)}})


def make_busy(root: Path, batches: int = BATCHES, committed: int | None = None) -> Path:
    """Planned up to batches - 1, the last one in flight unless `committed` says how many are committed."""
    committed = batches - 1 if committed is None else committed
    make_checkpoint(root, planned=(), committed=range(committed))
    for batch in range(batches):
        text = offsets_text(offsets_of(batch), timestamp_ms=FIRST_MINUTE + batch * 60_000)
        (root / "offsets" / str(batch)).write_text(text)
    (root / "sources/0/0").write_bytes(b"\x00v1\n" + offsets_of(-1).encode())
    make_state(root, range(max(batches - 3, 1), batches), partitions=5)
    for partition in range(5):
        snapshot = root / f"state/0/{partition}/{batches - 2}.snapshot"
        snapshot.write_bytes(b"s" * 4_000 * (partition + 1))
    return root


def make_table(path: Path, last_batch: int, *, query_id: str = QUERY_ID, first_batch: int = 0) -> Path:
    """A Delta table that holds batches first..last of this query, by transaction and by surestart's mark."""
    write_commit(path, 0, *create())
    for version, batch in enumerate(range(first_batch, last_batch + 1), 1):
        mark = {
            "query": "sensor-raw-ingest",
            "query_id": query_id,
            "batch_id": batch,
            "stage": "raw-ingest",
            "step": "",
        }
        minute = FIRST_MINUTE + batch * 60_000
        body = info("WRITE", userMetadata=compact({"surestart": mark}))
        body["commitInfo"]["timestamp"] = minute + 9_000
        write_commit(path, version, body, txn(query_id, batch, minute))
    return path


def progress_of(batch: int, behind: int = 0) -> dict[str, object]:
    """What Spark reports of a batch of the busy checkpoint: 1,200 ms and 20 more for each batch, `behind` unread."""
    ends = json.loads(offsets_of(batch))
    latest = {TOPIC: {number: offset + behind * (int(number) + 1) for number, offset in ends[TOPIC].items()}}
    return {
        "id": QUERY_ID,
        "batchId": batch,
        "timestamp": "2025-11-13T02:13:20.000Z",
        "numInputRows": 210,
        "durationMs": {
            "addBatch": 900 + 20 * batch,
            "latestOffset": 120,
            "walCommit": 80,
            "getBatch": 2,
            "queryPlanning": 60,
            "triggerExecution": 1200 + 20 * batch,
        },
        "sources": [
            {
                "description": "KafkaV2[Subscribe[orders]]",
                "startOffset": json.loads(offsets_of(batch - 1)),
                "endOffset": ends,
                "latestOffset": latest,
                "numInputRows": 210,
            }
        ],
    }


FORMER_ID = "07cfe5c4-0000-4c5f-8f6e-2f3f5a6b7c8d"


def make_runs() -> list[dict[str, object]]:
    """A former identity up to batch 41, a reset by plan, the identity of today; and before that one nobody explains."""
    hour = 3_600_000
    older = {
        "event": "ended",
        "query_id": "11111111-0000-4c5f-8f6e-2f3f5a6b7c8d",
        "started_at": FIRST_MINUTE - 9 * hour,
    }
    former = {"event": "ended", "query_id": FORMER_ID, "started_at": FIRST_MINUTE - 6 * hour}
    reset = {"event": "remedy", "query_id": "", "started_at": FIRST_MINUTE - 2 * hour, "ended_at": FIRST_MINUTE - hour}
    return [
        {**older, "last_batch": 7},
        {**former, "last_batch": 40},
        {**former, "last_batch": 41},
        {**reset, "outcome": "finished", "accepted": ["reset of raw-ingest, digest 0a1b2c3d4e5f"]},
        {"event": "ended", "query_id": QUERY_ID, "started_at": FIRST_MINUTE, "last_batch": 5},
    ]


def make_hostile(root: Path) -> Path:
    """Each hostile text as a topic, a setting's name and value, a file's name, a folder's name, inside damaged JSON."""
    root.mkdir(parents=True)
    make_checkpoint(root, planned=(), committed=(0, 1))
    confs = {f"spark.{text}": text for text in HOSTILE}
    for batch in range(3):
        topics = {text: {"0": 10 * (batch + 1), "1": 5} for text in HOSTILE}
        text = offsets_text(
            compact(topics),
            compact({"unknown": HOSTILE}),
            HOSTILE[0],
            confs=confs,
            timestamp_ms=(1 << 62) if batch == 0 else FIRST_MINUTE + batch,
        )
        (root / "offsets" / str(batch)).write_text(text)
    (root / "commits" / "1").write_text("v1\n{" + HOSTILE[0])
    (root / "sources/1").mkdir()
    listed = compact({"path": f"file:///x/{HOSTILE[0]}", "timestamp": 1, "batchId": 0})
    (root / "sources/1/0").write_text(f"v1\n{listed}")
    for number, text in enumerate(HOSTILE):
        name = text.replace("/", "∕")
        (root / name).write_text(commit_text())
        (root / "offsets" / f".{number}{name}.tmp").write_text("")
    make_state(root, range(1, 3), name=HOSTILE[0])
    return root
