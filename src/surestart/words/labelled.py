"""Labelled paragraphs that fit 80 columns, as findings and explanations are printed.

What happened   The query would begin at batch 0, and the checkpoint
                holds commits of an earlier one.
"""

from __future__ import annotations

import textwrap

WIDTH = 80


def labelled(label: str, text: str, indent: int = 2, gap: int = 16, keep_lines: bool = False) -> list[str]:
    """The lines of one paragraph; nothing for an empty text. keep_lines: a command is never broken."""
    if not text:
        return []
    head = " " * indent + label.ljust(gap)
    if keep_lines:
        return [head + text]
    body = textwrap.wrap(text, WIDTH - len(head), break_long_words=True, break_on_hyphens=False)
    return [head + body[0], *(" " * len(head) + line for line in body[1:])]
