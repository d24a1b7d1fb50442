"""The JSON Schema of surestart.toml takes what the reader takes, and refuses what it refuses."""

from __future__ import annotations

import tomllib
from pathlib import Path

import jsonschema
import pytest

import surestart
from surestart.errors import UsageError
from surestart.facts.evidence.sink_names import SINK_KINDS
from surestart.streams.project_file import (
    FILE_KEYS,
    SINK_KEYS,
    SINK_WORDS,
    SOURCE_KINDS,
    STREAM_KEYS,
    parse_project_text,
)
from surestart.streams.schema import schema

STREAM = "[stream.a]\ncheckpoint = '/c'\n"
TAKEN = [
    "",
    STREAM,
    "history = '/h'\npipeline = 'm:P'\n" + STREAM,
    STREAM + "output_mode = 'complete'\nstate = ['dedupe']",
    STREAM + "sink = [{ merge = '/t', keys = ['id'] }, { append = '/u', app_id = 'x', shared = false, new = true }]",
    STREAM + "source = { kafka = 'orders', bootstrap = 'k:9092', maxOffsetsPerTrigger = 10, x = true }",
    *(f"{STREAM}source = {{ {kind} = '/x' }}" for kind in SOURCE_KINDS),
    *(f"{STREAM}sink = {{ {kind} = '/x' }}" for kind in (*SINK_KINDS, *SINK_WORDS)),
    "[stream.b]\ncheckpoint = 's3://bucket/c'",
    "[stream.b]\ncheckpoint = 'dbfs:/Volumes/a/b/c'",
    "[stream.'a.b-c_D9']\ncheckpoint = 'file:///c'",
]
REFUSED = [
    "x = 1",
    "stream = 3",
    "pipeline = 3",
    "[stream.a]\nsource = { kafka = 't' }",
    "[stream.a]\ncheckpoint = 'c/d'",
    "[stream.a]\ncheckpoint = '~/c'",
    "[stream.a]\ncheckpoint = ''",
    "[stream.all]\ncheckpoint = '/c'",
    "[stream.'a b']\ncheckpoint = '/c'",
    "[stream.1a]\ncheckpoint = '/c'",
    STREAM + "sinks = { delta = '/t' }",
    STREAM + "sink = '/t'",
    STREAM + "sink = {}",
    STREAM + "sink = { delta = '' }",
    STREAM + "sink = { delta = 3 }",
    STREAM + "sink = { delta = '/t', parquet = '/p' }",
    STREAM + "sink = { delta = '/t', shared = 'yes' }",
    STREAM + "sink = { delta = '/t', keys = [] }",
    STREAM + "sink = { delta = '/t', app_id = '' }",
    STREAM + "source = { sqs = 'x' }",
    STREAM + "source = { kafka = 'a', delta = '/b' }",
    STREAM + "source = { kafka = 'a', options = { b = 1 } }",
    STREAM + "output_mode = 'overwrite'",
    STREAM + "state = 'dedupe'",
    STREAM + "state = [1]",
]
# What a schema cannot say: that two of them differ, that a path is a whole one.
REFUSED_BY_THE_READER = [
    STREAM + "[stream.b]\ncheckpoint = 'file:///c/'",
    STREAM + "[stream.A]\ncheckpoint = '/d'",
    STREAM + "sink = { delta = 'tables/t' }",
    STREAM + "source = { files = './landing' }",
    STREAM + "sink = { parquet = '~/out' }",
    "history = 'ops/history'",
]


def by_schema(text: str) -> bool:
    return bool(jsonschema.Draft202012Validator(schema()).is_valid(tomllib.loads(text)))


@pytest.mark.parametrize("text", TAKEN)
def test_both_take_it(text: str) -> None:
    parse_project_text(Path("surestart.toml"), text)
    assert by_schema(text)


@pytest.mark.parametrize("text", REFUSED)
def test_both_refuse_it(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_project_text(Path("surestart.toml"), text)
    assert raised.value.code in ("ProjectFileNotUnderstood", "StreamNameRefused")
    assert not by_schema(text)


@pytest.mark.parametrize("text", REFUSED_BY_THE_READER)
def test_the_reader_refuses_more(text: str) -> None:
    with pytest.raises(UsageError):
        parse_project_text(Path("surestart.toml"), text)


def test_the_schema_knows_every_key_of_the_reader() -> None:
    body = schema()
    stream = body["properties"]["stream"]["additionalProperties"]["properties"]

    assert body["properties"].keys() == set(FILE_KEYS)
    assert stream.keys() == set(STREAM_KEYS)
    assert stream["sink"]["anyOf"][0]["properties"].keys() == {*SINK_KINDS, *SINK_WORDS, *SINK_KEYS}
    jsonschema.Draft202012Validator.check_schema(body)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# x\n\n[stream.a]\ncheckpoint = '/c'\nsink = { delta = 'a/b' }", 5),
        ("# x\n[stream.a]\ncheckpoint = '/c'\n[ stream . 'b' ]\nstate = 3", 4),
        ("history = 3", 1),
    ],
)
def test_the_place_is_named(text: str, line: int) -> None:
    with pytest.raises(UsageError, match=rf"line {line}, "):
        parse_project_text(Path("surestart.toml"), text)


def test_python_says_it_in_the_same_words() -> None:
    text = "[stream.orders]\ncheckpoint = '/c'\nsource = { kafka = 'o', bootstrap = 'k:1' }\n"
    text += "sink = [{ delta = '/t', shared = true }, { merge = '/m', keys = ['id'] }]\nstate = ['dedupe']"
    (told,) = parse_project_text(Path("surestart.toml"), text).streams

    said = surestart.declare_stream(
        "orders",
        "/c",
        source={"kafka": "o", "bootstrap": "k:1"},
        sink=[{"delta": "/t", "shared": True}, {"merge": "/m", "keys": ["id"]}],
        state=["dedupe"],
    )

    assert said == told
    with pytest.raises(UsageError, match="relative path"):
        surestart.declare_stream("orders", "/c", sink={"delta": "a/b"})
