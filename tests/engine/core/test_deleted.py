"""What was deleted: listed with when and why and what brings it back, inside of walls, and never what was erased."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from perdure import InvalidInputError, Memory
from perdure.domain.event import ErasureReport
from perdure.engine.write.forget import Forget
from perdure.frontends.library.memory import AsyncMemory

ANA = {"user_id": "ana"}


def gone(memory: Memory, **options: object) -> list[str]:
    return [item.memory for item in memory.get_all(deleted=True, **{**ANA, **options}).results]  # type: ignore[arg-type]


def add(memory: Memory, *texts: str, **scope: str) -> list[str]:
    return [memory.add(text, infer=False, **{**ANA, **scope}).results[0].id for text in texts]  # type: ignore[arg-type]


def test_forget_that_in_a_conversation_is_listed_with_its_message_and_undone(memory: Memory) -> None:
    memory.add("I live in Oslo. My sister Ana is allergic to peanuts.", **ANA)
    memory.add("Forget that I live in Oslo.", **ANA)
    (item,) = memory.get_all(deleted=True, **ANA).results
    how = item.deleted
    assert (item.memory, how.actor, how.reason, how.said) == (
        "User lives in Oslo", "add", "forget", "Forget that I live in Oslo.",
    )  # fmt: skip
    assert how.told_at is not None and how.told_at <= how.at
    assert json.loads(json.dumps(item.model_dump()))["deleted"]["event_id"] == how.event_id
    assert [event.memory for event in memory.undo(how.event_id).results] == ["User lives in Oslo"]
    assert gone(memory) == []
    assert "deleted" not in memory.get(item.id).model_dump()


def test_each_call_that_deletes_is_named_and_the_last_comes_first(quick: Memory) -> None:
    one, two, three, four = add(quick, "one", "two", "three", "four")
    quick.delete(one)
    quick.forget(id=two, erase=False)
    quick.undo(quick.history(three)[0].id)
    quick.delete_all(**ANA)
    listed = quick.get_all(deleted=True, **ANA).results
    assert [(item.id, item.deleted.actor, item.deleted.said) for item in listed] == [
        (four, "delete_all", None), (three, "undo", None), (two, "forget", None), (one, "delete", None),
    ]  # fmt: skip
    for item in listed:
        quick.undo(item.deleted.event_id)
    assert gone(quick) == []
    assert {item.memory for item in quick.get_all(**ANA).results} == {"one", "two", "three", "four"}


def test_pages_follow_one_another(quick: Memory) -> None:
    for id in add(quick, *(f"number {number}" for number in range(7))):
        quick.delete(id)
    seen: list[str] = []
    cursor = None
    while True:
        page = quick.get_all(deleted=True, limit=3, cursor=cursor, **ANA)
        seen += [item.memory for item in page.results]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"number {number}" for number in reversed(range(7))]
    assert len(gone(quick, limit=7)) == 7 and quick.get_all(deleted=True, limit=7, **ANA).next_cursor is None
    for wrong in ("x", "2026-01-01|", "|3", "2026-01-01|-3"):
        with pytest.raises(InvalidInputError, match="cursor"):
            gone(quick, cursor=wrong)


def test_filters_and_kinds_choose_among_them(quick: Memory) -> None:
    quick.add("I used to row on the lake with Jonas every single Tuesday evening before work.", **ANA)
    quick.add("tagged", infer=False, metadata={"tag": "work"}, **ANA)
    quick.delete_all(**ANA)
    assert gone(quick, filters={"tag": "work"}) == ["tagged"]
    assert sorted(gone(quick)) == sorted(gone(quick, kind="facts") + gone(quick, kind="notes"))
    with pytest.raises(InvalidInputError, match="as_of"):
        gone(quick, as_of="2026-01-01")


def test_what_is_erased_is_listed_nowhere(quick: Memory) -> None:
    one, two, three = add(quick, "the pin is 1234", "the pin is 5678", "the bike is blue")
    quick.delete(one)
    quick.delete(three)
    assert gone(quick) == ["the bike is blue", "the pin is 1234"]
    quick.forget(id=one)
    quick.forget(id=two)
    assert gone(quick) == ["the bike is blue"]
    quick.forget(**ANA)
    assert gone(quick) == []


def test_an_erasure_that_was_cut_short_shows_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the deletion and the erasure of its history, what was forgotten is in no list."""

    async def run() -> None:
        async with AsyncMemory({"path": str(tmp_path), "embedder": {"provider": "hashed"}}) as memory:
            added = await memory.add("the pin is 1234", infer=False, **ANA)

            async def killed(*_: object) -> ErasureReport:
                raise RuntimeError("killed")

            monkeypatch.setattr(Forget, "_without_sources", killed)
            monkeypatch.setattr(Forget, "_report", lambda *_, **__: asyncio.sleep(0))
            with pytest.raises(RuntimeError, match="killed"):
                await memory.forget(id=added.results[0].id)
            assert (await memory.get_all(**ANA)).results == []
            assert (await memory.get_all(deleted=True, **ANA)).results == []

    asyncio.run(run())


def test_scopes_are_walls(quick: Memory) -> None:
    for user, run in (("ana", "r1"), ("ana", "r2"), ("bob", "r1")):
        (id,) = add(quick, f"of {user} in {run}", user_id=user, run_id=run)
        quick.delete(id)
    assert gone(quick) == ["of ana in r2", "of ana in r1"]
    assert gone(quick, run_id="r1") == ["of ana in r1"]
    assert gone(quick, user_id="eve") == []
    assert gone(quick.within(user_id="bob"), user_id="bob") == ["of bob in r1"]
    view = quick.within(user_id="ana", run_id="r2")
    assert [item.memory for item in view.get_all(deleted=True).results] == ["of ana in r2"]


def test_a_message_from_outside_of_the_walls_is_not_told(memory: Memory) -> None:
    """The memory is a project's; the message that ended it was the user's own, and a reader of the project is none."""
    memory.within(project_id="p").add_facts(["User lives in Oslo"], **ANA)
    memory.add("Forget that I live in Oslo.", **ANA)
    assert [item.deleted.said for item in memory.get_all(deleted=True, **ANA).results] == [
        "Forget that I live in Oslo."
    ]
    seen = memory.within(project_id="p").get_all(deleted=True, **ANA).results
    assert [(item.memory, item.deleted.said) for item in seen] == [("User lives in Oslo", None)]
