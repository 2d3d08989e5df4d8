"""Chats of ChatGPT and Claude: the branch that was seen, what was said in it and when, and what is left out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perdure.pipeline.curation.importers import detect
from perdure.pipeline.curation.importers.chatgpt import ChatGPTReader
from perdure.pipeline.curation.importers.claude import ClaudeReader
from perdure.pipeline.curation.importers.records import (
    CHARACTERS,
    MESSAGES,
    Damaged,
    ForeignFact,
    ForeignTalk,
    Found,
    LeftOut,
    Reader,
    windows,
)
from tests.pipeline.curation.importers.samples import (
    CLAUDE_MEMORY,
    PROJECT,
    SAVED,
    T0,
    chatgpt_conversation,
    claude_conversation,
    node,
    plain_chatgpt,
    said,
)


def read(reader: Reader, *values: Any) -> list[Found]:
    found = [each for number, value in enumerate(values, 1) for each in reader.read(value, f"item {number}")]
    return [*found, *reader.finish()]


def talks(found: list[Found]) -> list[ForeignTalk]:
    return [each for each in found if isinstance(each, ForeignTalk)]


def facts(found: list[Found]) -> list[tuple[str, str | None]]:
    return [(each.line["memory"], each.line.get("timestamp")) for each in found if isinstance(each, ForeignFact)]


def left(found: list[Found]) -> Counter[str]:
    assert not [each for each in found if isinstance(each, Damaged)]
    return Counter(each.reason for each in found if isinstance(each, LeftOut))


# ------------------------------------------------------------------ ChatGPT


def test_the_branch_that_was_seen_is_told_with_its_times() -> None:
    (talk,) = talks(read(ChatGPTReader(), chatgpt_conversation()))
    assert (talk.source, talk.id, talk.title) == ("chatgpt", "68a1c2d3-0000-8000-9000-000000000001", "Moving to Lisbon")
    assert [(each["role"], each["content"], each["timestamp"][:23]) for each in talk.messages] == [
        ("user", "I moved to Lisbon", "2025-01-01T09:00:01.500"),
        ("assistant", "Congratulations!", "2025-01-01T09:01:00.500"),
        ("user", "I also have a cat called Miso", "2025-01-01T09:01:04.500"),  # no time of its own: the one before
        ("assistant", "Hello \nMiso", "2025-01-01T09:01:10.500"),
    ]
    assert len({each["id"] for each in talk.messages}) == 4


def test_what_is_left_out_is_counted_by_reason() -> None:
    assert left(read(ChatGPTReader(), chatgpt_conversation())) == {
        "a system message": 1, "custom instructions": 1, "an image": 1, "an attached file": 1, "a sound": 1,
        "on a branch that was edited or regenerated away": 1, "the model's reasoning": 1, "a tool's message": 2,
        "code for a tool": 1, "an empty message": 1,
    }  # fmt: skip


def test_saved_memories_are_the_latest_copy_and_what_was_written_after_it() -> None:
    later = chatgpt_conversation()
    assert facts(read(ChatGPTReader(), later)) == [
        ("User plays the cello.", "2024-09-29"),
        ("User is a vet.\nand has a van.", "2024-09-30"),
        ("User moved to Lisbon.", "2025-01-01T09:01:02.500000+00:00"),
    ]
    earlier = plain_chatgpt(7, ["hi", "hello"], T0 - 9999)
    old = {"content_type": "model_editable_context", "model_set_context": "1. [2023-01-01]. User lives in Rome."}
    earlier["mapping"]["m7-1"]["message"] = said("m7-1", "assistant", None, T0 - 9000, content=old)
    found = read(ChatGPTReader(), later, earlier)
    assert [text for text, _ in facts(found)][:2] == ["User plays the cello.", "User is a vet.\nand has a van."]
    assert SAVED.count("[") == 2


def test_requests_to_forget_a_saved_memory_are_no_memories() -> None:
    talk = plain_chatgpt(1, ["hi", "Forget that the user lives in Rome"], T0)
    talk["mapping"]["m1-1"]["message"]["recipient"] = "bio"
    found = read(ChatGPTReader(), talk)
    assert facts(found) == []
    assert left(found)["a request to forget a saved memory"] == 1


@pytest.mark.parametrize("current", [None, 5, "gone"])
def test_without_its_end_the_newest_branch_counts(current: Any) -> None:
    (talk,) = talks(read(ChatGPTReader(), {**chatgpt_conversation(), "current_node": current}))
    assert [each["content"] for each in talk.messages][1] == "Congratulations!"


def test_a_conversation_kept_out_of_memory_stays_out_of_it() -> None:
    found = read(ChatGPTReader(), {**chatgpt_conversation(), "is_do_not_remember": True})
    assert left(found) == {"a conversation that was to be kept out of memory": 1}
    assert facts(found) == []


def test_a_circle_ends() -> None:
    talk = plain_chatgpt(1, ["one", "two"], T0)
    talk["mapping"]["root"]["parent"] = "m1-1"
    (found,) = talks(read(ChatGPTReader(), talk))
    assert [each["content"] for each in found.messages] == ["one", "two"]


def test_a_damaged_message_costs_itself_alone() -> None:
    talk = plain_chatgpt(1, ["one", "two", "three", "four", "five"], T0)
    talk["mapping"]["m1-0"]["message"]["content"] = "text"
    talk["mapping"]["m1-1"]["message"]["author"] = None
    talk["mapping"]["m1-2"]["message"]["content"]["parts"] = ["half \ud800"]
    talk["mapping"]["m1-3"]["message"]["create_time"] = "soon"
    talk["mapping"]["odd"] = 5
    found = read(ChatGPTReader(), talk)
    assert [each["content"] for each in talks(found)[0].messages] == ["four", "five"]
    assert len([each for each in found if isinstance(each, Damaged)]) == 4


def test_a_message_has_the_same_id_in_every_export() -> None:
    longer = plain_chatgpt(1, ["one", "two", "three"], T0)
    (first,) = talks(read(ChatGPTReader(), plain_chatgpt(1, ["one", "two"], T0)))
    (second,) = talks(read(ChatGPTReader(), longer))
    assert [each["id"] for each in second.messages][:2] == [each["id"] for each in first.messages]


# ------------------------------------------------------------------ Claude


def test_a_conversation_of_claude() -> None:
    found = read(ClaudeReader(), claude_conversation())
    (talk,) = talks(found)
    assert (talk.source, talk.id, talk.title) == ("claude", "0198aaaa-0000-7000-8000-000000000001", "Bread")
    assert [(each["role"], each["content"], each["timestamp"][:19]) for each in talk.messages] == [
        ("user", "I work at a bakery in Porto.", "2025-06-01T10:05:00"),
        ("assistant", "The answer", "2025-06-01T10:05:10"),
        ("assistant", "Anything else?", "2025-06-01T10:06:10"),
    ]
    assert left(found) == {
        "on a branch that was edited or regenerated away": 2, "an attached file": 2, "the model's reasoning": 1,
        "a message to a tool": 1, "an empty message": 1,
    }  # fmt: skip


def test_an_older_export_has_flat_texts_and_no_parents() -> None:
    flat = claude_conversation()
    flat["chat_messages"] = [
        {"uuid": "1", "text": "hello", "sender": "human", "created_at": "2024-01-01T00:00:00Z"},
        {
            "uuid": "2", "sender": "assistant", "created_at": "soon",
            "text": "one\n```\nThis block is not supported on your current device yet.\n```\ntwo",
        },
        {"uuid": "3", "text": "x", "sender": "robot"},
        5,
    ]  # fmt: skip
    found = read(ClaudeReader(), flat)
    assert [each["content"] for each in talks(found)[0].messages] == ["hello", "one\ntwo"]
    assert [each.reason for each in found if isinstance(each, (LeftOut, Damaged))] == [
        "a message is no object",
        "a message of an unknown role",
    ]


def test_claude_s_memory_is_facts_by_paragraph_and_point() -> None:
    found = read(ClaudeReader(), CLAUDE_MEMORY)
    assert facts(found) == [
        ("Alex is a backend engineer. Alex works in Berlin.", None),
        ("Plays the cello", None),
        ("Has two cats, Miso and Tofu", None),
        ("The project uses Postgres 16.", None),
        ("Prefers metric units", "2026-01-02T03:04:05.000000+00:00"),
    ]
    metadata = [each.line["metadata"] for each in found if isinstance(each, ForeignFact)]
    assert [each.get("section") for each in metadata] == ["Work context", "Personal", "Personal", None, None]
    assert metadata[3]["project_uuid"] == "0198aaaa-0000-7000-8000-000000000002"
    assert metadata[4]["memory_file"] == "/profile.md"
    again = [each.line["id"] for each in read(ClaudeReader(), CLAUDE_MEMORY) if isinstance(each, ForeignFact)]
    assert again == [each.line["id"] for each in found if isinstance(each, ForeignFact)]


def test_projects_are_left_out_by_name() -> None:
    assert left(read(ClaudeReader(), PROJECT)) == {"a project: its instructions and documents are no memories": 1}
    assert (detect(PROJECT), detect([CLAUDE_MEMORY]), detect(claude_conversation())) == ("claude",) * 3
    assert detect(chatgpt_conversation()) == "chatgpt"


# ------------------------------------------------------------------ windows


def minute(n: int, role: str = "user", text: str = "x") -> dict[str, Any]:
    return {
        "role": role,
        "content": text,
        "timestamp": f"2025-01-{1 + n // 1440:02d}T{n // 60 % 24:02d}:{n % 60:02d}:00",
    }


def test_windows_keep_every_message_in_order() -> None:
    messages = [minute(n, ("user", "assistant")[n % 2], "x" * (n * 37 % 900)) for n in range(500)]
    found = windows(messages)
    assert [each for window in found for each in window] == messages
    assert max(map(len, found)) <= MESSAGES
    assert all(sum(len(each["content"]) for each in window) <= CHARACTERS for window in found)
    assert all(window[0]["role"] == "user" for window in found)


def test_windows_end_at_a_pause_and_before_what_is_long() -> None:
    assert [len(each) for each in windows([minute(0), minute(1), minute(500), minute(501)])] == [2, 2]
    assert [len(each) for each in windows([minute(0), minute(1, text="x" * 50_000), minute(2)])] == [1, 1, 1]
    assert windows([]) == []


def test_messages_that_were_added_do_not_move_the_windows_before_them() -> None:
    messages = [minute(n, ("user", "assistant")[n % 2]) for n in range(90)]
    shorter, longer = windows(messages[:50]), windows(messages)
    assert longer[: len(shorter) - 1] == shorter[:-1]


def test_a_node_that_leads_nowhere_is_told() -> None:
    talk = plain_chatgpt(1, ["one"], T0)
    talk["mapping"]["lost"] = node("lost", {"no": "id"}, [], said("lost", "user", ["x"], T0))  # type: ignore[arg-type]
    found = read(ChatGPTReader(), talk)
    assert [each.reason for each in found if isinstance(each, Damaged)] == ["a node of the conversation is no object"]
