"""`/mcp` of a real server, by the official SDK's client: keys, roles, tenants, and the checks of Host and Origin."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from tests.frontends.mcp.clients import ERAS, ask, refused, texts
from tests.frontends.server.running import SECRET, Running, bearer, running, token

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "memory", env={"PERDURE_JWT_SECRET": SECRET}) as found:
        yield found


@asynccontextmanager
async def connected(
    server: Running, path: str = "/mcp", key: str | None = None, *, mode: str = "auto", **given: Any
) -> AsyncIterator[Client]:
    headers = {} if key is None else bearer(key)
    async with httpx2.AsyncClient(headers={**headers, **given.pop("headers", {})}, timeout=60) as http:
        transport = streamable_http_client(f"{server.url}{path}", http_client=http)
        async with Client(transport, mode=mode, **given) as client:
            yield client


@pytest.mark.parametrize("mode", ERAS)
async def test_an_open_server_serves_the_user_of_the_path(server: Running, mode: str) -> None:
    async with connected(server, "/mcp/ana", mode=mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert len((await client.list_tools()).tools) == 8
        await ask(client, "remember", facts=["User lives in Lisbon"])
        assert await texts(client, "lives in Lisbon") == ["User lives in Lisbon"]
    async with connected(server, "/mcp/ben", mode=mode) as client:
        assert await texts(client, "lives in Lisbon") == []
    async with connected(server, "/mcp/ana/trip", mode=mode) as client:
        assert await texts(client, "lives in Lisbon") == []
        await ask(client, "remember", facts=["User books the night train"])
    async with connected(server, "/mcp/ana/", mode=mode) as client:
        assert "User books the night train" in await texts(client, "night train")
    async with connected(server, mode=mode) as client:
        assert "connect to /mcp/USER" in (await refused(client, "recall", query="x"))["message"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_key_binds_and_a_path_only_narrows(server: Running, mode: str) -> None:
    ana, unbound = server.key("ana", user_id="ana"), server.key("all")
    async with connected(server, "/mcp", ana, mode=mode) as client:
        await ask(client, "remember", facts=["User lives in Lisbon"])
    async with connected(server, "/mcp/ana", ana, mode=mode) as client:
        assert await texts(client, "Lisbon") == ["User lives in Lisbon"]
    async with connected(server, "/mcp/ben", ana, mode=mode) as client:
        assert (await refused(client, "recall", query="Lisbon"))["code"] == "forbidden"
        assert (await refused(client, "remember", facts=["x y z"]))["code"] == "forbidden"
    async with connected(server, "/mcp/ana", unbound, mode=mode) as client:
        assert await texts(client, "Lisbon") == ["User lives in Lisbon"]
    async with connected(server, "/mcp", token("ana"), mode=mode) as client:
        assert await texts(client, "Lisbon") == ["User lives in Lisbon"]
    async with connected(server, "/mcp/ana", token("ben"), mode=mode) as client:
        assert (await refused(client, "recall", query="Lisbon"))["code"] == "forbidden"


@pytest.mark.parametrize("mode", ERAS)
async def test_a_reader_sees_and_calls_what_only_reads(server: Running, mode: str) -> None:
    async with connected(server, "/mcp", server.key("ana", user_id="ana"), mode=mode) as client:
        (told,) = (await ask(client, "remember", facts=["User lives in Lisbon"]))["results"]
    async with connected(server, "/mcp", server.key("look", role="reader", user_id="ana"), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["recall", "history", "context"]
        assert await texts(client, "Lisbon") == ["User lives in Lisbon"]
        for name, arguments in (
            ("remember", {"facts": ["a b c"]}),
            ("learn", {"messages": [{"role": "user", "content": "I moved"}]}),
            ("correct", {"id": told["id"], "text": "x"}),
            ("forget", {"id": told["id"]}),
            ("undo", {"event_id": told["event_id"]}),
        ):
            assert (await refused(client, name, **arguments))["code"] == "forbidden"


async def test_without_or_with_a_wrong_key_nothing_is_answered(server: Running) -> None:
    gone = server.key("gone", user_id="ana")
    server.revoke("gone")
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    for headers in ({}, bearer("wrong"), bearer(gone)):
        for path in ("/mcp", "/mcp/ana", "/mcp/ana/trip", "/mcp/"):
            for method in ("POST", "GET", "DELETE"):
                found = server.client.request(method, path, json=body, headers={**accept, **headers})
                assert (found.status_code, found.json()["code"]) == (401, "unauthenticated")
                assert found.headers["www-authenticate"] == "Bearer"


async def test_pages_of_other_sites_and_other_hosts_are_refused(server: Running) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}

    def status(**headers: str) -> int:
        told = {**accept, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return server.client.post("/mcp/ana", json=body, headers=told).status_code

    assert status() == 200
    assert status(Host="evil.example") == 421
    assert status(Origin="https://evil.example") == 403
    assert status(Sec_Fetch_Site="cross-site") == 403
    told = {**accept, "Content-Type": "text/plain"}
    assert server.client.post("/mcp/ana", content=json.dumps(body), headers=told).status_code == 415


async def test_a_proxy_names_the_user_where_clients_are_not_believed(tmp_path: Path) -> None:
    with running(tmp_path / "memory", settings={"trust_client_user_id": False}) as server:
        async with connected(server, "/mcp/ana") as client:
            assert (await refused(client, "recall", query="x"))["code"] == "unauthenticated"
        async with connected(server, headers={"x-authz-user-id": "ana"}) as client:
            await ask(client, "remember", facts=["User lives in Lisbon"])
        async with connected(server, "/mcp/ana", headers={"x-authz-user-id": "ben"}) as client:
            assert (await refused(client, "recall", query="Lisbon"))["code"] == "forbidden"


async def test_no_tool_leaks_from_one_tenant_to_another(server: Running) -> None:
    """Every tool, with every id, event and handle of the other tenant."""
    ana, ben = server.key("ana", user_id="ana"), server.key("ben", user_id="ben")
    secret = "User's secret recipe is marzipan with saffron"
    async with connected(server, "/mcp", ana) as client:
        (told,) = (await ask(client, "remember", facts=[secret]))["results"]
        await ask(client, "learn", messages=[{"role": "user", "content": "My locker code is saffron 77."}])
        handle = (await ask(client, "forget", id=told["id"]))["confirm"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"query": secret}),
        ("recall", {"query": "saffron", "include_past": True, "limit": 50}),
        ("recall", {"query": "saffron", "as_of": "2999-01-01"}),
        ("context", {"query": secret}),
        ("history", {"about": secret}),
        ("history", {"id": told["id"]}),
        ("correct", {"id": told["id"], "text": "taken"}),
        ("undo", {"event_id": told["event_id"]}),
        ("forget", {"id": told["id"]}),
        ("forget", {"id": told["id"], "confirm": handle}),
        ("forget", {"query": secret, "confirm": handle}),
        ("remember", {"facts": ["User likes tea"], "metadata": {"note": "x"}}),
        ("learn", {"messages": [{"role": "user", "content": "Forget that my locker code is saffron 77."}]}),
    ]
    for mode in ERAS:
        for path in ("/mcp", "/mcp/ben", "/mcp/ana", "/mcp/ana/x", "/mcp/ben%2Fana", "/mcp/%61na"):
            for name, arguments in calls:
                body = {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "tools/call",
                    "params": {"name": name, "arguments": arguments},
                }
                headers = {**bearer(ben), "Accept": "application/json, text/event-stream"}
                if mode == "auto":
                    headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
                    body["params"]["_meta"] = {
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
                        "io.modelcontextprotocol/clientCapabilities": {},
                    }
                found = server.client.post(path, json=body, headers=headers)
                assert found.status_code in (200, 400), found.text
                assert "saffron" not in found.text, (mode, path, name, arguments)
                assert path not in ("/mcp", "/mcp/ben") or "result" in answer_of(found), found.text
    async with connected(server, "/mcp", ana) as client:
        assert secret in await texts(client, "secret recipe marzipan")
        assert len((await ask(client, "history", id=told["id"]))["events"]) == 1


def answer_of(response: httpx.Response) -> dict[str, Any]:
    """The answer in a body, which is JSON or a stream with it."""
    kind = response.headers["content-type"].partition(";")[0]
    assert kind in ("application/json", "text/event-stream")
    lines = [line for line in response.text.splitlines() if line.startswith("data: {")]
    text = response.text if kind == "application/json" else lines[-1].removeprefix("data: ")
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("said", [True, False])
async def test_the_person_is_asked_by_the_answer_over_http(server: Running, said: bool) -> None:
    async def person(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"erase": said})

    async with connected(server, "/mcp/ana", elicitation_callback=person) as client:
        await ask(client, "remember", facts=["User lives in Lisbon"])
        done = await ask(client, "forget", query="User lives in Lisbon")
        assert done["status"] == ("erased" if said else "declined")
        assert await texts(client, "Lisbon") == ([] if said else ["User lives in Lisbon"])


async def test_a_client_of_sessions_gets_a_handle_over_http(server: Running) -> None:
    """Without a session the server cannot ask during a call, whatever the client can show."""

    async def person(context: Any, params: ElicitRequestParams) -> ElicitResult:
        raise AssertionError("nobody can be asked")

    async with connected(server, "/mcp/ana", mode="legacy", elicitation_callback=person) as client:
        (told,) = (await ask(client, "remember", facts=["User lives in Lisbon"]))["results"]
        planned = await ask(client, "forget", id=told["id"])
        assert planned["status"] == "needs_confirmation"
    async with connected(server, "/mcp/ana", mode="legacy") as client:
        assert (await ask(client, "forget", id=told["id"], confirm=planned["confirm"]))["status"] == "erased"


async def test_servers_with_one_secret_accept_each_others_handles(tmp_path: Path) -> None:
    for secrets, status in ((("s" * 32, "s" * 32), "erased"), (("s" * 32, "t" * 32), "needs_confirmation")):
        folder = tmp_path / status
        with running(folder, env={"PERDURE_MCP_SECRET": secrets[0]}) as one:
            async with connected(one, "/mcp/ana") as client:
                (told,) = (await ask(client, "remember", facts=["User lives in Lisbon"]))["results"]
                handle = (await ask(client, "forget", id=told["id"]))["confirm"]
        with running(folder, env={"PERDURE_MCP_SECRET": secrets[1]}) as two:
            async with connected(two, "/mcp/ana") as client:
                assert (await ask(client, "forget", id=told["id"], confirm=handle))["status"] == status
