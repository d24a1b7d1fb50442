"""What a source can do beside giving rows.

Each ability is a method that a source has or has not. Whoever needs one asks for it here, so no source has to be known
by its class.

    as_kafka_source    it reads one Kafka topic: how far the topic reaches is asked of the brokers
    as_file_source     it reads landed files: rows are looked for in files of their names
    as_delta_source    surestart reads a Delta table with it, and says from which version
    find_input_table   a Delta table is read, by surestart or by its owner's code
    find_problems      of a kind of your own: what stands between the checkpoint and what the source still has

A source of your own without `find_problems`, or one that does not answer, is "cannot tell". docs/your-own-sink.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from surestart.declaration import SourceDeclaration
from surestart.environment import Environment, Table
from surestart.words.finding import Finding

if TYPE_CHECKING:
    from surestart.sources.delta import DeltaSource
    from surestart.sources.files import FileSource
    from surestart.sources.kafka import KafkaSource


@runtime_checkable
class ReadsTopic(Protocol):
    def as_kafka_source(self) -> KafkaSource | None: ...


@runtime_checkable
class ReadsFolder(Protocol):
    def as_file_source(self) -> FileSource: ...


@runtime_checkable
class ReadsTable(Protocol):
    def as_delta_source(self) -> DeltaSource: ...


@runtime_checkable
class HasInputTable(Protocol):
    def find_input_table(self, environment: Environment) -> Table | None: ...


def topic_of(source: object) -> KafkaSource | None:
    """The Kafka topic that it reads; None: it reads none, or several."""
    return source.as_kafka_source() if isinstance(source, ReadsTopic) else None


def folder_of(source: object) -> FileSource | None:
    """The landed files that it reads; None: it reads none."""
    return source.as_file_source() if isinstance(source, ReadsFolder) else None


def table_of(source: object) -> DeltaSource | None:
    """The Delta table that surestart reads with it; None: it reads none."""
    return source.as_delta_source() if isinstance(source, ReadsTable) else None


def input_table_of(source: object, environment: Environment) -> Table | None:
    """The Delta table that is read, whoever reads it; None: none is known."""
    return source.find_input_table(environment) if isinstance(source, HasInputTable) else None


@runtime_checkable
class FindsProblems(Protocol):
    def find_problems(self, environment: Environment, checkpoint: str) -> tuple[Finding, ...]:
        """What is wrong for a start from this checkpoint; empty only where the source was asked and has all that the
        next batch wants to read. Reads only, without Spark; raises where it cannot tell."""


def finds_problems(source: object) -> bool:
    return isinstance(source, FindsProblems)


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
