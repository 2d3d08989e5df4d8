"""Two teams at one server: no tool of the profile `team` tells one of the other, or changes what the other has."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from perdure.frontends.mcp.tool import tools_of
from tests.frontends.mcp.clients import ERAS, ask
from tests.frontends.mcp.test_fuzz_tenants import AIMED, OWN, Owner, drawn, watch
from tests.frontends.mcp.test_http import connected
from tests.frontends.server.running import SECRET, Running, as_member, running

pytestmark = pytest.mark.anyio
ROUNDS = 25
TOOLS = tools_of(("team",))
WORDS = ("zorblatt", "quimbus", "veltranor")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    settings = {"mcp_profiles": ["core", "team"]}
    with running(tmp_path / "memory", settings=settings, env={"PERDURE_JWT_SECRET": SECRET}) as found:
        yield found


async def all_of(client: Client) -> list[Any]:
    """What a team has: every memory that a word finds, and every request for promotion."""
    found = [(await ask(client, "team_search", query=word, limit=50))["results"] for word in WORDS]
    return [found, await ask(client, "promotions")]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_team_learns_nothing_of_another(server: Running, mode: str) -> None:
    rng = random.Random(mode)
    async with (
        connected(server, headers=as_member("apollo", "ana"), mode=mode) as theirs,
        connected(server, headers=as_member("zeus", "ben"), mode=mode) as ours,
    ):
        owner = Owner()
        for number, word in enumerate(WORDS):
            stored = await ask(
                theirs, "team_upsert", content=f"The {word} is launched", source=f"doc:{number}", confidence=0.9
            )
            owner.ids.append(stored["id"])
        asked = await ask(theirs, "promote", id=owner.ids[0], target_level="VALIDATED", justification="seen by all")
        owner.events.append(asked["promotion_id"])
        owner.handles.append(asked["promotion_id"])
        before = await all_of(theirs)
        assert all(word in str(before) for word in WORDS), "there is something to tell"
        answered = set()
        for tool in TOOLS:
            for _ in range(ROUNDS):
                words = OWN if tool.name == "team_upsert" else AIMED
                arguments = drawn(tool.declaration.input_schema, owner, rng, words)
                arguments |= {"source": f"doc:{rng.randrange(3)}"} if "source" in arguments else {}
                result = await ours.call_tool(tool.name, arguments)
                if tool.name == "promote":
                    assert result.is_error, "the memory is another team's"
                watch_ids(owner, arguments, result.model_dump_json())
                if not result.is_error:
                    answered.add(tool.name)
        assert answered == {"team_search", "team_upsert", "promotions"}
        assert await all_of(theirs) == before


def watch_ids(owner: Owner, arguments: dict[str, Any], answer: str) -> None:
    """Fail if an answer has an id or a sentence of the other team's that the request did not have."""
    watch("a team's tool", arguments, answer)
    for secret in (*owner.ids, *owner.events, "is launched"):
        assert secret not in answer or secret in str(arguments), answer[:500]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_team_that_a_token_does_not_name_is_refused(server: Running, mode: str) -> None:
    async with connected(server, headers=as_member("apollo", "ana"), mode=mode) as client:
        await ask(client, "team_upsert", content="The zorblatt is launched", source="doc:1", confidence=0.9)
    stranger = {**as_member("zeus", "ben"), "X-Team-Scope": "apollo"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "team_search", "arguments": {}}}
    accept = {"Accept": "application/json, text/event-stream"}
    for path in ("/mcp", "/mcp/ana", "/mcp/ana/apollo"):
        found = server.client.post(path, json=body, headers={**stranger, **accept})
        assert found.status_code == 403
        assert "zorblatt" not in found.text
