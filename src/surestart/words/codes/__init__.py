"""Every code that surestart prints, once: `explain` and docs/codes.md are made of it, and a test holds it to the code.

A new one takes a line here; a finding takes a section in docs/findings.md too.
"""

from __future__ import annotations

from functools import cache

from surestart.words.codes.code import Code


@cache
def all_codes() -> tuple[Code, ...]:
    from surestart.words.codes import checkpoint, places, remedies, running, sinks, sources

    rooms = (checkpoint, sinks, sources, running, remedies, places)
    return tuple(code for room in rooms for code in room.CODES)
