"""JSON files taken apart: every sound item comes out, whatever is damaged before it and however it is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.pipeline.curation.importers import json_pieces
from perdure.pipeline.curation.importers.json_pieces import DamagedError, Piece, pieces


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def read(text: str | bytes, size: int = 7) -> list[Piece]:
    return list(pieces(cut(text.encode() if isinstance(text, str) else text, size)))


def sound(text: str | bytes, size: int = 7) -> list[Any]:
    found = []
    for piece in read(text, size):
        try:
            found.append(piece.value())
        except DamagedError:
            continue
    return found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), JSON, min_size=1, max_size=4), min_size=1, max_size=6)


@settings(deadline=None)
@given(OBJECTS, st.integers(1, 40), st.booleans(), st.sampled_from([None, 1]))
def test_a_list_comes_out_item_by_item(items: list[Any], size: int, ascii: bool, indent: int | None) -> None:
    text = json.dumps(items, ensure_ascii=ascii, indent=indent).encode("utf-8", "surrogatepass")
    if b"\xed" in text:  # a lone surrogate: no UTF-8, and no matter of this test
        return
    found = list(pieces(cut(text, size)))
    assert [piece.value() for piece in found] == items
    assert [piece.number for piece in found] == list(range(1, len(items) + 1))


@settings(deadline=None)
@given(OBJECTS, st.integers(1, 40))
def test_lines_come_out_line_by_line(items: list[Any], size: int) -> None:
    text = "".join(f"{json.dumps(item)}\r\n\n" for item in items).encode()
    found = list(pieces(cut(text, size)))
    assert [piece.value() for piece in found] == items
    assert [piece.number for piece in found] == [1 + 2 * n for n in range(len(items))]


@pytest.mark.parametrize("name", json_pieces.WRAPPERS)
@pytest.mark.parametrize("indent", [None, 2])
def test_the_list_that_an_object_wraps_comes_out(name: str, indent: int | None) -> None:
    page = {
        "count": 2,
        "next": "https://host/?page=2",
        "previous": None,
        name: [{"a": 1}, {"b": "]"}],
        "more": {"x": 1},
    }
    found = read(json.dumps(page, indent=indent) * 2)
    assert [piece.value() for piece in found if not piece.beside] == [{"a": 1}, {"b": "]"}] * 2
    assert [piece.beside for piece in found if piece.beside] == [("more",)] * 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_byte_order_marks_and_utf_16(encoding: str) -> None:
    assert sound('[{"a": "é 🎻"}]'.encode(encoding)) == [{"a": "é 🎻"}]


@pytest.mark.parametrize(
    ("damaged", "kept"),
    [
        ('[{"a": 1}, {"b": tru}, {"c": 3}]', [{"a": 1}, {"c": 3}]),
        ('[{"a": 1}, nonsense, {"c": 3}]', [{"a": 1}, {"c": 3}]),
        ('[{"a": 1}, {"b": NaN}, {"c": 3}]', [{"a": 1}, {"c": 3}]),
        ('[{"a": 1}, {"b": "x\ny"}, {"c": 3}]', [{"a": 1}, {"c": 3}]),
        ('[\n {"a": 1},\n {"b": "half\n },\n {"c": 3}\n]', [{"a": 1}, {"c": 3}]),
        ('[{"a": 1}, {"b": "\\q"}, {"c": 3}]', [{"a": 1}, {"c": 3}]),
        ('[{"a": 1}, {"a": "said "so"}, {"a": 3}, {"a": 4}]', [{"a": 1}, {"a": 3}, {"a": 4}]),
        ('[{"a": 1}, {"a": never closed"}, {"a": [3]}]', [{"a": 1}, {"a": [3]}]),
        ('[{"a": 1}, {"b": {}}}, {"c": 3}]', [{"a": 1}, {"b": {}}, {"c": 3}]),
        ('[{"a": 1}, ' + "[" * 5000 + "]" * 5000 + ', {"c": 3}]', [{"a": 1}, {"c": 3}]),
        ('[{"a": 1}, {"b": ' + "9" * 5000 + '}, {"c": 3}]', [{"a": 1}, {"c": 3}]),
        ('[{"a": 1}, {"b": 2}, {"c": ', [{"a": 1}, {"b": 2}]),
        ('[{"a": 1}, {"b": "never closed', [{"a": 1}]),
        ('[{"a": 1}', [{"a": 1}]),
        ('{"a": 1}\n{"b": \n{"c": 3}', [{"a": 1}, {"c": 3}]),
        ('{"b": \n{"a": 1}\n{"c": 3}', [{"a": 1}, {"c": 3}]),
        ('nonsense\n{"a": 1}\n', [{"a": 1}]),
        ('{"results": [{"a": 1}, {"b": }, {"c": 3}], "n": 1}', [{"a": 1}, {"c": 3}]),
    ],
)
@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_one_damaged_item_costs_itself_alone_and_is_told(damaged: str, kept: list[Any], size: int) -> None:
    found = read(damaged, size)
    assert [each for each in sound(damaged, size) if isinstance(each, dict)] == kept
    faults = []
    for piece in found:
        try:
            piece.value()
        except DamagedError as error:
            faults.append(str(error))
    assert faults
    assert all(len(fault) < 100 for fault in faults)


def test_an_item_that_is_too_long_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_pieces, "LONGEST", 1000)
    long = {"b": ["x" * 50] * 100}
    for text in (json.dumps([{"a": 1}, long, {"c": 3}]), "\n".join(map(json.dumps, [{"a": 1}, long, {"c": 3}]))):
        assert sound(text, 64) == [{"a": 1}, {"c": 3}]
        assert [piece.fault for piece in read(text, 64) if piece.fault] == ["it is longer than 0 million characters"]


def test_nothing_is_nothing() -> None:
    assert read("") == read(" \n\n ") == read("[]") == []


def test_bytes_that_are_no_utf_8_stay_where_they_stand() -> None:
    first, second = read(b'[{"a": "caf\xe9"}, {"b": 1}]')
    assert first.value() == {"a": "caf\udce9"}
    assert second.value() == {"b": 1}


@given(
    st.binary(max_size=300) | st.text(alphabet='[]{}",:\\ \nab1tnu', max_size=200).map(str.encode), st.integers(1, 30)
)
def test_no_bytes_whatever_break_it(data: bytes, size: int) -> None:
    for piece in pieces(cut(data, size)):
        try:
            piece.value()
        except DamagedError:
            continue


@given(OBJECTS, st.data())
def test_a_truncated_list_keeps_what_is_whole(items: list[Any], data: st.DataObject) -> None:
    text = json.dumps(items)
    end = data.draw(st.integers(1, len(text) - 1))
    found = sound(text[:end], 16)
    assert found[: len(items)] == items[: len(found)] or found[:-1] == items[: len(found) - 1]


def test_memory_is_for_the_longest_item_and_not_for_the_file() -> None:
    import tracemalloc

    def endless() -> Any:
        yield b"["
        for n in range(2000):
            yield json.dumps({"n": n, "text": "x" * 10_000}).encode() + b","
        yield b"{}]"

    tracemalloc.start()
    count = sum(1 for _ in pieces(endless()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 2001
    assert peak < 2_000_000  # the file has 20 million
