"""What a source of your own can do beside giving rows: say what stands between the checkpoint and what it still has.

A source that reads files, Kafka or Delta declares that kind, and is asked by it. One of another kind may offer
`find_problems`; where it does not, or does not answer, a start is "cannot tell". docs/your-own-sink.md
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment
from surestart.words.finding import Finding


@runtime_checkable
class FindsProblems(Protocol):
    def find_problems(self, environment: Environment, checkpoint: str) -> tuple[Finding, ...]:
        """What is wrong for a start from this checkpoint; empty only where the source was asked and has all that the
        next batch wants to read. Reads only, without Spark; raises where it cannot tell."""


class NotAsked(Exception):
    """Why a source of your own has given no answer."""


def ask_own_source(
    source: object, declared: SourceDeclaration, environment: Environment, checkpoint: str
) -> tuple[Finding, ...]:
    """The findings of a source of your own. Raises NotAsked where it gives none."""
    if not isinstance(source, FindsProblems):
        raise NotAsked(f"a source of kind {declared.kind!r} is not known here and was not asked")
    try:
        found: object = source.find_problems(environment, checkpoint)
    # A source of somebody's own may raise anything: that is not an answer.
    except Exception as error:
        raise NotAsked(f"{type(source).__name__} could not tell: {type(error).__name__}: {error}") from error
    if isinstance(found, tuple) and all(isinstance(one, Finding) for one in found):
        return found
    raise NotAsked(f"{type(source).__name__}.find_problems gave {type(found).__name__}, not a tuple of findings")
