"""Inputs that a model or a client gets wrong: each has a typed answer, and standard output stays the protocol's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.frontends.cli.runs import perdure
from tests.frontends.mcp.clients import ask, client_of, parameters, refused, text_of, texts

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


UNICODE = [
    "User's dog is called Łukasz-Ørsted 🐕‍🦺",
    "ユーザーは東京に住んでいます",
    "המשתמש גר בחיפה",
    "e\u0301clair and \u2028line\u2029separators",
    'quotes " and \\ and \x07 bell',
]

WRONG: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("recall", {}, "invalid_input", "query"),
    ("recall", {"query": ""}, "invalid_input", "query"),
    ("recall", {"query": 7}, "invalid_input", "query"),
    ("recall", {"query": "x", "limit": 0}, "invalid_input", "limit"),
    ("recall", {"query": "x", "limit": 51}, "invalid_input", "limit"),
    ("recall", {"query": "x", "user_id": "ben"}, "invalid_input", "user_id"),
    ("remember", {"facts": []}, "invalid_input", "facts"),
    ("remember", {"facts": [""]}, "invalid_input", "facts.0"),
    ("remember", {"facts": ["   "]}, "invalid_input", None),
    ("remember", {"facts": ["x"] * 21}, "invalid_input", "facts"),
    ("remember", {"facts": ["User likes tea"], "metadata": {"user_id": "ben"}}, "invalid_input", None),
    ("learn", {"messages": [{"role": "user"}]}, "invalid_input", "messages.0.content"),
    ("learn", {"messages": [{"role": "boss", "content": "x"}]}, "invalid_input", "messages.0.role"),
    ("learn", {"messages": [{"role": "user", "content": "x", "timestamp": "later"}]}, "invalid_input", None),
    ("correct", {"id": "nope", "text": "x"}, "not_found", None),
    ("correct", {"id": "nope", "text": ""}, "invalid_input", "text"),
    ("undo", {"event_id": "nope"}, "not_found", None),
    ("history", {}, "invalid_input", "id"),
    ("history", {"id": "nope", "about": "x"}, "invalid_input", "id"),
    ("history", {"id": "nope"}, "not_found", None),
    ("forget", {}, "invalid_input", "id"),
    ("forget", {"id": "nope"}, "not_found", None),
    ("context", {"query": "x", "max_tokens": 1}, "invalid_input", "max_tokens"),
]


async def test_wrong_arguments_are_typed_errors(tmp_path: Path) -> None:
    async with client_of(tmp_path) as client:
        for tool, arguments, code, field in WRONG:
            error = await refused(client, tool, **arguments)
            assert error["code"] == code, (tool, arguments, error)
            assert field is None or error["field"] == field, (tool, arguments, error)
        with pytest.raises(MCPError, match="no tool 'drop_everything'"):
            await client.call_tool("drop_everything", {})
        with pytest.raises(MCPError, match="cursor"):
            await client.list_tools(cursor="x")


async def test_every_script_comes_back_as_it_was_told(tmp_path: Path) -> None:
    async with client_of(tmp_path) as client:
        told = (await ask(client, "remember", facts=UNICODE))["results"]
        assert [each["memory"] for each in told] == UNICODE
        for text in UNICODE[:3]:
            assert text in await texts(client, text)


async def test_a_huge_input_is_answered(tmp_path: Path) -> None:
    async with client_of(tmp_path) as client:
        await ask(client, "remember", facts=["User likes tea"])
        assert isinstance(await texts(client, "tea " * 50_000), list)
        result = await client.call_tool("remember", {"facts": ["User wrote " + "word " * 100_000]})
        assert result.is_error or result.structured_content is not None
        assert text_of(result)
        assert "User likes tea" in await texts(client, "tea")


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
def test_standard_output_has_nothing_but_the_protocol(tmp_path: Path, era: str) -> None:
    """Also after lines that are none, which have errors of JSON-RPC, and with a memory that logs something."""
    told = parameters(tmp_path)
    lines: list[Any] = ["this is no JSON", "", "{}", "[]", "\x00", '{"jsonrpc": "2.0", "id": 0, "method": "nope"}']
    if era == "2025-11-25":
        hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        lines.append({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        lines.append({"jsonrpc": "2.0", "method": "notifications/initialized"})
        meta: dict[str, Any] = {}
        lines = lines[-2:] + lines[:-2]
    else:
        names = ("protocolVersion", "clientInfo", "clientCapabilities")
        values = (era, {"name": "raw", "version": "1"}, {})
        found = {f"io.modelcontextprotocol/{name}": value for name, value in zip(names, values, strict=True)}
        meta = {"_meta": found}
        lines.insert(0, {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": meta})
    lines.append({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": meta})
    call = {"name": "remember", "arguments": {"facts": ["User likes tea"]}, **meta}
    lines.append({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call})
    process = subprocess.Popen(
        [sys.executable, *told.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=told.env,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with process:
        for line in lines:
            process.stdin.write((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n")
        process.stdin.flush()
        answers: dict[Any, dict[str, Any]] = {}
        refused_lines: list[int] = []
        while 3 not in answers:
            answer = json.loads(process.stdout.readline())
            assert answer["jsonrpc"] == "2.0"
            if answer["id"] is None:
                refused_lines.append(answer["error"]["code"])
            answers[answer["id"]] = answer
        assert refused_lines == [-32700, -32600, -32600, -32700], "of the lines that are no message"
        assert len(answers[2]["result"]["tools"]) == 8
        assert answers[3]["result"]["structuredContent"]["results"][0]["event"] == "ADD"
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(30) == 0
        assert b"Traceback" not in process.stderr.read()


def test_a_missing_scope_and_an_unknown_profile_are_usage(tmp_path: Path) -> None:
    ran = perdure("mcp", "--path", str(tmp_path))
    assert (ran.status, ran.out) == (2, "")
    assert "At least one of user_id" in ran.err
    ran = perdure("mcp", "--user-id", "ana", "--profile", "core,corr", "--path", str(tmp_path))
    assert (ran.status, ran.out) == (2, "")
    assert "no profile 'corr'; there is core" in ran.err
    assert not any(tmp_path.iterdir())


async def test_the_scope_may_come_from_the_environment(tmp_path: Path) -> None:
    async with client_of(tmp_path, user="", env={"PERDURE_MCP_USER_ID": "ben"}) as client:
        await ask(client, "remember", facts=["User likes tea"])
    async with client_of(tmp_path, user="ben") as client:
        assert await texts(client, "tea") == ["User likes tea"]
    async with client_of(tmp_path, user="ana") as client:
        assert await texts(client, "tea") == []


async def test_a_broken_setting_is_a_tools_error_and_the_next_call_tries_again(tmp_path: Path) -> None:
    (tmp_path / "perdure.toml").write_text("nonsense = 1\n", encoding="utf-8")
    async with client_of(tmp_path) as client:
        assert len((await client.list_tools()).tools) == 8
        assert (await client.call_tool("recall", {"query": "x"})).is_error
        (tmp_path / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
        assert await texts(client, "x") == []
