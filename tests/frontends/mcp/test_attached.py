"""`perdure mcp` beside `perdure serve` on one folder: the server's engine answers, and no second one is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult

from perdure.frontends.mcp import SCOPE_HEADER, Serving
from tests.frontends.cli.runs import HASHED, PROGRAM, perdure
from tests.frontends.mcp.clients import ERAS, ask, client_of, refused, texts

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="no server announces itself on Windows"),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def served(folder: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A real server of a folder, in a process."""
    folder.mkdir(exist_ok=True)
    (folder / "perdure.toml").write_text(HASHED, encoding="utf-8")
    command = [*PROGRAM, "serve", "--port", "0", "--json", "--path", str(folder), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **(env or {})}
    ) as server:
        assert server.stdout is not None
        try:
            told = ""
            while not told.endswith("}\n"):
                line = server.stdout.readline()
                assert line, "the server did not start"
                told += line
            assert json.loads(told)["url"]
            yield server
        finally:
            server.kill()


NO_ENGINE = {"PERDURE_EMBEDDER__PROVIDER": "no such provider"}
"""An environment in which a process cannot open a memory of its own."""


@pytest.mark.parametrize("mode", ERAS)
async def test_the_servers_engine_answers(tmp_path: Path, mode: str) -> None:
    with served(tmp_path / "memory"):
        async with client_of(tmp_path / "memory", mode=mode, env=NO_ENGINE) as client:
            (told,) = (await ask(client, "remember", facts=["User lives in Lisbon"]))["results"]
            assert await texts(client, "Lisbon") == ["User lives in Lisbon"]
            read = await client.read_resource(f"perdure://memory/{told['id']}")
            assert "Lisbon" in read.model_dump_json()
            assert "Lisbon" in (await client.get_prompt("recall", {"topic": "Lisbon"})).model_dump_json()
            assert (await refused(client, "correct", id="nothing", text="x y"))["code"] == "not_found"
            with pytest.raises(MCPError, match="there is no resource"):
                await client.read_resource("perdure://nothing/ä")
        async with client_of(tmp_path / "memory", mode=mode, env=NO_ENGINE, user="ben") as client:
            assert await texts(client, "Lisbon") == []
            assert (await refused(client, "history", id=told["id"]))["code"] == "not_found"
    async with client_of(tmp_path / "memory", mode=mode) as client:
        assert await texts(client, "Lisbon") == ["User lives in Lisbon"]


@pytest.mark.parametrize("scope", [("--agent-id", "a1"), ("--run-id", "r1"), ("--user-id", "ana", "--project-id", "p")])
async def test_every_axis_of_the_scope_holds(tmp_path: Path, scope: tuple[str, ...]) -> None:
    folder = tmp_path / "memory"
    with served(folder):
        async with client_of(folder, *scope, user="", env=NO_ENGINE) as client:
            await ask(client, "remember", facts=["The build runs at noon"])
            assert await texts(client, "build") == ["The build runs at noon"]
        async with client_of(folder, scope[0], "other", user="", env=NO_ENGINE) as client:
            assert await texts(client, "build") == []


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("said", [True, False])
async def test_the_person_is_asked_through_both(tmp_path: Path, mode: str, said: bool) -> None:
    async def person(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"erase": said})

    with served(tmp_path / "memory"):
        given = {"mode": mode, "env": NO_ENGINE, "elicitation_callback": person}
        async with client_of(tmp_path / "memory", **given) as client:
            (told,) = (await ask(client, "remember", facts=["User lives in Lisbon"]))["results"]
            done = await ask(client, "forget", id=told["id"])
            assert done["status"] == ("erased" if said else "declined")
            assert await texts(client, "Lisbon") == ([] if said else ["User lives in Lisbon"])


async def test_when_the_server_dies_the_client_goes_on_alone(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with served(folder) as server:
        async with client_of(folder) as client:
            await ask(client, "remember", facts=["User lives in Lisbon"])
            server.kill()
            server.wait()
            assert await texts(client, "Lisbon") == ["User lives in Lisbon"]
            await ask(client, "remember", facts=["User plays the cello"])
            with served(folder):
                assert "User plays the cello" in await texts(client, "cello")


async def test_other_tools_or_a_proxy_before_it_leave_the_client_alone(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with served(folder):
        async with client_of(folder, "--profile", "core,review") as client:
            await ask(client, "review_queue")
        async with client_of(folder, "--profile", "core,review", env=NO_ENGINE) as client:
            assert "settings" in (await refused(client, "recall", query="x"))["message"]
    with served(folder, env={"PERDURE_SERVER__TRUST_CLIENT_USER_ID": "false"}):
        assert Serving.at(folder) is None
    with served(folder, env={"PERDURE_SERVER__MCP_PROFILES": "core,review"}):
        async with client_of(folder, "--profile", "core,review", env=NO_ENGINE) as client:
            await ask(client, "recall", query="x")


async def test_keys_do_not_stand_between_an_owner_and_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with served(folder):
        assert perdure("keys", "create", "somebody", "--path", str(folder), process=True).status == 0
        async with client_of(folder, env=NO_ENGINE) as client:
            await ask(client, "remember", facts=["User lives in Lisbon"])


def test_the_token_opens_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with served(folder):
        assert perdure("keys", "create", "somebody", "--path", str(folder), process=True).status == 0
        serving = Serving.at(folder)
        assert serving is not None
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        right = {"Authorization": f"Bearer {serving.token}", SCOPE_HEADER: '{"user_id": "ana"}'}
        accept = {"Accept": "application/json, text/event-stream"}

        def status(path: str, **headers: str) -> int:
            return httpx.post(f"{serving.url}{path}", json=body, headers={**accept, **headers}, timeout=60).status_code

        assert status("/mcp", **right) == 200
        assert status("/mcp/ana", **right) == 401
        assert status("/v1/memories/search", **right) == 401
        assert (
            httpx.get(f"{serving.url}/v1/memories", params={"user_id": "ana"}, headers=right, timeout=60).status_code
            == 401
        )
        assert status("/mcp", **{**right, "Authorization": f"Bearer {serving.token}x"}) == 401
        for scope in (
            "",
            "{}",
            "[]",
            '{"team_id": "t"}',
            '{"project_id": "p"}',
            '{"user_id": "ana", "team_id": "t"}',
            "x",
        ):
            assert status("/mcp", **{**right, SCOPE_HEADER: scope}) == 400


def test_the_file_is_its_owners_and_says_nothing_when_nobody_runs(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with served(folder) as server:
        file = folder / ".serving"
        assert file.stat().st_mode & 0o777 == 0o600
        first = Serving.at(folder)
        assert first is not None
        with served(folder):  # a second server of the folder does not take the file over
            assert Serving.at(folder) == first
        file.chmod(0o640)
        assert Serving.at(folder) is None, "others could have written it"
        file.chmod(0o600)
        server.terminate()
        server.wait()
    assert Serving.at(folder) is None
    file.write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "x", "profiles": ["core"]}))
    assert Serving.at(folder) is None, "nobody holds it"
    for text in ("", "{", "[]", '{"url": 1}'):
        file.write_text(text)
        assert Serving.at(folder) is None
