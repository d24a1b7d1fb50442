"""A schema registry with Confluent's API, asked with the standard library alone.

    GET /schemas/ids/7                      {"schema": "…", "schemaType": "AVRO"}        404, 40403: no such id
    GET /subjects/sensor-value/versions/latest   {"id": 7, "version": 3, "schema": "…"}  404, 40401: no such subject
    GET /subjects                           ["sensor-value", …]

The second and third are asked once, before a start (`check`). Credentials stand in a secret scope or in
SURESTART_REGISTRY_USERNAME and _PASSWORD, or _TOKEN, never in the URL; `with_credentials` reads them for a function
that runs elsewhere.

The split of good and quarantined rows by Avro records whose schemas are in a registry.

prepare        the registry answers these credentials, and has the subject; else nothing is started
batch_writer   the credentials are read here: on Spark Connect the function of a batch runs in the server's worker,
               which has neither this process' variables nor its secret scopes"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from dataclasses import dataclass, replace
from http.client import HTTPException
from ipaddress import ip_address
from typing import Any, Protocol

from surestart.avro.decode import refuse_without_avro
from surestart.avro.schemas import WriterSchema, checked_schema, unknown
from surestart.environment import Environment
from surestart.errors import CannotTell, UsageError
from surestart.facts.kafka.security import SecretPlace
from surestart.library_types import DataFrame, SparkSession
from surestart.sinks.delta.split import DeltaSplit, SplitBatch
from surestart.stage import BatchContext
from surestart.typed import surestart, typed

REGISTRY_KEYS = ("registry-username", "registry-password", "registry-token")
ENVIRONMENT = SecretPlace(prefix="SURESTART_")
# Nothing that one reader of URLs takes for a host and another for a user: no "@", "%", "\\", "?", "#" and no blank.
_URL = re.compile(r"(?i)https?://(?:[a-z0-9._-]+|\[[0-9a-f]*:[0-9a-f:.]+\])(?::[0-9]{1,5})?(?:/[a-z0-9._~/-]*)?")
_NO_SUCH_ID = 40403
_NO_SUCH_SUBJECT = (40401, 40402)
_FORBIDDEN = 403


@dataclass(frozen=True)
class LatestSchema:
    subject: str
    id: int
    version: int
    text: str
    kind: str = "AVRO"
    references: bool = False


@dataclass(frozen=True, repr=False)
class Authorization:
    """The header that carries the credentials, "" for none. It may be pickled, which is what it is for; str() and
    repr() do not show it."""

    _header: str

    def reveal(self) -> str:
        return self._header

    def __repr__(self) -> str:
        return "Authorization(***)"

    __str__ = __repr__


@dataclass(frozen=True)
class RegistryResolver:
    """subject: what `check` looks for, if given.
    authorization: read already, by `with_credentials`."""

    url: str
    security: SecretPlace = ENVIRONMENT
    timeout_seconds: float = 10
    subject: str = ""
    authorization: Authorization | None = None

    def __post_init__(self) -> None:
        if not _URL.fullmatch(self.url):
            # Not repeated: it may have a password in it.
            raise UsageError(
                "the schema registry's URL is not http(s)://host[:port][/path] without user, password and query",
                meaning="It is printed in logs and errors, so credentials have no place in it.",
                next=surestart("run", "deserialize", "--set", "registry=https://registry.example.com"),
                do_not="put the password into the URL: SURESTART_REGISTRY_USERNAME and _PASSWORD are for it.",
                code="RegistryUrl",
            )

    def with_credentials(self, *, dbutils: Any = None) -> RegistryResolver:
        """The same, with the credentials in it."""
        return replace(self, authorization=self._read_authorization(dbutils))

    def check(self) -> None:
        """Raises unless the registry answers with these credentials and has the subject, as Avro. A wrong address would
        otherwise show in the first batch; another environment's registry, in a quarantine full of good records."""
        subjects = self.read_subjects()
        if not self.subject:
            return
        latest = self.read_latest(self.subject)
        problem = (
            checked_schema(latest.id, latest.text, latest.kind, latest.references).problem if latest else "is not there"
        )
        if problem:
            there = "" if subjects is None else f"; it has {len(subjects)}: {', '.join(subjects[:5])}"
            raise UsageError(
                f"subject {self.subject!r} of the schema registry {self.url}: {problem}{there}",
                meaning="This is not the registry that the records' writers use, or not their subject: every record "
                "would go to quarantine. Nothing was started.",
                next=typed("curl", "-sS", f"{self.url.rstrip('/')}/subjects"),
                do_not="leave the subject away to get it going, unless the writers have none.",
                code="RegistrySubject",
            )

    def read_schema(self, schema_id: int) -> WriterSchema:
        found = self._get(f"/schemas/ids/{schema_id}", missing=(_NO_SUCH_ID,))
        if found is None:
            return unknown(schema_id)
        text = found.get("schema") if isinstance(found, dict) else None
        if not isinstance(text, str):
            raise self._out_of_reach(f"/schemas/ids/{schema_id}", "the answer has no schema in it")
        return checked_schema(schema_id, text, str(found.get("schemaType") or "AVRO"), bool(found.get("references")))

    def read_latest(self, subject: str) -> LatestSchema | None:
        """The newest schema of a subject; None when the registry says that there is none."""
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest"
        found = self._get(path, missing=_NO_SUCH_SUBJECT)
        if found is None:
            return None
        try:
            kind, references = str(found.get("schemaType") or "AVRO"), bool(found.get("references"))
            return LatestSchema(
                subject, int(found["id"]), int(found["version"]), str(found["schema"]), kind, references
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._out_of_reach(path, "the answer has no id, version and schema in it") from None

    def read_subjects(self) -> tuple[str, ...] | None:
        """None: these credentials are good and may not list them."""
        found = self._get("/subjects", missing=(), forbidden=True)
        if found is None:
            return None
        if not isinstance(found, list):
            raise self._out_of_reach("/subjects", "the answer is not a list")
        return tuple(str(subject) for subject in found)

    def _get(self, path: str, missing: tuple[int, ...], forbidden: bool = False) -> Any | None:
        request = urllib.request.Request(
            self.url.rstrip("/") + path,
            headers={"Accept": "application/vnd.schemaregistry.v1+json, application/json", **self._authorization()},
        )
        try:
            # A proxy would see what goes to this machine itself, credentials included.
            opener = _DIRECT if _is_loopback(self.url) else _OPENER
            with opener.open(request, timeout=self.timeout_seconds) as answer:
                return json.loads(answer.read(_LARGEST))
        except urllib.error.HTTPError as error:
            with error:
                code = _error_code(error.read(_LARGEST))
            # Only the registry's own word counts: a wrong path or a proxy says 404 as well.
            if (error.code == 404 and code in missing) or (error.code == _FORBIDDEN and forbidden):
                return None
            raise self._out_of_reach(path, f"HTTP {error.code}" + (f", error {code}" if code else "")) from None
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            reason = getattr(error, "reason", None) or error
            raise self._out_of_reach(path, f"{type(error).__name__}: {reason}") from None

    def _authorization(self) -> dict[str, str]:
        header = (self.authorization or self._read_authorization()).reveal()
        return {"Authorization": header} if header else {}

    def _read_authorization(self, dbutils: Any = None) -> Authorization:
        values = self.security.read(REGISTRY_KEYS, dbutils=dbutils).values
        if values and urllib.parse.urlsplit(self.url).scheme == "http" and not _is_loopback(self.url):
            raise UsageError(
                f"there are credentials for the schema registry {self.url}, and the URL is plain http",
                meaning="Everybody on the way could read them, and answer in the registry's place. Nothing was sent.",
                next=typed("surestart", "run", "deserialize", "--set", f"registry=https:{self.url.partition(':')[2]}"),
                do_not="send them once to see whether it works.",
                code="RegistryPlainHttp",
            )
        if "registry-token" in values:
            return Authorization(f"Bearer {values['registry-token']}")
        if "registry-username" in values:
            pair = f"{values['registry-username']}:{values.get('registry-password', '')}"
            return Authorization(f"Basic {b64encode(pair.encode()).decode()}")
        return Authorization("")

    def _out_of_reach(self, path: str, reason: str) -> CannotTell:
        return CannotTell(
            f"the schema registry {self.url} did not answer {path}: {reason}",
            meaning="Which schema the records were written with is not known. Nothing was written and no record was "
            "quarantined for it; the next start tries again.",
            next=typed("curl", "-sS", f"{self.url.rstrip('/')}/subjects"),
            do_not="treat the records as broken: without the registry none of them can be judged.",
            code="RegistryOutOfReach",
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib sends the Authorization header along to wherever a redirect points."""

    def redirect_request(self, *arguments: Any, **options: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)
_DIRECT = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
# A schema is some kB; an answer that is cut off here is not JSON.
_LARGEST = 16 << 20


def _is_loopback(url: str) -> bool:
    try:
        host = urllib.parse.urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _error_code(body: bytes) -> int:
    try:
        return int(json.loads(body)["error_code"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0


class AsksRegistry(Protocol):
    """What decides about the rows of a batch by the schemas of a registry. It is pickled once it has credentials."""

    def check(self) -> None:
        """Raises when the registry cannot be used."""

    def with_credentials(self) -> AsksRegistry: ...

    def __call__(self, raw: DataFrame) -> DataFrame: ...


@dataclass(frozen=True)
class RegistrySplit(DeltaSplit):
    """A split whose batches ask a schema registry.

    per_batch: what asks it; the credentials are read when a run starts."""

    per_batch: AsksRegistry | None = None

    def prepare(self, spark: SparkSession, environment: Environment) -> None:
        if self.per_batch is not None:
            refuse_without_avro(spark)
            self.per_batch.check()
        super().prepare(spark, environment)

    def batch_writer(self, context: BatchContext) -> SplitBatch:
        per_batch = self.per_batch.with_credentials() if self.per_batch is not None else None
        return replace(super().batch_writer(context), per_batch=per_batch)
