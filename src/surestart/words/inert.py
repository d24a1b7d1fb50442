"""Text of unknown origin, made harmless before a person or a terminal sees it.

A topic name may carry terminal escape codes, a path may carry right-to-left marks that make it read as another one, and
either may be a megabyte long. What comes out prints on one line, has no control character and has a known length.

Secrets taken out of text that leaves the machine: by the name they stand under, by their form, by their value.

    kafka.sasl.jaas.config=…  "password": "…"  token=…     the value after a name that speaks of a secret
    ://user:password@  sig=…  dapi…  AKIA…  eyJ….….…        forms that only secrets have
    the values of this process' secret-looking variables    wherever else they turn up

What is redacted shows as [redacted]. Text is redacted as a whole, after it was rendered, so that a field that somebody
adds later is covered too."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Mapping
from urllib.parse import quote

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


MARK = "[redacted]"
_SECRET_NAME = (
    r"(?:password|passwd|pwd|secret|token|credential|jaas[._]config|api[._-]?key|access[._-]?key|account[._-]?key"
    r"|private[._-]?key|client[._-]?secret|sas|signature|authorization)"
)
# name = value, "name": "value", name: value, ("name", "value") and ['name', 'value'], to the end of the value.
_NAMED = re.compile(
    rf"""(?ix) (?P<head> (?:\\?["'])? [\w.\-]* {_SECRET_NAME} [\w.\-]* (?:\\?["'])? \s* (?:=|:|,) \s* (?:\\?["'])? )
         (?P<value> (?<=")(?:\\.|[^"\\\n])* | (?<=')(?:\\.|[^'\\\n])* | [^\s"',;&)}}\]\\]+ )"""
)
_FORMS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<=://)[^/\s:@\"']*:[^@\s/\"']+(?=@)",
        r"(?<=sig=)[^&\s\"']+",
        r"\bdapi[0-9a-f]{16,}(?:-\d)?\b",
        r"\bdkea[0-9a-f]{16,}\b",
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----",
        r"(?i)(?<=bearer )[\w.~+/=-]{8,}",
    )
)
_SHORTEST = 6
# Every shell sets these. Taken for passwords, no path below the working folder could be typed as it is printed.
_WORKING_FOLDERS = ("PWD", "OLDPWD")


def redact(text: str, values: tuple[str, ...] = ()) -> str:
    """The text without secrets; `values` are taken out wherever they stand, also URL-encoded or inside JSON."""
    spellings = {*values, *(quote(value, safe="") for value in values), *(json.dumps(value)[1:-1] for value in values)}
    # The longest first: a URL before the password in it.
    for spelling in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelling, MARK)
    for form in _FORMS:
        text = form.sub(MARK, text)
    return _NAMED.sub(_keep_name, text)


def secret_values(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Values of the variables whose names speak of a secret or whose values are URLs with a password."""
    variables = os.environ if environ is None else environ
    found = set()
    for name, value in variables.items():
        if name not in _WORKING_FOLDERS and re.search(_SECRET_NAME, name, re.I) and len(value) >= _SHORTEST:
            found.add(value)
        password = re.search(r"://[^/\s:@]*:([^@\s]+)@", value)
        if password and len(password[1]) >= _SHORTEST:
            found |= {value, password[1]}
    return tuple(found)


def _keep_name(match: re.Match[str]) -> str:
    value = match["value"]
    # A finding may say "token expired": a plain word behind a colon in prose stays, a true/false or number too.
    if value.lower() in ("true", "false", "null", "none", "", MARK) or value.isdecimal():
        return match[0]
    return match["head"] + MARK
