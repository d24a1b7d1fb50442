"""Asking for schemas: an unknown id is an answer, everything else that goes wrong is "cannot tell"."""

from __future__ import annotations

import pickle
from base64 import b64encode
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from surestart.avro.registry import Authorization, RegistryResolver
from surestart.avro.schemas import FolderResolver, resolve
from surestart.errors import CannotTell, UsageError
from surestart.facts.kafka.security import SecretPlace
from surestart.local.kafka_configuration import free_ports

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
CANARY = "canary-r3gistry"


def test_the_three_endpoints_are_understood(registry):
    registry.register(7, SCHEMA, "sensor-value")
    asked = RegistryResolver(registry.url)
    assert asked.read_schema(7).parsed == SCHEMA
    assert asked.read_schema(8).problem == "schema id 8 is unknown"
    latest = asked.read_latest("sensor-value")
    assert latest is not None
    assert (latest.id, latest.version) == (7, 1)
    assert asked.read_latest("nothing") is None
    assert asked.read_subjects() == ("sensor-value",)


def test_before_a_start_the_registry_answers_and_has_the_subject(registry):
    registry.register(7, SCHEMA, "sensor-value")
    registry.register(8, "message R {}", "rooms-value", schemaType="PROTOBUF")
    registry.protect("sensor", CANARY)
    wrong = RegistryResolver(registry.url, authorization=Authorization("Basic d3Jvbmc="))
    right = with_password(registry)

    right.check()
    replace(right, subject="sensor-value").check()
    with pytest.raises(CannotTell, match=r"did not answer /subjects: HTTP 401"):
        wrong.check()
    with pytest.raises(CannotTell, match="Connection refused"):
        RegistryResolver(f"http://127.0.0.1:{free_ports().plain}").check()
    with pytest.raises(
        UsageError, match=r"subject 'sensr-value' .*: is not there; it has 2: rooms-value, sensor-value"
    ):
        replace(right, subject="sensr-value").check()
    with pytest.raises(UsageError, match="schema 8 is PROTOBUF, not Avro"):
        replace(right, subject="rooms-value").check()


def test_credentials_that_may_not_list_subjects_are_no_reason_not_to_start(registry):
    registry.register(7, SCHEMA, "sensor-value")
    registry.forbids = "/subjects"

    RegistryResolver(registry.url, subject="sensor-value").check()
    with pytest.raises(UsageError, match=r"subject 'other' .*: is not there\n"):
        RegistryResolver(registry.url, subject="other").check()


def test_credentials_read_before_travel_with_the_resolver_and_show_nowhere(registry, monkeypatch):
    registry.protect("sensor", CANARY)
    registry.register(7, SCHEMA)
    asked = with_password(registry)

    elsewhere = pickle.loads(pickle.dumps(asked))

    assert elsewhere == asked
    assert resolve(elsewhere, 7).parsed == SCHEMA
    secret = b64encode(f"sensor:{CANARY}".encode()).decode()
    for told in (repr(asked), str(asked), repr(asked.authorization), f"{asked.authorization}"):
        assert CANARY not in told
        assert secret not in told


def test_credentials_are_read_from_a_secret_scope(registry):
    registry.protect("sensor", CANARY)
    registry.register(7, SCHEMA)
    kept = {"registry-username": "sensor", "registry-password": CANARY, "sasl-password": "not for a registry"}
    entries = [SimpleNamespace(key=key) for key in kept]
    secrets = SimpleNamespace(list={"kafka-prod": entries}.__getitem__, get=lambda scope, key: kept[key])

    asked = RegistryResolver(registry.url, SecretPlace("kafka-prod", prefix="SURESTART_")).with_credentials(
        dbutils=SimpleNamespace(secrets=secrets)
    )

    assert asked.read_schema(7).parsed == SCHEMA
    assert registry.seen_authorization == ["Basic " + b64encode(f"sensor:{CANARY}".encode()).decode()]


def with_password(registry: Any) -> Any:
    """As a run has it: read from variables that are gone when the batch asks."""
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("SURESTART_REGISTRY_USERNAME", "sensor")
        variables.setenv("SURESTART_REGISTRY_PASSWORD", CANARY)
        return RegistryResolver(registry.url).with_credentials()


def test_a_schema_is_asked_for_once_and_an_unknown_one_again_each_time(registry):
    registry.register(7, SCHEMA)
    asked = RegistryResolver(registry.url)
    for _ in range(3):
        assert resolve(asked, 7).problem == ""
        assert resolve(asked, 9).problem == "schema id 9 is unknown"
    assert registry.asked == {"/schemas/ids/7": 1, "/schemas/ids/9": 3}
    registry.register(9, SCHEMA)
    assert resolve(asked, 9).parsed == SCHEMA


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_an_answer_that_is_not_the_registrys_verdict_is_cannot_tell(registry, status):
    """A wrong address, a proxy, a missing right: quarantining for it would throw every record out."""
    registry.fails_with = status
    with pytest.raises(CannotTell, match=f"HTTP {status}"):
        RegistryResolver(registry.url).read_schema(7)


def test_an_answer_of_a_million_brackets_is_cannot_tell(registry):
    registry.answers_with = b"[" * 1_000_000
    for status in (200, 500):
        registry.fails_with = status
        with pytest.raises(CannotTell):
            RegistryResolver(registry.url).read_schema(7)


