"""What the log files have in common: a version line, lines of JSON, and the ways in which they are damaged.

    v1                      "v" and a number
    {"…": …}                JSON on one line each

A file may be hostile (a gigabyte, a million brackets, invalid UTF-8), so every read is bounded and every failure to
read it becomes a `LogFault` value; nothing here raises because of what a file contains.

What a state file is not: whole, of a known form, or there."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from surestart.facts.storage.read_budget import NotRead, charge
from surestart.facts.storage.storage import Storage

# A commit of 40 stores x 200 partitions x format v2 is 0.3 MB, Kafka offsets of 10,000 partitions 0.2 MB.
LOG_LIMIT = 8 * 1024 * 1024

EMPTY = "empty"
TORN = "torn"
VERSION = "version"
NOT_A_FILE = "not a file"
TOO_LARGE = "too large"
UNREADABLE = "unreadable"
STALE_CRC = "stale crc"
# Readable to Spark, and less than it wrote: it goes on as if the missing part had never been.
FORGETFUL = "forgetful"


@dataclass(frozen=True)
class LogFault:
    """A file that is not what Spark writes. `kind` is one of the constants of this module."""

    path: str
    kind: str
    detail: str


class FormatError(ValueError):
    """Raised inside a parser, turned into a LogFault by `read_log_file`'s callers."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


def split_log_lines(data: bytes, what: str) -> list[str]:
    """The lines as Spark's reader sees them: strict UTF-8; CR, LF and CRLF all end a line."""
    if not data:
        raise FormatError(EMPTY, f"{what} has 0 bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(TORN, f"{what} is not UTF-8 at byte {error.start} of {len(data)}") from error
    lines = re.split(r"\r\n|\n|\r", text)
    if lines[-1] == "":
        lines.pop()
    return lines or [""]


def parse_version(line: str, supported: int, what: str) -> int:
    match = re.fullmatch(r"v([0-9]{1,9})", line)
    if not match or int(match.group(1)) < 1:
        raise FormatError(TORN, f"the first line of {what} is {line[:20]!r}, not a version such as 'v1'")
    version = int(match.group(1))
    if version > supported:
        raise FormatError(VERSION, f"{what} has version v{version}; v{supported} is the highest known")
    return version


def parse_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object, or a FormatError: also for a million brackets, NaN, and numbers with thousands of digits."""
    value, _ = parse_json(text, what)
    if not isinstance(value, dict):
        raise FormatError(TORN, f"{what} is a JSON {type(value).__name__}, not an object")
    return value


def parse_json(text: str, what: str) -> tuple[Any, str]:
    """The JSON value and what stands behind it: Spark's parser stops at the end of the value and ignores the rest."""
    text = text.lstrip(" \t\r\n")
    try:
        value, end = _DECODER.raw_decode(text)
    except RecursionError as error:
        raise FormatError(TORN, f"{what} is nested too deeply to be Spark's") from error
    except ValueError as error:
        raise FormatError(TORN, f"{what} is not whole JSON: {str(error)[:120]}") from error
    return value, text[end:].strip()


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:20]} is larger than any number")
    return number


def _whole(text: str) -> int:
    # Java's longs have 19 digits. Python adds 1 to a number of 4,300 digits and cannot print what comes out.
    if len(text) > 40:
        raise ValueError(f"{text[:20]} goes on for {len(text):,} digits")
    return int(text)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)


def read_log_bytes(storage: Storage, path: str) -> bytes | LogFault:
    """The file's bytes, or the reason why they are not to be had. What will be made of them is charged."""
    try:
        data = storage.read_file(path, LOG_LIMIT + 1)
        charge(storage, weight(data), path)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except IsADirectoryError:
        return LogFault(path, NOT_A_FILE, "there is a folder where Spark keeps a file")
    except NotRead as error:
        return LogFault(path, TOO_LARGE, str(error))
    except OSError as error:
        return LogFault(path, UNREADABLE, f"{type(error).__name__}: {error.strerror or error}")
    if len(data) > LOG_LIMIT:
        return LogFault(path, TOO_LARGE, f"more than {LOG_LIMIT // 1024 // 1024} MB; Spark's own are a few kB")
    return data


def read_listed_bytes(storage: Storage, path: str) -> bytes | LogFault:
    """The same for a file that a listing has just shown: one that cannot be opened by its name is a fault too."""
    try:
        return read_log_bytes(storage, path)
    except (FileNotFoundError, NotADirectoryError):
        why = "it is listed and cannot be opened: a link to nothing, or the query is running and removes its old files"
        return LogFault(path, UNREADABLE, why)


def weight(data: bytes) -> int:
    """How many values these lines of JSON may become: every list, object and element is one."""
    if len(data) > LOG_LIMIT:
        return 0
    return sum(data.count(mark) for mark in (b",", b"[", b"{", b"\n", b"\r")) + len(data) // 16


def crc_path(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc" if folder else f".{name}.crc"


def crc_disagrees(data: bytes, crc: bytes) -> str:
    """Why Hadoop's local file system would refuse `data`, or "".

    Format of `.name.crc`: the bytes "crc\\0", the chunk size as a big-endian 32-bit number, one CRC-32 per chunk.
    An empty file is never compared: there is no chunk to read.
    """
    if not data:
        return ""
    if len(crc) < 8 or crc[:4] != b"crc\x00":
        return "" if not crc else "the .crc file is damaged itself"
    chunk = int(struct.unpack(">I", crc[4:8])[0])
    if not 0 < chunk <= LOG_LIMIT:
        return "the .crc file is damaged itself"
    expected = crc[8:]
    if 4 * -(-len(data) // chunk) > len(expected):
        return "the .crc file is shorter than the file needs"
    actual = b"".join(struct.pack(">I", zlib.crc32(data[at : at + chunk])) for at in range(0, len(data), chunk))
    if expected[: len(actual)] == actual:
        return ""
    return f"the file's {len(data)} bytes are not the ones that the .crc file was made for"


class Torn(FormatError):
    """The bytes are not what Spark writes: cut off, flipped, or of another file."""

    def __init__(self, detail: str) -> None:
        super().__init__(TORN, detail)


class TornFile(Torn):
    """The same, of a file that the detail names."""


class UnknownForm(FormatError):
    """They may well be whole, and are of a form that is not read here."""

    def __init__(self, detail: str) -> None:
        super().__init__(VERSION, detail)


class NotInState(Exception):
    """No such operator, store, partition or version: `given` are those that there are."""

    def __init__(self, what: str, given: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.given = given


@contextmanager
def naming(path: str) -> Iterator[None]:
    """An error inside the block, for torn bytes or an unknown form, names that file."""
    try:
        yield
    except Torn as error:
        raise TornFile(f"{path} is torn: {error}") from error
    except UnknownForm as error:
        raise UnknownForm(f"{path}: {error}") from error
