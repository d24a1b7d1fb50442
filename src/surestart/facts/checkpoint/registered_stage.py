"""What a stage declared at its last run, read back from the run history's plain values; damaged ones are left empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from surestart.declaration import SinkDeclaration, SourceDeclaration


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
