"""Other tools' exports in a memory: nothing lost, nothing twice, whatever breaks off and whatever is damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.errors import ScopeError
from perdure.domain.scope import Scope
from perdure.engine.requests import ForgetRequest
from perdure.engine.transfer.foreign import ImportOptions, import_parts
from perdure.pipeline.curation.importers.langgraph import NamespacePattern
from tests.engine.transfer.foreign_imports import is_sound, load, memories, messages, part, run
from tests.pipeline.curation.importers.samples import (
    CLAUDE_MEMORY,
    EXPIRING,
    HISTORY,
    ITEM,
    OPEN,
    PLATFORM,
    PROJECT,
    ROW,
    T0,
    chatgpt_conversation,
    claude_conversation,
    plain_chatgpt,
)

# ------------------------------------------------------------------ facts


def test_memories_of_mem0_keep_id_scope_times_and_metadata(tmp_path: Path) -> None:
    pages = [{"results": [OPEN, EXPIRING]}, {"count": 1, "next": None, "results": [PLATFORM], "relations": [{"a": 1}]}]
    report = load(tmp_path, [[*pages, HISTORY]], ImportOptions())
    assert report.model_dump()["kinds"] == {"facts": {"new": 3, "skipped": 0}}
    assert report.formats == {"mem0": 4}
    assert sorted(report.left_out) == [
        "`relations`, which stands beside the list of the file",
        "an event of mem0's history: it says no scope, and the memories themselves are enough",
    ]
    stored = {item.id: item for item in memories(tmp_path)}
    ana = stored[OPEN["id"]]
    assert (ana.memory, ana.scope) == (OPEN["memory"], Scope(user_id="ana", agent_id="travel", run_id="r1"))
    assert (ana.created_at, ana.updated_at, ana.told_at) == (OPEN["created_at"], OPEN["updated_at"], OPEN["updated_at"])
    assert ana.metadata == {**OPEN["metadata"], "actor_id": "Ana", "role": "user"}
    assert (ana.source, stored[EXPIRING["id"]].expires_at) == ("import:mem0", "2030-02-01T00:00:00.000000+00:00")
    assert stored[PLATFORM["id"]].created_at == "2025-02-26T18:29:36.630547+00:00"
    again = load(tmp_path, [[*pages, HISTORY]], ImportOptions())
    assert again.model_dump()["kinds"] == {"facts": {"new": 0, "skipped": 3}}
    assert is_sound(tmp_path)


def test_what_another_memory_replaced_is_past(tmp_path: Path) -> None:
    load(tmp_path, [[OPEN, {**PLATFORM, "replaced_by": OPEN["id"]}]], ImportOptions())
    assert [item.id for item in memories(tmp_path)] == [OPEN["id"]]
    assert {item.id for item in memories(tmp_path, past=True)} == {OPEN["id"], PLATFORM["id"]}


def many_mem0(count: int) -> list[dict[str, Any]]:
    draw = random.Random(1)
    return [
        {
            "id": f"4cb4267f-da95-4dc0-9f60-{n:012d}", "memory": f"note {n}, {draw.randrange(10**6)} 🎻",
            "hash": "x", "metadata": {"n": n}, "user_id": f"user {n % 50}",
            "created_at": f"2025-01-01T00:{n // 60 % 60:02d}:{n % 60:02d}.000000+00:00",
            "updated_at": f"2025-02-01T00:{n // 60 % 60:02d}:{n % 60:02d}.000000+00:00",
            **({"agent_id": "helper"} if n % 3 == 0 else {}),
        }
        for n in range(count)
    ]  # fmt: skip


def test_ten_thousand_memories_of_mem0_without_loss(tmp_path: Path) -> None:
    given = many_mem0(10_000)
    report = load(tmp_path, [{"results": given}], ImportOptions())
    assert (report.refused, report.left_out, report.kinds["facts"].new) == (0, {}, 10_000)
    told = [
        (each["id"], each["memory"], each["user_id"], each.get("agent_id"), each["created_at"], each["updated_at"])
        for each in given
    ]
    kept = memories(tmp_path)
    found = [
        (item.id, item.memory, item.scope.user_id, item.scope.agent_id, item.created_at, item.updated_at)
        for item in kept
    ]
    assert sorted(found, key=str) == sorted(told, key=str)
    assert sum(item.metadata["n"] for item in kept) == sum(range(10_000))


def test_ten_thousand_items_of_langgraph_without_loss(tmp_path: Path) -> None:
    given = [
        {
            **ITEM, "namespace": ["memories", f"user {n % 50}"], "key": f"key-{n // 50}",
            "value": {"content": f"Fact {n}", "n": n},
        }
        for n in range(10_000)
    ]  # fmt: skip
    wish = ImportOptions(patterns=[NamespacePattern.parse("memories,{user_id}")])
    report = load(tmp_path, ["\n".join(map(json.dumps, given))], wish)
    assert (report.refused, report.left_out, report.kinds["facts"].new) == (0, {}, 10_000)
    told = {(item["value"]["content"], item["namespace"][1], item["key"], item["value"]["n"]) for item in given}
    found = {(item.memory, item.scope.user_id, item.metadata["key"], item.metadata["n"]) for item in memories(tmp_path)}
    assert found == told


def test_an_item_without_a_scope_is_refused_with_what_to_do(tmp_path: Path) -> None:
    report = load(tmp_path, [[ITEM, ROW]], ImportOptions())
    assert (report.refused, report.new) == (2, 0)
    assert all("--namespace" in refusal.reason and "--user-id" in refusal.reason for refusal in report.refusals)
    assert report.refusals[0].where == "item 1 (memories/ana/k1)"
    bare = {key: value for key, value in OPEN.items() if key not in ("user_id", "agent_id", "run_id")}
    report = load(tmp_path, [[bare, PLATFORM]], ImportOptions())
    assert (report.refused, report.new) == (1, 1)
    assert "give --user-id" in report.refusals[0].reason
    assert load(tmp_path, [[ITEM, ROW, bare]]).new == 2  # one file, one format
    assert {item.scope.user_id for item in memories(tmp_path)} == {"alex", "ana"}


def test_what_stands_under_its_id_already_stays_and_that_is_told(tmp_path: Path) -> None:
    load(tmp_path, [[OPEN]])
    report = load(
        tmp_path, [[{**OPEN, "memory": "Ana moved to Braga"}, OPEN, {**EXPIRING, "user_id": "zoë"}, EXPIRING]]
    )
    assert report.kinds["facts"].model_dump() == {"new": 1, "skipped": 3}
    left = report.left_out["here already under its id, with another text or scope: that one stays"]
    assert left.count == 2
    assert [item.memory for item in memories(tmp_path, Scope(user_id="ana"))] == [OPEN["memory"]]


def test_a_deleted_memory_does_not_come_back(tmp_path: Path) -> None:
    load(tmp_path, [[OPEN, EXPIRING]])
    run(tmp_path, lambda engine: engine.revise.delete(OPEN["id"]))
    run(tmp_path, lambda engine: engine.forget(ForgetRequest(scope=Scope(), id=EXPIRING["id"])))
    assert load(tmp_path, [[OPEN, EXPIRING]]).new == 0
    assert memories(tmp_path) == []


# ------------------------------------------------------------------ conversations


def test_chats_are_told_oldest_first_whichever_conversation_they_are_of(tmp_path: Path) -> None:
    later = plain_chatgpt(1, ["I live in Porto now.", "Lovely."], T0 + 10**6)
    earlier = plain_chatgpt(2, ["I live in Lisbon.", "Nice."], T0)
    report = load(tmp_path, [[later, earlier]])
    assert report.kinds["messages"].model_dump() == {"new": 4, "skipped": 0}
    assert report.events == {"ADD": 1, "UPDATE": 1}
    (home,) = memories(tmp_path, Scope(user_id="ana"))
    assert "Porto" in home.memory
    assert home.told_at[:10] == "2025-01-12"
    assert home.metadata["conversation_title"] == "Talk 1"
    assert home.metadata["imported_from"] == "chatgpt"
    assert home.scope == Scope(user_id="ana")
    assert is_sound(tmp_path)


def test_whole_exports_of_both_vendors(tmp_path: Path) -> None:
    files = [
        part([chatgpt_conversation()], "conversations-000.json"),
        part([claude_conversation()], "conversations.json"),
        part([CLAUDE_MEMORY], "memories.json"),
        part([PROJECT], "projects.json"),
        part([{"uuid": "1", "email_address": "x"}], "users.json"),
        part([{"uuid": "2", "messages": [{"role": "human", "content": "x"}]}], "design_chats.json"),
        part([], "shared_conversations.json"),
    ]
    report = load(tmp_path, files)
    assert report.refused == 0
    assert report.formats == {"chatgpt": 1, "claude": 3}
    assert report.kinds["messages"].new == 7
    assert report.kinds["facts"].new == 8
    assert report.left_out["a file of no known format, or of another than the one asked for"].examples == [
        "users.json",
        "design_chats.json",
        "shared_conversations.json",
    ]
    assert {"I moved to Lisbon", "I work at a bakery in Porto."} <= {content for _, content, _ in messages(tmp_path)}
    again = load(tmp_path, files)
    assert again.new == 0
    assert again.kinds["messages"].skipped == 7


def test_as_messages_stores_each_message_as_it_is(tmp_path: Path) -> None:
    talk = plain_chatgpt(1, ["I live in Lisbon.", "Nice.", "Bye"], T0)
    report = load(tmp_path, [talk], ImportOptions(default=Scope(user_id="ana"), as_messages=True))
    assert report.kinds["messages"].new == 3
    assert [(item.memory, item.role, item.told_at[:19]) for item in memories(tmp_path)] == [
        ("I live in Lisbon.", "user", "2025-01-01T09:00:00"),
        ("Nice.", "assistant", "2025-01-01T09:01:00"),
        ("Bye", "user", "2025-01-01T09:02:00"),
    ]


def test_ten_thousand_messages_of_chatgpt_without_loss(tmp_path: Path) -> None:
    draw = random.Random(2)
    talks = [
        plain_chatgpt(n, [f"message {m} of talk {n}, {draw.randrange(10**6)}" for m in range(20)], T0 + 3600 * 24 * n)
        for n in range(500)
    ]
    draw.shuffle(talks)
    report = load(tmp_path, [talks[:300], talks[300:]], ImportOptions(default=Scope(user_id="ana"), as_messages=True))
    assert (report.refused, report.left_out, report.kinds["messages"].new) == (0, {}, 10_000)
    nodes = [each["message"] for talk in talks for each in talk["mapping"].values() if each["message"]]
    told = sorted((each["author"]["role"], each["content"]["parts"][0]) for each in nodes)
    assert sorted((role, content) for role, content, _ in messages(tmp_path)) == told
    kept = [item.memory for item in memories(tmp_path)]
    assert sorted(kept) == sorted(content for _, content in told)


def test_a_newer_export_brings_only_what_is_new(tmp_path: Path) -> None:
    texts = [f"message {n}" for n in range(30)]
    wish = ImportOptions(default=Scope(user_id="ana"), as_messages=True)
    assert load(tmp_path, [plain_chatgpt(1, texts[:25], T0)], wish).kinds["messages"].new == 25
    report = load(tmp_path, [plain_chatgpt(1, texts, T0), plain_chatgpt(1, texts, T0)], wish)
    assert report.kinds["messages"].model_dump() == {"new": 5, "skipped": 55}
    assert [content for _, content, _ in messages(tmp_path)] == texts


def test_a_forgotten_message_does_not_come_back(tmp_path: Path) -> None:
    texts = ["I have a cat called Miso.", "Nice", "I live in Lisbon.", "Nice"]
    load(tmp_path, [plain_chatgpt(1, texts, T0)])
    cat = next(item for item in memories(tmp_path) if "Miso" in item.memory)
    run(tmp_path, lambda engine: engine.forget(ForgetRequest(scope=Scope(), id=cat.id)))
    before = messages(tmp_path)
    assert not any("Miso" in content for _, content, _ in before)
    report = load(tmp_path, [plain_chatgpt(1, texts, T0)])
    assert report.new == 0
    assert report.left_out["was here once, and was forgotten"].count == len(texts) - len(before)
    assert messages(tmp_path) == before


def test_without_kept_messages_a_second_import_still_knows_its_stretches(tmp_path: Path) -> None:
    talk = plain_chatgpt(1, ["I live in Lisbon.", "Nice."], T0)
    assert load(tmp_path, [talk], episodes="off").kinds["messages"].model_dump() == {"new": 2, "skipped": 0}
    assert load(tmp_path, [talk], episodes="off").kinds["messages"].model_dump() == {"new": 0, "skipped": 2}


def test_chats_without_a_scope_are_an_error_that_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ScopeError, match="an export of chatgpt does not say whose it is, so give --user-id"):
        load(tmp_path, [[chatgpt_conversation()]], ImportOptions())
    assert memories(tmp_path) == []


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_chats_that_broke_off_are_finished_by_the_next(tmp_path: Path, share: float) -> None:
    talks = [plain_chatgpt(n, [f"message {m} of {n}" for m in range(7)], T0 + 86_400 * n) for n in range(20)]
    wish = ImportOptions(default=Scope(user_id="ana"), as_messages=True)

    def pull_the_plug(done: int, total: int) -> None:
        if done > total * share:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, lambda engine: import_parts(engine, [part(talks)], wish, pull_the_plug))
    report = load(tmp_path, [talks], wish)
    assert (report.refused, report.left_out) == (0, {})
    assert report.kinds["messages"].new + report.kinds["messages"].skipped == 140
    assert len(messages(tmp_path)) == len({content for _, content, _ in messages(tmp_path)}) == 140
    assert len(memories(tmp_path)) == 140
    assert is_sound(tmp_path)