def test_an_unreachable_registry_and_a_wrong_path_are_cannot_tell(registry):
    with pytest.raises(CannotTell, match="Connection refused"):
        RegistryResolver(f"http://127.0.0.1:{free_ports().plain}").read_schema(7)
    with pytest.raises(CannotTell, match="HTTP 404"):
        RegistryResolver(registry.url + "/wrong/path").read_schema(7)


def test_credentials_are_sent_and_appear_in_no_error(registry, monkeypatch):
    registry.protect("sensor", CANARY)
    registry.register(7, SCHEMA)
    asked = RegistryResolver(registry.url)
    with pytest.raises(CannotTell, match="HTTP 401"):
        asked.read_schema(7)
    monkeypatch.setenv("SURESTART_REGISTRY_USERNAME", "sensor")
    monkeypatch.setenv("SURESTART_REGISTRY_PASSWORD", CANARY)
    assert asked.read_schema(7).problem == ""
    registry.fails_with = 500
    with pytest.raises(CannotTell) as error:
        asked.read_schema(8)
    sent = registry.seen_authorization[-1]
    assert sent is not None
    for told in (str(error.value), repr(asked), repr(pickle.dumps(asked))):
        assert CANARY not in told
        assert sent.split()[1] not in told
    with pytest.raises(UsageError) as refused:
        RegistryResolver(f"http://sensor:{CANARY}@registry:8081")
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://{0}@registry",
            "http://:{0}@registry",
            "http://@registry",
            "http://127.0.0.1@{0}/",
            "http://[",
            "http://:1",
        ),
        *("http://{0}\\@127.0.0.1/", "http://{0}#@127.0.0.1/", "http://127.0.0.1?{0}", "http://127.0.0.1%2e{0}"),
        *("http://127.0.0.1\\.{0}", "http://[::1%25.{0}]", "http://[127.0.0.1]", "http://127.0.0.1:80:80", "http:///x"),
        *("http://local\nhost", "http://127。0。0。1", "ftp://{0}", "http://127.0.0.1:x", "http:/{0}", "//{0}", ""),
    ],
)
def test_no_url_that_two_readers_take_for_two_hosts(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        RegistryResolver(url.format(CANARY))
    assert refused.value.code == "RegistryUrl"
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("secret", ["TOKEN", "USERNAME"])
@pytest.mark.parametrize(
    "host", ["registry", "10.0.0.7", "localhost.example.com", "127.0.0.1.example.com", "[2001:db8::1]"]
)
def test_credentials_do_not_go_over_plain_http(host, secret, monkeypatch):
    asked = RegistryResolver(f"http://{host}:8081/api")
    monkeypatch.setenv(f"SURESTART_REGISTRY_{secret}", CANARY)
    for ask in (asked.with_credentials, asked.check, lambda: asked.read_schema(7)):
        with pytest.raises(UsageError) as refused:
            ask()
        assert refused.value.code == "RegistryPlainHttp"
        assert CANARY not in str(refused.value)
        assert f"registry=https://{host}:8081/api" in str(refused.value.next)
    for url in (f"https://{host}", "http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"):
        assert RegistryResolver(url).with_credentials().authorization is not None
    monkeypatch.delenv(f"SURESTART_REGISTRY_{secret}")
    assert asked.with_credentials().authorization is not None


def test_no_proxy_sees_credentials_for_this_machine(registry, other_registry, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, other_registry.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("SURESTART_REGISTRY_TOKEN", CANARY)
    registry.register(7, SCHEMA)
    assert RegistryResolver(registry.url).read_schema(7).problem == ""
    assert other_registry.seen_authorization == []


def test_a_redirect_gets_no_credentials(registry, other_registry, monkeypatch):
    monkeypatch.setenv("SURESTART_REGISTRY_TOKEN", CANARY)
    other_registry.register(7, SCHEMA)
    registry.redirects_to = other_registry.url
    with pytest.raises(CannotTell, match="HTTP 302"):
        RegistryResolver(registry.url).read_schema(7)
    assert registry.seen_authorization == [f"Bearer {CANARY}"]
    assert other_registry.seen_authorization == []


def test_schemas_that_cannot_be_used_say_why(registry):
    registry.register(1, "message R {}", schemaType="PROTOBUF")
    registry.register(2, SCHEMA, references=[{"name": "x", "subject": "y", "version": 1}])
    registry.register(3, "{not json")
    asked = RegistryResolver(registry.url)
    assert [asked.read_schema(number).problem for number in (1, 2, 3)] == [
        "schema 1 is PROTOBUF, not Avro",
        "schema 2 refers to other schemas, which is not supported",
        "schema 3 is not JSON",
    ]


def test_a_folder_of_schemas_answers_like_a_registry(tmp_path):
    (tmp_path / "7.avsc").write_text('{"type": "record", "name": "R", "fields": []}')
    asked = FolderResolver(str(tmp_path))
    assert asked.read_schema(7).parsed["name"] == "R"
    assert asked.read_schema(8).problem == "schema id 8 is unknown"
    with pytest.raises(CannotTell, match="no such folder"):
        FolderResolver(str(tmp_path / "none")).read_schema(7)
