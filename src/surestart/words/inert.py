"""Text of unknown origin, made harmless before a person or a terminal sees it.

A topic name may carry terminal escape codes, a path may carry right-to-left marks that make it read as another one, and
either may be a megabyte long. What comes out prints on one line, has no control character and has a known length.
"""

from __future__ import annotations

import unicodedata

LIMIT = 160
# Cc control, Cf format (right-to-left marks, zero-width), Cs surrogates, Co private use, Zl/Zp line separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def inert(text: object, limit: int = LIMIT) -> str:
    """One printable line of at most `limit` characters; hidden characters appear as \\u codes."""
    raw = text if isinstance(text, str) else str(text)
    # Cut before the walk over the characters: the raw text may be a gigabyte.
    shown = raw[: limit + 1]
    if not (shown.isascii() and shown.isprintable()):
        shown = "".join(map(_visible, shown))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _visible(character: str) -> str:
    if character.isascii():
        return character if " " <= character <= "~" else f"\\x{ord(character):02x}"
    return f"\\u{ord(character):04x}" if unicodedata.category(character) in _HIDDEN else character
