"""Export and import: what goes out comes back, whatever happened here in between."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.domain.errors import ConflictError, InvalidInputError
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine import intake, transfer
from perdure.engine.build import build
from perdure.engine.config import read_config
from perdure.engine.doctor import examine
from perdure.engine.engine import Engine
from perdure.engine.forget import Request
from perdure.engine.transfer import export_archive, import_archive
from perdure.engine.transfer_report import ImportReport
from perdure.engine.write_path import Addition

T = TypeVar("T")
ANA = Scope(user_id="ana")
BEN = Scope(user_id="ben", run_id="r1")


def run(path: Path, work: Callable[[Engine], Awaitable[T]], **config: Any) -> T:
    """Open an engine over a folder, do something, close it."""

    async def go() -> T:
        engine = build(read_config({"path": path, "embedder": {"provider": "hashed"}, **config}))
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(go())


async def say(engine: Engine, text: str, scope: Scope = ANA, **more: Any) -> list[Any]:
    result = await engine.write.add(Addition(messages=[Message("user", text)], scope=scope, **more))
    return result.results


async def live_a_little(engine: Engine) -> None:
    """Additions, a correction, a deletion, a spoken forgetting that is undone, messages as said, in two scopes."""
    await say(engine, "I live in Lisbon. I am allergic to peanuts.")
    await say(engine, "Actually I moved to Porto.")
    odd = {"tag": "ünï", "n": 1.5, "deep": {"a": [1, None]}}
    await say(engine, "Zoë 🎈 我喜欢喝茶 \u2028 \x00", metadata=odd, infer=False)
    await say(engine, "I have a cat called Miso.", BEN)
    stored = await say(engine, "kept word for word", infer=False, type="note")
    await engine.revise.update(stored[0].id, "kept word for word, and changed", {"edited": True})
    gone = await say(engine, "said and deleted", infer=False)
    await engine.revise.delete(gone[0].id)
    back = await say(engine, "deleted and brought back", infer=False)
    await engine.revise.delete(back[0].id)
    events = await engine.read.history(back[0].id)
    await engine.revise.undo(events[-1].id)


def export(path: Path, scope: Scope | None = None, **config: Any) -> list[str]:
    lines: list[str] = []
    run(path, lambda engine: export_archive(engine, scope or Scope(), lines.append), **config)
    return lines


def load(path: Path, lines: Iterable[str], **config: Any) -> ImportReport:
    return run(path, lambda engine: import_archive(engine, lines), **config)


def rifts(path: Path, **config: Any) -> list[str]:
    diagnosis = run(path, examine, **config)
    return [finding.sentence for finding in diagnosis.findings]


def records(lines: Iterable[str], kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, lines) if line.get("record") == kind]


@pytest.fixture
def lived(tmp_path: Path) -> Path:
    run(tmp_path / "lived", live_a_little)
    return tmp_path / "lived"


# ------------------------------------------------------------------ there and back


def test_an_archive_comes_back_byte_for_byte(lived: Path, tmp_path: Path) -> None:
    first = export(lived)
    report = load(tmp_path / "copy", first)
    assert report.refused == report.skipped == 0
    assert report.new == report.lines - 1 == len(first) - 1
    second = export(tmp_path / "copy")
    assert second[1:] == first[1:]
    assert rifts(lived) == rifts(tmp_path / "copy") == []


def test_the_archive_holds_versions_history_messages_and_hidden_rows(lived: Path) -> None:
    lines = export(lived)
    assert json.loads(lines[0])["perdure"] == 1
    rows = records(lines, "memory")
    assert {row.get("state") for row in rows} == {"live", "version"}
    assert {"ADD", "UPDATE", "DELETE"} == {line["event"] for line in records(lines, "history")}
    assert "I live in Lisbon. I am allergic to peanuts." in {line["content"] for line in records(lines, "episode")}
    assert all("vector" not in row for row in rows)


def test_reads_are_the_same_after_a_round_trip(lived: Path, tmp_path: Path) -> None:
    load(tmp_path / "copy", export(lived))

    async def look(engine: Engine) -> Any:
        page = await engine.read.get_all(ANA, limit=100, filters=None, cursor=None, as_of=None, include_past=True)
        past = [await engine.read.history(item.id) for item in page.results]
        return [item.model_dump() for item in page.results], [
            [{**record.model_dump(), "sequence": 0} for record in line] for line in past
        ]

    assert run(lived, look) == run(tmp_path / "copy", look)


def test_an_imported_event_can_be_undone(lived: Path, tmp_path: Path) -> None:
    load(tmp_path / "copy", export(lived))

    async def undo_the_move(engine: Engine) -> list[str]:
        page = await engine.read.get_all(ANA, limit=100, filters=None, cursor=None, as_of=None, include_past=False)
        home = next(item for item in page.results if "Porto" in item.memory)
        events = await engine.read.history(home.id)
        await engine.revise.undo(events[-1].id)
        after = await engine.read.get(home.id)
        assert after is not None
        return [home.memory, after.memory]

    before, after = run(tmp_path / "copy", undo_the_move)
    assert "Porto" in before
    assert "Lisbon" in after
    assert rifts(tmp_path / "copy") == []


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
METADATA = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map("m{}".format),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.floats(allow_nan=False, allow_infinity=False)
        | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(TEXTS.filter(str.strip), METADATA, TEXTS), min_size=1, max_size=8))
def test_whatever_is_stored_comes_back(facts: list[tuple[str, dict[str, Any], str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for text, metadata, user in facts:
            line = {"memory": text, "metadata": metadata, "user_id": user.replace("\x00", "0")}
            lines.append(json.dumps(line, ensure_ascii=len(lines) % 2 == 0))
        report = load(Path(folder) / "one", lines)
        assert report.refused == 0
        first = export(Path(folder) / "one")
        stored = {(row["user_id"], row["memory"]) for row in records(first, "memory")}
        assert stored == {(user.replace("\x00", "0"), text) for text, _, user in facts}
        load(Path(folder) / "two", first)
        assert export(Path(folder) / "two")[1:] == first[1:]


def test_a_scope_is_exported_alone(lived: Path) -> None:
    lines = export(lived, Scope(user_id="ben"))
    for line in map(json.loads, lines[1:]):
        assert line["user_id"] == "ben"
    assert len(records(lines, "memory")) >= 1
    assert export(lived, Scope(user_id="nobody"))[1:] == []


def test_erased_text_is_not_in_an_archive_and_its_history_stays(lived: Path, tmp_path: Path) -> None:
    async def forget_the_cat(engine: Engine) -> None:
        await engine.forget(Request(scope=Scope(user_id="ben")))

    run(lived, forget_the_cat)
    lines = export(lived)
    assert "Miso" not in "".join(lines)
    erased = [line for line in records(lines, "history") if line.get("erased")]
    assert {line["event"] for line in erased} == {"ADD", "DELETE"}
    load(tmp_path / "copy", lines)
    assert export(tmp_path / "copy")[1:] == lines[1:]
    assert rifts(tmp_path / "copy") == []


def test_searched_messages_come_along(tmp_path: Path) -> None:
    run(tmp_path / "one", live_a_little, episodes="search")
    lines = export(tmp_path / "one", episodes="search")
    assert {row.get("kind") for row in records(lines, "memory")} == {"facts", "messages"}
    load(tmp_path / "two", lines, episodes="search")
    assert export(tmp_path / "two", episodes="search")[1:] == lines[1:]
    assert rifts(tmp_path / "two", episodes="search") == []


def test_messages_become_searchable_where_they_were_not(lived: Path, tmp_path: Path) -> None:
    load(tmp_path / "copy", export(lived), episodes="search")
    rows = records(export(tmp_path / "copy", episodes="search"), "memory")
    assert "I have a cat called Miso." in {row["memory"] for row in rows if row.get("kind") == "messages"}


def test_no_reader_finds_the_end_of_a_line_inside_a_text(tmp_path: Path) -> None:
    odd = "a\x85b\u2028c\u2029d\x1ee\rf\ng"
    run(tmp_path, lambda engine: say(engine, odd, infer=False))
    lines = export(tmp_path)
    assert all(len(line.splitlines()) == 1 for line in lines)
    assert [row["memory"] for row in records(lines, "memory")] == [odd]


# ------------------------------------------------------------------ again, and after a kill


def test_a_second_import_changes_nothing(lived: Path, tmp_path: Path) -> None:
    lines = export(lived)
    load(tmp_path / "copy", lines)
    once = export(tmp_path / "copy")
    report = load(tmp_path / "copy", lines)
    assert report.new == report.refused == 0
    assert report.skipped == len(lines) - 1
    assert export(tmp_path / "copy")[1:] == once[1:]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.95])
def test_an_import_that_broke_off_is_finished_by_the_next(
    lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(transfer, "CHUNK", 3)
    lines = export(lived)

    def torn() -> Iterable[str]:
        yield from lines[: int(len(lines) * share)]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(tmp_path / "copy", torn())
    report = load(tmp_path / "copy", lines)
    assert report.refused == 0
    assert 0 < report.skipped < len(lines)
    assert export(tmp_path / "copy")[1:] == lines[1:]
    assert rifts(tmp_path / "copy") == []


def test_rows_written_without_their_history_are_completed(
    lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = export(lived)

    async def fail(*_: Any) -> None:
        raise OSError("the plug was pulled")

    with monkeypatch.context() as patch:
        patch.setattr(intake.Intake, "_events", fail)
        with pytest.raises(OSError, match="plug"):
            load(tmp_path / "copy", lines)
    assert rifts(tmp_path / "copy") != []
    load(tmp_path / "copy", lines)
    assert rifts(tmp_path / "copy") == []
    assert export(tmp_path / "copy")[1:] == lines[1:]


# ------------------------------------------------------------------ what happened here since


def test_what_was_changed_here_since_stays(lived: Path, tmp_path: Path) -> None:
    lines = export(lived)
    load(tmp_path / "copy", lines)

    async def change(engine: Engine) -> tuple[str, str, str]:
        page = await engine.read.get_all(ANA, limit=100, filters=None, cursor=None, as_of=None, include_past=True)
        texts = {item.memory: item for item in page.results}
        home = next(item for text, item in texts.items() if "Porto" in text)
        gone = next(item for text, item in texts.items() if "peanuts" in text)
        erased = texts["deleted and brought back"]
        await engine.revise.update(home.id, "User lives in Braga", {})
        await engine.revise.delete(gone.id)
        await engine.forget(Request(scope=Scope(), id=erased.id))
        return home.id, gone.id, erased.id

    home, gone, erased = run(tmp_path / "copy", change)
    changed = export(tmp_path / "copy")
    report = load(tmp_path / "copy", lines)
    assert report.refused == report.new == 0
    assert export(tmp_path / "copy")[1:] == changed[1:]
    assert "deleted and brought back" not in "".join(changed)
    assert rifts(tmp_path / "copy") == []

    # And the other way: what moved on there does not move on here by half.
    newer = export(tmp_path / "copy")
    run(lived, lambda engine: import_archive(engine, newer))
    assert rifts(lived) == []
    for id, text in ((home, "Porto"), (gone, "peanuts"), (erased, "brought back")):
        item = run(lived, lambda engine, id=id: engine.read.get(id))
        assert item is not None
        assert text in item.memory


def test_an_archive_joins_what_is_there(lived: Path, tmp_path: Path) -> None:
    run(tmp_path / "other", lambda engine: say(engine, "I have a dog called Rex."))
    before = {row["id"] for row in records(export(tmp_path / "other"), "memory")}
    lines = export(lived)
    load(tmp_path / "other", lines)
    after = {row["id"] for row in records(export(tmp_path / "other"), "memory")}
    assert after == before | {row["id"] for row in records(lines, "memory")}
    assert rifts(tmp_path / "other") == []


def test_an_archive_without_its_history_is_given_one(lived: Path, tmp_path: Path) -> None:
    bare = [line for line in export(lived) if json.loads(line).get("state") == "live"]
    load(tmp_path / "copy", bare)
    told = [line for line in rifts(tmp_path / "copy") if "sources" not in line]
    assert told == []
    assert {line["actor"] for line in records(export(tmp_path / "copy"), "history")} == {"import"}


# ------------------------------------------------------------------ lines of others


def test_a_fact_is_stored_as_it_is_with_what_it_says_of_itself(tmp_path: Path) -> None:
    id = "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10"
    fact = {
        "memory": "User plays the cello", "id": id, "user_id": "ana", "metadata": {"from": "elsewhere"},
        "created_at": "2024-05-06T07:08:09Z", "type": "episodic", "importance": 0.9, "colour": "red",
    }  # fmt: skip
    report = load(tmp_path, [json.dumps(fact), json.dumps(fact)])
    assert report.model_dump()["kinds"] == {"facts": {"new": 1, "skipped": 1}}
    assert report.ignored == ["colour"]
    item = run(tmp_path, lambda engine: engine.read.get(id))
    assert item is not None
    assert (item.memory, item.created_at, item.type) == (fact["memory"], "2024-05-06T07:08:09.000000+00:00", "episodic")
    assert (item.metadata, item.importance, item.scope) == ({"from": "elsewhere"}, 0.9, ANA)
    history = run(tmp_path, lambda engine: engine.read.history(id))
    assert [(record.event, record.actor, record.new_value) for record in history] == [("ADD", "import", fact["memory"])]
    assert rifts(tmp_path) == []


def test_a_fact_without_an_id_is_taken_once_and_not_again_after_its_deletion(tmp_path: Path) -> None:
    lines = ['{"memory": "User plays the cello", "user_id": "ana"}']
    load(tmp_path, lines)
    assert load(tmp_path, lines).skipped == 1

    async def delete(engine: Engine) -> None:
        page = await engine.read.get_all(ANA, limit=9, filters=None, cursor=None, as_of=None, include_past=False)
        await engine.revise.delete(page.results[0].id)

    run(tmp_path, delete)
    assert load(tmp_path, lines).skipped == 1
    assert rifts(tmp_path) == []


def test_a_fact_that_is_known_in_the_same_words_is_not_repeated(tmp_path: Path) -> None:
    run(tmp_path, lambda engine: say(engine, "User plays the cello"))
    report = load(tmp_path, ['{"memory": "User plays the cello", "user_id": "ana"}'])
    assert (report.new, report.skipped) == (0, 1)
    report = load(tmp_path, ['{"memory": "User plays the cello", "user_id": "ben"}'])
    assert (report.new, report.skipped) == (1, 0)


def test_conversations_are_added_once_each(tmp_path: Path) -> None:
    lines = [
        json.dumps({"messages": [{"role": "user", "content": "I live in Lisbon."}], "user_id": "ana",
                    "timestamp": "2025-01-02T10:00:00Z"}),
        json.dumps({"role": "user", "content": "I moved to Porto.", "user_id": "ana",
                    "timestamp": "2025-03-02T10:00:00Z"}),
        json.dumps({"role": "user", "content": "yes", "user_id": "ana"}),
        json.dumps({"role": "user", "content": "yes", "user_id": "ana"}),
    ]  # fmt: skip
    report = load(tmp_path, lines)
    assert report.model_dump()["kinds"] == {"conversations": {"new": 4, "skipped": 0}}
    assert report.events["ADD"] == report.events["UPDATE"] == 1
    again = load(tmp_path, lines)
    assert again.model_dump()["kinds"] == {"conversations": {"new": 0, "skipped": 4}}
    archive = export(tmp_path)
    assert len(records(archive, "episode")) == 4
    assert [row["told_at"] for row in records(archive, "memory") if row["state"] == "live"] == [
        "2025-03-02T10:00:00.000000+00:00"
    ]
    assert rifts(tmp_path) == []


def test_options_fill_in_the_scope_that_a_line_does_not_name(tmp_path: Path) -> None:
    lines = ['{"memory": "User likes tea"}', '{"memory": "User likes rice", "user_id": "ben"}']
    report = run(tmp_path, lambda engine: import_archive(engine, lines, default=Scope(user_id="ana", run_id="r")))
    assert report.refused == 0
    scopes = [(row["user_id"], row["run_id"]) for row in records(export(tmp_path), "memory")]
    assert sorted(scopes) == [("ana", "r"), ("ben", "r")]


# ------------------------------------------------------------------ bad lines

GOOD = '{"memory": "User likes tea", "user_id": "ana"}'
ROW = {
    "record": "memory", "id": "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10", "memory": "User likes tea", "hash": "x",
    "created_at": "2024-05-06T07:08:09.000000+00:00", "updated_at": "2024-05-06T07:08:09.000000+00:00",
    "told_at": "2024-05-06T07:08:09.000000+00:00", "user_id": "ana",
}  # fmt: skip
EVENT = {
    "record": "history", "id": "e", "memory_id": "m", "event": "ADD", "timestamp": "2024-05-06T07:08:09.000000+00:00",
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not json", "not JSON"),
        ('{"memory": "half', "not JSON"),
        ("[1, 2]", "a JSON list, not an object"),
        ('"text"', "a JSON str"),
        ("{}", "none of"),
        ('{"memory": "User likes tea"}', "At least one of user_id"),
        ('{"memory": "", "user_id": "ana"}', "memory must be text"),
        ('{"memory": 5, "user_id": "ana"}', "memory must be text"),
        ('{"memory": "x", "user_id": 5}', "user_id must be text"),
        ('{"memory": "x", "user_id": "ana", "id": "seven"}', "id must be a UUID"),
        ('{"memory": "x", "user_id": "ana", "created_at": "soon"}', "created_at must be"),
        ('{"memory": "x", "user_id": "ana", "metadata": {"hash": 1}}', "metadata may not set"),
        ('{"memory": "x", "user_id": "ana", "metadata": {"n": NaN}}', "no JSON number"),
        ('{"memory": "x\\ud800", "user_id": "ana"}', "surrogate"),
        ('{"memory": "x\udcff", "user_id": "ana"}', "UTF-8"),
        ('{"messages": "x"}', "At least one of user_id"),
        ('{"messages": [{"role": "emperor", "content": "x"}], "user_id": "ana"}', "role must be one of"),
        ('{"role": "user", "content": "x", "user_id": "ana", "timestamp": "soon"}', "timestamp must be"),
        ('{"record": "dream", "user_id": "ana"}', "record must be"),
        (json.dumps({**ROW, "id": None}), "id must be text"),
        (json.dumps({**ROW, "created_at": "2024-05-06"}), "created_at must be written as"),
        (json.dumps({**ROW, "sources": 5}), "no memory"),
        (json.dumps({**EVENT, "event": "NONE"}), "event must be"),
        (json.dumps({**EVENT, "timestamp": "2024"}), "timestamp must be"),
        (json.dumps({**EVENT, "new_value": 5}), "new_value must be text"),
        ('{"record": "episode", "id": "e"}', "add_id must be text"),
        ('{"perdure": "one"}', "number of a format"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_line_is_refused_by_number_and_the_others_are_taken(tmp_path: Path, line: str, reason: str) -> None:
    report = load(tmp_path, [GOOD, "", line, GOOD.replace("tea", "rice")])
    assert report.new == 2
    assert [refusal.line for refusal in report.refusals] == [3]
    assert reason in report.refusals[0].reason


def test_a_newer_archive_is_refused_whole(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="upgrade perdure"):
        load(tmp_path, ['{"perdure": 2}', GOOD])
    assert export(tmp_path)[1:] == []


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    assert load(tmp_path, [f"\ufeff{GOOD}"]).new == 1


def test_an_erased_event_comes_back_unreadable(lived: Path, tmp_path: Path) -> None:
    run(lived, lambda engine: engine.forget(Request(scope=Scope(user_id="ben"))))
    lines = export(lived)
    load(tmp_path / "copy", lines)
    event = next(line["id"] for line in records(lines, "history") if line.get("erased"))
    with pytest.raises(ConflictError, match="erased"):
        run(tmp_path / "copy", lambda engine: engine.revise.undo(event))
