"""Export and import: what goes out comes back, whatever happened here in between."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.domain.errors import ConflictError
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.requests import ForgetRequest
from perdure.engine.transfer import transfer, writer
from perdure.engine.transfer.transfer import import_archive
from tests.engine.transfer.transfers import ANA, export, live_a_little, load, records, rifts, run, say

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
        await engine.forget(ForgetRequest(scope=Scope(user_id="ben")))

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


def test_messages_of_what_was_deleted_stay_out_of_sight(tmp_path: Path) -> None:
    """While messages were not searched, a deletion left them in sight."""

    async def lived(engine: Engine) -> None:
        [code] = await say(engine, "My locker code is 4417.")
        await engine.revise.delete(code.id)
        await say(engine, "I have a cat called Miso.")
        await say(engine, "Again, the code of my locker: 4417. Bye for now.", Scope(user_id="ben"))

    run(tmp_path / "one", lived)
    load(tmp_path / "two", export(tmp_path / "one"), episodes="words")
    rows = records(export(tmp_path / "two", episodes="words"), "memory")
    assert [row["memory"] for row in rows if row.get("kind") == "messages"] == [
        "I have a cat called Miso.",
        "Again, the code of my locker: 4417. Bye for now.",
    ], "only its own person's"


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
        patch.setattr(writer.ImportWriter, "_events", fail)
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
        await engine.forget(ForgetRequest(scope=Scope(), id=erased.id))
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


def test_an_erased_event_comes_back_unreadable(lived: Path, tmp_path: Path) -> None:
    run(lived, lambda engine: engine.forget(ForgetRequest(scope=Scope(user_id="ben"))))
    lines = export(lived)
    load(tmp_path / "copy", lines)
    event = next(line["id"] for line in records(lines, "history") if line.get("erased"))
    with pytest.raises(ConflictError, match="erased"):
        run(tmp_path / "copy", lambda engine: engine.revise.undo(event))
