"""Where a database URL is kept, by name; its value is read when a run starts and printed nowhere.

    DatabaseUrl(variable="SURESTART_POSTGRES_URL")          an environment variable
    DatabaseUrl(scope="sensor", key="postgres-url")         a Databricks secret

    env:SURESTART_POSTGRES_URL, secret:sensor/postgres-url  the same two as a setting (--set, a bundle variable)

The value is a libpq URL, postgresql://user:password@host:5432/database?sslmode=require. Declarations, plans and reports
carry `DatabaseUrl.label`; between processes the value travels as a Secret, which shows itself as ***.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote

from surestart.errors import UsageError
from surestart.typed import NextCommand, Verbatim, in_the_code, surestart, typed, word

DEFAULT_VARIABLE = "SURESTART_POSTGRES_URL"
_OF_THE_DEFAULT = surestart("run", "merge-gold", "--set", f"postgres_url=env:{DEFAULT_VARIABLE}")


@dataclass(frozen=True, repr=False)
class Secret:
    """A URL with its password. str() and repr() do not show it; `reveal` does, for the one call that connects.

    label: the place it was read from, which errors name."""

    _text: str
    label: str = f"${DEFAULT_VARIABLE}"

    @property
    def place(self) -> DatabaseUrl:
        return DatabaseUrl.from_label(self.label)

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def redact(self, text: str) -> str:
        """The text without the URL and without any spelling of a password in it."""
        for part in sorted(self._parts(), key=len, reverse=True):
            text = text.replace(part, "***")
        return text

    def _parts(self) -> set[str]:
        # By hand and not with libpq's parser: what it cannot parse is what it quotes whole in its error.
        found = {self._text.strip()}
        authority = re.match(r"[^:/]*:*//[^/?#]*?:([^/?#]*)@", self._text.strip())
        loose = re.match(r"[^@]*?:/*[^:@]*:(.*)@", self._text.strip(), re.S)
        query = re.findall(r"[?&\s](?:ssl)?password=([^&\s]*)", " " + self._text, re.I)
        quoted = re.findall(r"(?:ssl)?password\s*=\s*'((?:[^'\\]|\\.)*)'", self._text, re.I)
        for value in [*(match.group(1) for match in (authority, loose) if match), *query, *quoted]:
            found |= {value, unquote(value), quote(unquote(value), safe="")}
        return {part for part in found if part}


@dataclass(frozen=True)
class DatabaseUrl:
    """Names the place; the value is never part of it."""

    variable: str = ""
    scope: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if bool(self.variable) == bool(self.scope and self.key) or bool(self.scope) != bool(self.key):
            raise UsageError(
                f"a database URL is named by a variable ({self.variable!r}) or by scope and key "
                f"({self.scope!r}, {self.key!r}), exactly one of the two",
                meaning="It is unclear where the URL and its password would come from.",
                next=in_the_code(f"write DatabaseUrl(variable={DEFAULT_VARIABLE!r})"),
                do_not="write the URL itself into the code; everything in a stage is printed and stored.",
                code="DatabaseUrlUnnamed",
            )
        if "://" in self.variable + self.scope + self.key:
            # The value is not repeated: this is where a pasted password would reach a log.
            raise UsageError(
                "a database URL was given where its name belongs",
                meaning="Stages are printed and stored in the run history; a password in one would be too.",
                next=in_the_code(
                    f"write DatabaseUrl(variable={DEFAULT_VARIABLE!r}), and export the URL under that name"
                ),
                code="DatabaseUrlInCode",
            )

    @property
    def label(self) -> str:
        return f"${self.variable}" if self.variable else f"secret {self.scope}/{self.key}"

    def psql(self, command: str, note: str = "") -> NextCommand:
        """A command line that asks this database. It has the name of the URL in it, not the URL."""
        value = f"${self.variable}"
        if not self.variable:
            # The CLI prints a secret's bytes in base64.
            get = f"databricks secrets get-secret {word(self.scope)} {word(self.key)}"
            value = f"$({get} | jq -r .value | base64 -d)"
        return typed("psql", Verbatim(f'"{value}"'), "-c", command, note=note)

    @property
    def put(self) -> NextCommand:
        """A command line that gives the place another URL."""
        if not self.variable:
            return typed("databricks", "secrets", "put-secret", self.scope, self.key, note="asks for the URL")
        return typed("export", Verbatim(f"{self.variable}='postgresql://user:password@host:5432/database'"))

    @classmethod
    def from_label(cls, label: str) -> DatabaseUrl:
        """The place that a declaration names: `label` turned back."""
        if label.startswith("$"):
            return cls(variable=label[1:])
        scope, _, key = label.removeprefix("secret ").partition("/")
        return cls(scope=scope, key=key)

    @classmethod
    def from_setting(cls, text: str) -> DatabaseUrl:
        """The place that a setting names: env:NAME (or $NAME) or secret:scope/key. A URL itself is refused."""
        if "://" in text or "@" in text or "password" in text.lower():
            # Not repeated: this text may be the URL with its password.
            raise UsageError(
                "the setting postgres_url holds a URL, and not the name of the place where the URL is kept",
                meaning="Settings are seen in process lists, shell histories, job definitions and in the commands that "
                "the doctor prints. Nothing was started. Change a password that was given here.",
                next=replace(_OF_THE_DEFAULT, first=cls(variable=DEFAULT_VARIABLE).put),
                do_not="put a password on a command line, into databricks.yml or into a job parameter.",
                code="DatabaseUrlInCode",
            )
        variable = re.fullmatch(r"(?:env:|\$)([A-Za-z_][A-Za-z0-9_]*)", text)
        if variable:
            return cls(variable=variable[1])
        secret = re.fullmatch(r"secret:([^/\s]+)/(\S+)", text)
        if secret:
            return cls(scope=secret[1], key=secret[2])
        raise UsageError(
            f"the setting postgres_url={text!r} is neither env:NAME nor secret:scope/key",
            meaning="It is unclear where the database's URL and password would come from. Nothing was started.",
            next=_OF_THE_DEFAULT,
            code="DatabaseUrlUnnamed",
        )

    def read(self, environ: Mapping[str, str] | None = None, *, dbutils: Any = None) -> Secret:
        variables = os.environ if environ is None else environ
        text = variables.get(self.variable, "") if self.variable else self._secret(dbutils)
        if not text.strip():
            raise UsageError(
                f"{self.label} is empty or not set",
                meaning="The database's address is unknown, so the batch was not written.",
                next=self.put,
                do_not="put the URL into the code or into a job parameter; both are stored in clear.",
                code="DatabaseUrlMissing",
            )
        if not re.match(r"\s*(postgres(ql)?://|[a-z_]+\s*=)", text):
            raise UsageError(
                f"{self.label} does not begin with postgresql://",
                meaning="Only libpq URLs are understood; a JDBC URL (jdbc:postgresql:…) is another notation.",
                next=self.put,
                code="DatabaseUrlMalformed",
            )
        if "://" in text and (text.count("@") > 1 or "@" in text.partition("://")[2].partition("/")[2]):
            # libpq would take a piece of the password for a host or a port and name it in its error.
            raise UsageError(
                f"{self.label} holds more than one '@', or one after a '/'",
                meaning="Percent-encode '@', '/' and '?' in a password; unencoded, its end becomes the host.",
                next=typed(
                    "python", "-c", 'import getpass, urllib.parse as u; print(u.quote(getpass.getpass(), safe=""))'
                ),
                code="DatabaseUrlMalformed",
            )
        return Secret(text.strip(), self.label)

    def _secret(self, dbutils: Any) -> str:
        try:
            if dbutils is None:
                from databricks.sdk.runtime import dbutils

            return str(dbutils.secrets.get(scope=self.scope, key=self.key))
        except Exception as problem:  # noqa: BLE001 - the SDK raises its own kinds for "not there" and "not allowed"
            kind = type(problem).__name__
        raise UsageError(
            f"{self.label} could not be read ({kind})",
            meaning="Secret scopes exist on Databricks; elsewhere the URL comes from an environment variable.",
            next=typed("databricks", "secrets", "list-secrets", self.scope),
            code="DatabaseSecretUnreadable",
        )
