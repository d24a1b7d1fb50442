"""What a stage with Kafka secrets raises, without the secrets: the second guard, behind hide_plans.

    error, its causes and contexts ── no secret in their text ──> as it is
                                   └─ a secret ──> the same error with *** in its place, its cause as text

Spark quotes options in places that no setting of its own covers (docs/decisions/0008-kafka-secrets-in-plans.md); an
error goes into logs, notebooks and tickets."""

from __future__ import annotations

import traceback
from types import TracebackType

from surestart.errors import SurestartError
from surestart.facts.kafka.security import Secrets
from surestart.sources.abilities import topic_of
from surestart.stage import Source


class Redacted(Exception):
    """The text of an error that had a secret in it."""


class HidesSecrets:
    """What the block raises is without the secrets of this source. Others, and those without secrets, cost nothing."""

    def __init__(self, source: Source) -> None:
        self._topic = topic_of(source)

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or self._topic is None:
            return
        try:
            secrets = self._topic.security.read()
        except SurestartError:
            # Whatever failed had no secrets either: it may be this very error.
            return
        told = _told(error)
        if secrets.redact(told) == told:
            return
        try:
            raise _without(secrets, error) from _cause(secrets, error)
        except Exception as raised:
            # Python chains whatever is being handled, and prints it where a logger asks for it.
            raised.__context__ = None
            raise


def _without(secrets: Secrets, error: Exception) -> Exception:
    if not isinstance(error, SurestartError):
        return Redacted(secrets.redact(f"{type(error).__name__}: {error}"))
    meaning, do_not = secrets.redact(error.meaning), secrets.redact(error.do_not)
    return type(error)(
        secrets.redact(error.what),
        meaning=meaning,
        next=error.next.hiding(secrets.redact),
        do_not=do_not,
        code=error.code,
    )


def _cause(secrets: Secrets, error: Exception) -> Redacted | None:
    behind = error.__cause__ or error.__context__
    return Redacted(secrets.redact("".join(traceback.format_exception(behind)))) if behind is not None else None


def _told(error: BaseException | None, seen: frozenset[int] = frozenset()) -> str:
    """All that any logger could print of it, with what is chained to it."""
    if error is None or id(error) in seen:
        return ""
    seen |= {id(error)}
    own = f"{error}\n{error!r}\n{error.args!r}\n{vars(error)!r}\n"
    return own + _told(error.__cause__, seen) + _told(error.__context__, seen)
