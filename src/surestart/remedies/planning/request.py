"""What a person asked for when a plan was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from surestart.typed import Words


@dataclass(frozen=True)
class Request:
    """What was asked for, beside the remedy's own arguments.

    options: all of it as it was typed, but for the loss."""

    settings: Mapping[str, str]
    pipeline: str = ""
    accept_loss: int | None = None
    keep_lost: bool = False
    run: bool = True
    options: Words = ()
