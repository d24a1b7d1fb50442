"""What people are told to type, spelled in one place, so that a shell and the command line take it as it stands.

    surestart VERB words -e local --root '/a folder'  # what to know first
    in the notebook: …    in the code: …              for the steps that no shell can take

A path may hold spaces, quotes and backticks: unquoted, a shell would split it, or run what is in it.
"""

from __future__ import annotations

import re
import shlex

IN_THE_CODE = "in the code: "
IN_THE_NOTEBOOK = "in the notebook: "
_QUOTED = re.compile(r"\$'(?:\\.|[^'\\])*'|'[^']*'|\"[^\"]*\"")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def word(text: object) -> str:
    """One argument for a shell. What cannot be seen is spelled, so that it neither hides nor breaks the line."""
    given = str(text)
    if given.isprintable():
        return shlex.quote(given)
    return f"$'{''.join(map(_spelled, given))}'"


def _spelled(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def typed(program: str, *words: object, place: str = "", note: str = "") -> str:
    """One line for a shell. place: options that are quoted already. note: a comment behind it."""
    line = " ".join([program, *map(word, words), *([place] if place else [])])
    return f"{line}  # {''.join(map(_seen, note))}" if note else line


def _seen(character: str) -> str:
    return character if character.isprintable() else _spelled(character)


def surestart(verb: str, *words: object, place: str = "", note: str = "") -> str:
    return typed("surestart", verb, *words, place=place, note=note)


def spark_sql(statement: str, note: str = "or in any session that has Delta: spark.sql(…)") -> str:
    """A statement of Spark SQL: in single quotes, because a shell runs what stands in backticks inside double ones."""
    return typed("spark-sql", "-e", statement, note=note)


def delta_name(path: str, name: str = "") -> str:
    """A Delta table in SQL, by its path, else by its name."""
    return f"delta.`{path.replace('`', '``')}`" if path else name


def at(environment: str, options: str = "") -> str:
    """What names an environment: -e, and options that are quoted already."""
    return f"-e {word(environment)} {options}".rstrip()


def uncommented(line: str) -> str:
    """What a shell runs of the line: outside quotes, a word that begins with # ends it."""
    for match in re.finditer(r"(?:^|\s)#", line):
        head = line[: match.start()]
        if not re.search(r"['\"]", _QUOTED.sub("", head)):
            return head.rstrip()
    return line


def sql_text(text: str) -> str:
    """A text in Spark SQL, where a doubled quote is no quote but the seam of two texts."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def in_the_code(what: str) -> str:
    return IN_THE_CODE + what


def in_the_notebook(what: str) -> str:
    return IN_THE_NOTEBOOK + what
