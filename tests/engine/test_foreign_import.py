"""Other tools' exports in a memory: nothing lost, nothing twice, whatever breaks off and whatever is damaged."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.domain.errors import InvalidInputError, ScopeError
from perdure.domain.memory import MemoryItem
from perdure.domain.scope import Scope
from perdure.engine.build import build
from perdure.engine.config import read_config
from perdure.engine.doctor import examine
from perdure.engine.engine import Engine
from perdure.engine.foreign import BrokenPartError, Part, Wish, import_parts, survey_parts
from perdure.engine.forget import Request
from perdure.engine.transfer_report import ImportReport
from perdure.pipeline.foreign_formats.langgraph import NamespacePattern
from tests.pipeline.foreign_samples import (
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

T = TypeVar("T")
EVERYBODY = Scope()
ANA = Wish(default=Scope(user_id="ana"))


def run(path: Path, work: Callable[[Engine], Awaitable[T]], **config: Any) -> T:
    async def go() -> T:
        engine = build(read_config({"path": path, "embedder": {"provider": "hashed"}, **config}))
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(go())


def part(value: Any, name: str = "export.json") -> Part:
    data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
    return Part(name, lambda: iter([data[start : start + 4096] for start in range(0, len(data), 4096)]))


def load(path: Path, parts: Sequence[Any], wish: Wish = ANA, **config: Any) -> ImportReport:
    given = [each if isinstance(each, Part) else part(each, f"file-{n}.json") for n, each in enumerate(parts)]
    return run(path, lambda engine: import_parts(engine, given, wish), **config)


def memories(path: Path, scope: Scope = EVERYBODY, past: bool = False, **config: Any) -> list[MemoryItem]:
    async def look(engine: Engine) -> list[MemoryItem]:
        found: list[MemoryItem] = []
        cursor = None
        while True:
            page = await engine.read.get_all(
                scope, limit=1000, filters=None, cursor=cursor, as_of=None, include_past=past
            )
            found += page.results
            cursor = page.next_cursor
            if cursor is None:
                return found

    return run(path, look, **config)


def messages(path: Path, **config: Any) -> list[tuple[str, str, str]]:
    async def look(engine: Engine) -> list[tuple[str, str, str]]:
        await engine.kernel.ready()
        assert engine.kernel.ledger is not None
        page = await engine.kernel.ledger.list_episodes(Scope(), 100_000, include_hidden=True)
        return [(each.role, each.content, each.told_at) for each in page.episodes]

    return run(path, look, **config)


def is_sound(path: Path) -> bool:
    return not run(path, examine).findings


# ------------------------------------------------------------------ facts


def test_memories_of_mem0_keep_id_scope_times_and_metadata(tmp_path: Path) -> None:
    pages = [{"results": [OPEN, EXPIRING]}, {"count": 1, "next": None, "results": [PLATFORM], "relations": [{"a": 1}]}]
    report = load(tmp_path, [[*pages, HISTORY]], Wish())
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
    again = load(tmp_path, [[*pages, HISTORY]], Wish())
    assert again.model_dump()["kinds"] == {"facts": {"new": 0, "skipped": 3}}
    assert is_sound(tmp_path)


def test_what_another_memory_replaced_is_past(tmp_path: Path) -> None:
    load(tmp_path, [[OPEN, {**PLATFORM, "replaced_by": OPEN["id"]}]], Wish())
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
    report = load(tmp_path, [{"results": given}], Wish())
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
    wish = Wish(patterns=[NamespacePattern.parse("memories,{user_id}")])
    report = load(tmp_path, ["\n".join(map(json.dumps, given))], wish)
    assert (report.refused, report.left_out, report.kinds["facts"].new) == (0, {}, 10_000)
    told = {(item["value"]["content"], item["namespace"][1], item["key"], item["value"]["n"]) for item in given}
    found = {(item.memory, item.scope.user_id, item.metadata["key"], item.metadata["n"]) for item in memories(tmp_path)}
    assert found == told


def test_an_item_without_a_scope_is_refused_with_what_to_do(tmp_path: Path) -> None:
    report = load(tmp_path, [[ITEM, ROW]], Wish())
    assert (report.refused, report.new) == (2, 0)
    assert all("--namespace" in refusal.reason and "--user-id" in refusal.reason for refusal in report.refusals)
    assert report.refusals[0].where == "item 1 (memories/ana/k1)"
    bare = {key: value for key, value in OPEN.items() if key not in ("user_id", "agent_id", "run_id")}
    report = load(tmp_path, [[bare, PLATFORM]], Wish())
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
    run(tmp_path, lambda engine: engine.forget(Request(scope=Scope(), id=EXPIRING["id"])))
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
    report = load(tmp_path, [talk], Wish(default=Scope(user_id="ana"), as_messages=True))
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
    report = load(tmp_path, [talks[:300], talks[300:]], Wish(default=Scope(user_id="ana"), as_messages=True))
    assert (report.refused, report.left_out, report.kinds["messages"].new) == (0, {}, 10_000)
    nodes = [each["message"] for talk in talks for each in talk["mapping"].values() if each["message"]]
    told = sorted((each["author"]["role"], each["content"]["parts"][0]) for each in nodes)
    assert sorted((role, content) for role, content, _ in messages(tmp_path)) == told
    kept = [item.memory for item in memories(tmp_path)]
    assert sorted(kept) == sorted(content for _, content in told)


def test_a_newer_export_brings_only_what_is_new(tmp_path: Path) -> None:
    texts = [f"message {n}" for n in range(30)]
    wish = Wish(default=Scope(user_id="ana"), as_messages=True)
    assert load(tmp_path, [plain_chatgpt(1, texts[:25], T0)], wish).kinds["messages"].new == 25
    report = load(tmp_path, [plain_chatgpt(1, texts, T0), plain_chatgpt(1, texts, T0)], wish)
    assert report.kinds["messages"].model_dump() == {"new": 5, "skipped": 55}
    assert [content for _, content, _ in messages(tmp_path)] == texts


def test_a_forgotten_message_does_not_come_back(tmp_path: Path) -> None:
    texts = ["I have a cat called Miso.", "Nice", "I live in Lisbon.", "Nice"]
    load(tmp_path, [plain_chatgpt(1, texts, T0)])
    cat = next(item for item in memories(tmp_path) if "Miso" in item.memory)
    run(tmp_path, lambda engine: engine.forget(Request(scope=Scope(), id=cat.id)))
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
        load(tmp_path, [[chatgpt_conversation()]], Wish())
    assert memories(tmp_path) == []


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_chats_that_broke_off_are_finished_by_the_next(tmp_path: Path, share: float) -> None:
    talks = [plain_chatgpt(n, [f"message {m} of {n}" for m in range(7)], T0 + 86_400 * n) for n in range(20)]
    wish = Wish(default=Scope(user_id="ana"), as_messages=True)

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


def test_a_format_that_was_asked_for_is_held_to(tmp_path: Path) -> None:
    bare = {"memory": "User likes tea", "id": "m-1", "user_id": "eva"}
    assert load(tmp_path, [[bare]]).refusals[0].reason.startswith("id must be a UUID")
    assert load(tmp_path, [[bare]], Wish("mem0")).new == 1
    report = load(tmp_path, [[{"a": 1}, 5]], Wish("claude", Scope(user_id="eva")))
    assert report.refused == 2
    report = load(tmp_path, [[OPEN], [claude_conversation()]], Wish("claude", Scope(user_id="eva")))
    assert report.formats == {"claude": 1}
    assert report.left_out["a file of no known format, or of another than the one asked for"].count == 1
    with pytest.raises(InvalidInputError, match="format must be one of"):
        Wish("letta")


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
    report = load(tmp_path, [text[:-50]], Wish())
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
    report = load(tmp_path, files, Wish())
    assert report.new == 2
    assert {(refusal.where, refusal.reason) for refusal in report.refusals} == {
        ("torn.json: item 2", "the file ends before its list does"),
        ("torn.json", "the zip is damaged here"),
        ("locked.json", "it is encrypted"),
    }
    report = load(tmp_path, [Part("locked.json", locked)], Wish())
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


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_no_spoilt_export_breaks_the_reading(data: st.DataObject) -> None:
    items = [data.draw(st.sampled_from(SAMPLES)) for _ in range(data.draw(st.integers(1, 3)))]
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(items) - 1))
        items[place] = spoilt(items[place], data.draw)
    text = json.dumps(items).encode()
    end = data.draw(st.integers(0, len(text)) | st.just(len(text)))
    wish = Wish(data.draw(st.sampled_from([None, "mem0", "chatgpt", "claude", "langgraph", "perdure"])), ANA.default)
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
        surveyed = survey_parts([part(items)], Wish("mem0", ANA.default))
        report = load(Path(folder), [items], Wish("mem0", ANA.default))
        assert report.refused == surveyed.refused
        assert report.new + report.skipped == surveyed.new
        assert OPEN["memory"] in {item.memory for item in memories(Path(folder), past=True)}
