"""Which rows `--key` means: by each type that a key may have."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from surestart.facts.checkpoint.log_file import NotInState
from surestart.facts.checkpoint.state_types import Struct, read_type
from surestart.facts.state.read_rows import StateRow
from surestart.report.text.wanted_key import NotOfColumn, wanted_rows

MOMENT = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
# Name, type in the schema, value in the row, texts that mean it, texts that mean another one, texts that mean none.
COLUMNS: list[tuple[str, Any, Any, list[str], list[str], list[str]]] = [
    ("k", "string", "a=b", ["a=b"], ["a", "null", ""], []),
    ("n", "integer", 7, ["7", "07", " 7"], ["8", "null"], ["7.0", "x", ""]),
    ("f", "float", 0.10000000149011612, ["0.1", "1e-1"], ["0.2"], ["x", "1e99"]),
    ("d", "double", float("nan"), ["nan", "NaN"], ["0"], ["x"]),
    ("m", "decimal(10,2)", Decimal("1.50"), ["1.5", "1.50"], ["1.51"], ["1,5"]),
    ("b", "boolean", True, ["true", "TRUE"], ["false"], ["1"]),
    ("y", "binary", b"\x0a\x1b", ["0a1b", "0A1B"], ["0a"], ["0a1", "xx"]),
    ("t", "timestamp", MOMENT, ["2026-01-01T00:05:00Z", "2026-01-01T01:05:00+01:00"], ["2026-01-01T00:06:00Z"],
     ["2026-01-01T00:05:00", "yesterday"]),
    ("l", "timestamp_ntz", datetime(2026, 1, 1, 0, 5), ["2026-01-01 00:05"], ["2026-01-01"], ["2026-01-01T00:05:00Z"]),
    ("j", "date", date(2026, 1, 1), ["2026-01-01"], ["2026-01-02"], ["1 January"]),
    ("a", {"type": "array", "elementType": "integer"}, [1, 2], ["[1,2]", "[1, 2]"], ["[2, 1]", "[]"], ["1,2"]),
]  # fmt: skip


def key_of(*columns: tuple[str, Any]) -> Struct:
    kind = read_type({"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in columns]})
    assert isinstance(kind, Struct)
    return kind


def meets(kind: Struct, key: tuple[Any, ...], *asked: str) -> bool:
    (test,) = wanted_rows(asked, [kind])
    assert test is not None
    return test(StateRow(0, key, ()))


@pytest.mark.parametrize(("name", "kind", "value", "same", "other", "none"), COLUMNS, ids=lambda one: str(one)[:12])
def test_a_text_is_read_by_the_type_of_its_column(
    name: str, kind: Any, value: Any, same: list[str], other: list[str], none: list[str]
) -> None:
    key = key_of((name, kind))
    for text in same:
        assert meets(key, (value,), f"{name}={text}")
        assert not meets(key, (None,), f"{name}={text}")
    for text in other:
        assert not meets(key, (value,), f"{name}={text}")
    for text in none:
        with pytest.raises(NotOfColumn, match=f"is no value of {name} "):
            wanted_rows([f"{name}={text}"], [key])
    assert meets(key, (None,), f"{name}=null")


def test_parts_of_structs_and_columns_of_one_name_have_names_of_their_own() -> None:
    window = {
        "type": "struct",
        "fields": [{"name": "start", "type": "timestamp"}, {"name": "end", "type": "timestamp"}],
    }
    key = key_of(("window", window), ("g", "integer"), ("g", "integer"), ("a=b", "string"))
    row = ((MOMENT, MOMENT), 1, 2, "x=y")
    assert meets(key, row, "window.start=2026-01-01T00:05:00Z", "g=1", "g (2)=2", "a=b=x=y")
    assert meets(key, row, 'window={"start": "2026-01-01T00:05:00Z", "end": "2026-01-01T00:05:00Z"}')
    assert meets(key, (None, 1, 2, "x"), "window.end=null", "window=null")
    assert not meets(key, row, "g=2")
    # In any column.
    assert meets(key, row, "2")
    assert not meets(key, row, "3")
    with pytest.raises(NotInState) as said:
        wanted_rows(["start=2026"], [key])
    assert "window.start timestamp" in said.value.given


def test_of_several_keys_each_has_to_be_met_and_a_store_without_the_column_is_left_out() -> None:
    left, right = key_of(("k", "string")), key_of(("k", "string"), ("index", "long"))
    assert [test is None for test in wanted_rows(["index=1", "k=a"], [left, right])] == [True, False]
    assert [test is None for test in wanted_rows(["a"], [left, right])] == [False, False]
    with pytest.raises(NotOfColumn, match="'a' is no value of index bigint"):
        wanted_rows(["k=a", "index=a"], [left, right])
