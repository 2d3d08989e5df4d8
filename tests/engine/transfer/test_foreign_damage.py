"""Other tools' exports as files: formats, bundles, damage."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.domain.errors import InvalidInputError, ScopeError
from perdure.domain.scope import Scope
from perdure.engine.transfer.foreign import BrokenPartError, ImportOptions, Part, import_parts, survey_parts
from tests.engine.transfer.foreign_imports import ANA, load, memories, part, run
from tests.pipeline.curation.importers.samples import (
    CLAUDE_MEMORY,
    EXPIRING,
    HISTORY,
    ITEM,
    OPEN,
    PLATFORM,
    ROW,
    chatgpt_conversation,
    claude_conversation,
)

# ------------------------------------------------------------------ files, formats, damage


def test_perdure_s_own_lines_and_lists_are_read(tmp_path: Path) -> None:
    facts = [{"memory": "User likes tea", "user_id": "eva"}, {"memory": "User likes rice", "user_id": "eva"}]
    lines = "\n".join(map(json.dumps, [*facts, {"role": "user", "content": "I live in Rome.", "user_id": "eva"}]))
    assert load(tmp_path / "a", [lines]).new == 3
    assert load(tmp_path / "b", [json.dumps(facts, indent=2)]).new == 2
    listed = {"results": [item.model_dump() for item in memories(tmp_path / "b")], "next_cursor": None}
    assert load(tmp_path / "c", [listed]).new == 2
    assert [item.id for item in memories(tmp_path / "c")] == [item.id for item in memories(tmp_path / "b")]


def test_a_file_of_nothing_known_says_what_was_looked_for(tmp_path: Path) -> None:
    for odd in ([{"a": 1}], "hello there", "{}", "5"):
        with pytest.raises(InvalidInputError, match="looked for lines of perdure.*mem0.*ChatGPT.*Claude.*LangGraph"):
            load(tmp_path, [odd])
    assert load(tmp_path, [""]).lines == 0


def test_a_lone_line_that_is_no_json_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"\(item 1: it is not JSON: NaN is no JSON number\)"):
        load(tmp_path, ['{"memory": "x", "user_id": "eva", "importance": NaN}\n'])


def test_a_conversation_without_a_message_is_none(tmp_path: Path) -> None:
    lines = '{"messages": [], "user_id": "eva"}\n{"memory": "x", "user_id": "eva"}\n'
    for report in (load(tmp_path, [lines]), survey_parts([part(lines)], ANA)):
        assert set(report.kinds) == {"facts"} and report.refused == 0
        assert report.left_out["a conversation without a message"].examples == ["line 1"]


@pytest.mark.parametrize(
    "text",
    ["hello", '{"a": 1}', '{"perdure": 99}', '{"memory": 5, "user_id": "eva"}', '{"messages": [], "user_id": "eva"}'],
)
def test_a_file_of_which_nothing_can_be_taken_makes_no_memory(tmp_path: Path, text: str) -> None:
    with suppress(InvalidInputError):
        load(tmp_path / "new", [text])
    assert not (tmp_path / "new").exists()


def test_chats_without_an_owner_make_no_memory(tmp_path: Path) -> None:
    with pytest.raises(ScopeError):
        load(tmp_path / "new", [[chatgpt_conversation()]], ImportOptions())
    assert not (tmp_path / "new").exists()


def test_a_format_that_was_asked_for_is_held_to(tmp_path: Path) -> None:
    bare = {"memory": "User likes tea", "id": "m-1", "user_id": "eva"}
    assert load(tmp_path, [[bare]]).refusals[0].reason.startswith("id must be a UUID")
    assert load(tmp_path, [[bare]], ImportOptions("mem0")).new == 1
    report = load(tmp_path, [[{"a": 1}, 5]], ImportOptions("claude", Scope(user_id="eva")))
    assert report.refused == 2
    report = load(tmp_path, [[OPEN], [claude_conversation()]], ImportOptions("claude", Scope(user_id="eva")))
    assert report.formats == {"claude": 1}
    assert report.left_out["a file of no known format, or of another than the one asked for"].count == 1
    with pytest.raises(InvalidInputError, match="format must be one of"):
        ImportOptions("letta")


def test_damaged_items_cost_themselves_alone(tmp_path: Path) -> None:
    text = json.dumps([OPEN, EXPIRING, PLATFORM])
    broken = text.replace('"expiration_date": "2030', '"expiration_date": 2030"').replace(
        "cricket and", "cricket \\ud800 and"
    )
    report = load(tmp_path, [broken])
    assert report.new == 1
    assert [(refusal.line, refusal.where) for refusal in report.refusals] == [
        (2, "item 2"),
        (3, f"item 3 ({PLATFORM['id']})"),
    ]
    report = load(tmp_path, [text[:-50]], ImportOptions())
    assert report.kinds["facts"].model_dump() == {"new": 1, "skipped": 1}
    assert [refusal.reason for refusal in report.refusals] == [
        "the file ends in the middle of it",
        "the file ends before its list does",
    ]


def test_a_file_that_cannot_be_read_to_its_end_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    def torn() -> Iterator[bytes]:
        yield json.dumps([OPEN])[:-1].encode()
        raise BrokenPartError("the zip is damaged here")

    def locked() -> Iterator[bytes]:
        raise BrokenPartError("it is encrypted")
        yield b""

    files = [Part("torn.json", torn), Part("locked.json", locked), part([EXPIRING], "whole.json")]
    report = load(tmp_path, files, ImportOptions())
    assert report.new == 2
    assert {(refusal.where, refusal.reason) for refusal in report.refusals} == {
        ("torn.json: item 2", "the file ends before its list does"),
        ("torn.json", "the zip is damaged here"),
        ("locked.json", "it is encrypted"),
    }
    report = load(tmp_path, [Part("locked.json", locked)], ImportOptions())
    assert [(refusal.where, refusal.reason) for refusal in report.refusals] == [("locked.json", "it is encrypted")]


def test_a_survey_writes_nothing_and_says_the_same(tmp_path: Path) -> None:
    files = [part([chatgpt_conversation(), {"mapping": 5}]), part([OPEN, {**OPEN, "memory": 5}], "mem0.json")]
    survey = survey_parts(files, ANA)
    report = run(tmp_path, lambda engine: import_parts(engine, files, ANA))
    assert survey.model_dump().pop("dry_run") is True
    for name in ("lines", "formats", "new", "refused", "refusals", "kinds", "left_out"):
        assert survey.model_dump()[name] == report.model_dump()[name]


SAMPLES = [OPEN, EXPIRING, PLATFORM, HISTORY, ITEM, ROW, chatgpt_conversation(), claude_conversation(), CLAUDE_MEMORY]
ODD = st.sampled_from(
    [None, True, -1, 1e308, 10**400, float("inf"), "", " ", "\x00", "\ud800", "x" * 2000, [], {}, [[[]]], {"a": {}},
     "🎻", ["x"], [5], {"role": 5}, "2025-13-45", "9999-12-31T23:59:59.999999-14:00"]
)  # fmt: skip


def spoilt(value: Any, draw: Callable[[Any], Any], depth: int = 0) -> Any:
    """The value with something in it replaced."""
    if depth > 6 or not isinstance(value, (dict, list)) or not value or draw(st.integers(0, 6)) == 0:
        return draw(ODD)
    place = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
    changed = value.copy()
    if draw(st.integers(0, 9)) == 0:
        del changed[place]
    else:
        changed[place] = spoilt(value[place], draw, depth + 1)
    return changed


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_no_spoilt_export_breaks_the_reading(data: st.DataObject) -> None:
    items = [data.draw(st.sampled_from(SAMPLES)) for _ in range(data.draw(st.integers(1, 3)))]
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(items) - 1))
        items[place] = spoilt(items[place], data.draw)
    text = json.dumps(items).encode()
    end = data.draw(st.integers(0, len(text)) | st.just(len(text)))
    wish = ImportOptions(
        data.draw(st.sampled_from([None, "mem0", "chatgpt", "claude", "langgraph", "perdure"])), ANA.default
    )
    try:
        report = survey_parts([part(text[:end])], wish)
    except InvalidInputError:
        return
    assert all(len(refusal.reason) < 600 for refusal in report.refusals)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_what_the_reading_takes_the_memory_takes(data: st.DataObject) -> None:
    sound = {**OPEN, "id": "5f0c8a1e-2b7d-4e63-9a40-6c1d2e3f4a5b"}  # an id of its own: of two with one, the first stays
    items = [spoilt(each, data.draw) for each in (OPEN, PLATFORM, ITEM)] + [sound]
    with tempfile.TemporaryDirectory() as folder:
        surveyed = survey_parts([part(items)], ImportOptions("mem0", ANA.default))
        report = load(Path(folder), [items], ImportOptions("mem0", ANA.default))
        assert report.refused == surveyed.refused
        assert report.new + report.skipped == surveyed.new
        assert OPEN["memory"] in {item.memory for item in memories(Path(folder), past=True)}
