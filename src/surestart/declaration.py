"""What a stage says of itself, as plain values: the doctor compares it with the evidence, without Spark.

A declaration holds no secret, no session and no data frame, so it can be printed, stored in the run history and
compared between two versions of the code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

DELTA_SINKS = ("delta", "delta-append", "delta-merge", "delta-builtin")


@dataclass(frozen=True)
class SourceDeclaration:
    """kind: files | kafka | delta, or a name of your own.
    target: landing folder, topic(s) or table.
    path: the Delta source's own path."""

    kind: str
    target: str
    path: str = ""
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class SinkDeclaration:
    """One place that a batch is written to.

    kind      delta-append | delta-merge | delta-builtin | postgres | parquet | jdbc | foreach | foreach-batch | …
              delta     a Delta table, written in a way that nobody has said
    identity  query-id  the pair (query id from the checkpoint, batch id) goes into the write
              constant  a fixed string stands in for the query id: `constant`, where it is known
              none      nothing tells a second write of the same batch from the first
              unknown   nobody has said; what the sink's own record shows decides
    shared    whether others write there as well; None: nobody has said
    new       this query has never written there: what it holds is of others
    bootstrap the brokers of a Kafka sink, which can say what came to its topic and when
    ledger    the table in which a database keeps (application id, batch), in the rows' own transaction
    recognises  of a kind of your own: by what it knows a batch that it has, so that a replay is harmless
    step      "" or the suffix that keeps a second write of one batch into the same table apart: the transaction's
              application id is the query id, or "<query id>:<step>"
    """

    kind: str
    target: str
    path: str = ""
    identity: str = "query-id"
    step: str = ""
    keys: tuple[str, ...] = ()
    reads_whole_batch: bool = True
    shared: bool | None = None
    constant: str = ""
    new: bool = False
    bootstrap: str = ""
    ledger: str = ""
    recognises: str = ""

    def app_id(self, query_id: str) -> str:
        return f"{query_id}:{self.step}" if self.step else query_id

    @property
    def is_delta(self) -> bool:
        """Said to be a Delta table; a function of a batch may write to one as well."""
        return self.kind in DELTA_SINKS


@dataclass(frozen=True)
class StageDeclaration:
    """foreign: its owner's code runs it, and not surestart: how it is written is judged by what its sinks show.
    open_sinks: nobody has said whether it writes elsewhere than to its sinks."""

    stage: str
    query: str
    checkpoint: str
    sources: tuple[SourceDeclaration, ...]
    sinks: tuple[SinkDeclaration, ...]
    output_mode: str = "append"
    state: tuple[str, ...] = ()
    confs: tuple[tuple[str, str], ...] = field(default=())
    foreign: bool = False
    open_sinks: bool = False

    def as_dict(self) -> dict[str, object]:
        """What it reads and writes; what nobody has said is no part of it."""
        return {name: value for name, value in asdict(self).items() if name != "open_sinks"}

    @property
    def fingerprint(self) -> str:
        """Changes when sources, sinks, output mode or declared state change."""
        # OpenSSL takes 8 ms to load, and the doctor reads declarations without asking for this.
        import hashlib

        text = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class StageFacts:
    """A registered declaration, read back from the run history's plain values."""

    sources: tuple[SourceDeclaration, ...]
    sinks: tuple[SinkDeclaration, ...]
    output_mode: str
    state: tuple[str, ...]
    checkpoint: str

    @classmethod
    def read(cls, registered: Mapping[str, object]) -> StageFacts:
        return cls(
            sources=tuple(
                SourceDeclaration(
                    _text(item, "kind"), _text(item, "target"), _text(item, "path"), _pairs(item.get("options"))
                )
                for item in _maps(registered.get("sources"))
            ),
            sinks=tuple(
                SinkDeclaration(
                    kind=_text(item, "kind"),
                    target=_text(item, "target"),
                    path=_text(item, "path"),
                    identity=_text(item, "identity") or "query-id",
                    step=_text(item, "step"),
                    keys=_texts(item.get("keys")),
                    shared=shared if isinstance(shared := item.get("shared"), bool) else None,
                )
                for item in _maps(registered.get("sinks"))
            ),
            output_mode=_text(registered, "output_mode"),
            state=_texts(registered.get("state")),
            checkpoint=_text(registered, "checkpoint"),
        )


def _maps(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def _text(item: Mapping[str, object], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    items = value if isinstance(value, list | tuple) else []
    return tuple((str(item[0]), str(item[1])) for item in items if isinstance(item, list | tuple) and len(item) == 2)
