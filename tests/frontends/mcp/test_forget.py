"""`forget` erases nothing without the person's yes, or the handle of its own earlier answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitRequestParams, ElicitResult

from tests.frontends.mcp.clients import ERAS, ask, client_of, texts

pytestmark = pytest.mark.anyio
FACT = "User's locker code word is marzipan"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("mode", ERAS)
async def test_a_handle_erases_exactly_what_the_dry_run_named(tmp_path: Path, mode: str) -> None:
    async with client_of(tmp_path, mode=mode) as client:
        (told,) = (await ask(client, "remember", facts=[FACT]))["results"]
        planned = await ask(client, "forget", id=told["id"])
        assert planned["status"] == "needs_confirmation"
        assert planned["memories"] == [{"id": told["id"], "memory": FACT, "why": "matched"}]
        assert await texts(client, "marzipan") == [FACT]
        for wrong in ("", "yes", "true", planned["confirm"][:-1] + "~", "ffffffff-00000000000000000000", "é-1"):
            again = await ask(client, "forget", id=told["id"], confirm=wrong)
            assert again["status"] == "needs_confirmation"
            assert "nothing is erased" in again["note"]
        done = await ask(client, "forget", id=told["id"], confirm=planned["confirm"])
        assert done["status"] == "erased"
        assert await texts(client, "marzipan") == []
        assert (await ask(client, "forget", id=told["id"], confirm=planned["confirm"]))["status"] != "erased"
    assert b"marzipan" not in bytes_of(tmp_path)


async def test_a_handle_is_for_the_same_memories_in_the_same_state(tmp_path: Path) -> None:
    async with client_of(tmp_path) as client:
        one, two = (await ask(client, "remember", facts=[FACT, "User collects stamps of Peru"]))["results"]
        handle = (await ask(client, "forget", id=one["id"]))["confirm"]
        assert (await ask(client, "forget", id=two["id"], confirm=handle))["status"] == "needs_confirmation"
        await ask(client, "correct", id=one["id"], text="User's locker code word is nougat")
        assert (await ask(client, "forget", id=one["id"], confirm=handle))["status"] == "needs_confirmation"
        assert await texts(client, "nougat") == ["User's locker code word is nougat"]


async def test_a_handle_is_of_one_process_and_one_scope(tmp_path: Path) -> None:
    async with client_of(tmp_path) as client:
        (told,) = (await ask(client, "remember", facts=[FACT]))["results"]
        handle = (await ask(client, "forget", id=told["id"]))["confirm"]
    async with client_of(tmp_path) as client:
        assert (await ask(client, "forget", id=told["id"], confirm=handle))["status"] == "needs_confirmation"
    async with client_of(tmp_path, user="ben") as client:
        assert (await ask(client, "forget", id=told["id"], confirm=handle))["status"] == "nothing_found"


ANSWERS: dict[str, tuple[ElicitResult, str]] = {
    "yes": (ElicitResult(action="accept", content={"erase": True}), "erased"),
    "unticked": (ElicitResult(action="accept", content={"erase": False}), "declined"),
    "empty": (ElicitResult(action="accept"), "declined"),
    "no": (ElicitResult(action="decline"), "declined"),
    "dismissed": (ElicitResult(action="cancel"), "declined"),
}


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("answer", ANSWERS)
async def test_the_person_is_asked_where_the_client_can(tmp_path: Path, mode: str, answer: str) -> None:
    asked: list[str] = []
    reply, status = ANSWERS[answer]

    async def person(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return reply

    async with client_of(tmp_path, mode=mode, elicitation_callback=person) as client:
        await ask(client, "remember", facts=[FACT])
        done = await ask(client, "forget", query=FACT)
        assert done["status"] == status
        assert len(asked) == 1 and FACT in asked[0]
        assert await texts(client, "marzipan") == ([] if status == "erased" else [FACT])


async def test_nothing_to_forget_is_said(tmp_path: Path) -> None:
    async with client_of(tmp_path) as client:
        await ask(client, "remember", facts=[FACT])
        assert (await ask(client, "forget", query="the price of tea in winter"))["status"] == "nothing_found"


@pytest.mark.parametrize("mode", ERAS)
async def test_each_memory_has_the_reason_that_it_goes_for_and_what_stays_is_named(tmp_path: Path, mode: str) -> None:
    said = [{"role": "user", "content": "I live in Lisbon. My sister Clara has a boat."}]
    async with client_of(tmp_path, mode=mode) as client:
        told = {each["memory"]: each["id"] for each in (await ask(client, "learn", messages=said))["results"]}
        lisbon, clara = told["User lives in Lisbon"], told["User's sister Clara has a boat"]
        await ask(client, "correct", id=lisbon, text="User lives in Porto")
        planned = await ask(client, "forget", id=lisbon)
        assert {each["id"]: each["why"] for each in planned["memories"]}[lisbon] == "matched"
        stays = "These stay, without a message that they came from: User's sister Clara has a boat"
        assert clara not in {each["id"] for each in planned["memories"]} and planned["note"].endswith(stays)
        done = await ask(client, "forget", id=lisbon, confirm=planned["confirm"])
        assert done["status"] == "erased" and done["note"].endswith(stays)
        assert done["memories"] == [{**each, "memory": "(erased)"} for each in planned["memories"]]
        assert "User's sister Clara has a boat" in await texts(client, "boat")
