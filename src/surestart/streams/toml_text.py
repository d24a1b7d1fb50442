"""A text as TOML spells it."""

from __future__ import annotations


class NotCarriedByToml(ValueError):
    """A text of bytes that are no UTF-8: no TOML file can hold it."""


def toml_text(value: str) -> str:
    """A TOML string. Raises NotCarriedByToml."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotCarriedByToml(value) from error
    return f'"{"".join(map(_escaped, value))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character == " " or character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
