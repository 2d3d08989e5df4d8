"""A client does not wait: the tools are listed before the SDK and the engine are imported, as the SDK lists them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure.frontends.mcp.front import CAPABILITIES_KEY, CLIENT_KEY, VERSION_KEY, FirstWords
from tests.frontends.mcp.clients import PROGRAM

PROBE = """
import asyncio, sys
from pathlib import Path
from mcp.client.client import Client
from perdure.domain.scope import Scope
from perdure.frontends.cli.open_memory import read_settings
from perdure.frontends.mcp.consent import Consent
from perdure.frontends.mcp.tool import tools_of
from perdure.frontends.mcp.server import build_server
from perdure.frontends.mcp.stdio import FolderAccess

HEAVY = {"numpy", "sqlalchemy", "onnxruntime", "perdure.engine.engine", "perdure.frontends.library.memory"}

async def main():
    access = FolderAccess(lambda: read_settings(Path(sys.argv[1])), Scope(user_id="ana"))
    async with Client(build_server(tools_of(("core",)), access, Consent())) as client:
        print(len((await client.list_tools()).tools), sorted(HEAVY & set(sys.modules)))
        result = await client.call_tool("recall", {"query": "tea"})
        print(result.is_error, "perdure.engine.engine" in sys.modules)
    await access.close()

asyncio.run(main())
"""


def test_the_tools_are_listed_before_the_engine_is_imported(tmp_path: Path) -> None:
    (tmp_path / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", PROBE, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    listed, called = done.stdout.splitlines()
    assert listed.split(" ", 1)[1] == "[]"
    assert called == "False True"


LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
CLIENT = {"name": "probe", "version": "1"}
ENVELOPE = {"_meta": {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}, CLIENT_KEY: CLIENT}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CANCELLED = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
"""Changes nothing; the front has no answer to it, so the SDK answers all that follows."""


def request(number: int | str, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}


def hello(number: int | str = 0, version: str = "2025-11-25") -> dict[str, Any]:
    return request(number, "initialize", protocolVersion=version, capabilities={}, clientInfo=CLIENT)


def opening(version: str) -> list[dict[str, Any]]:
    """What a client says first, and every list that it can ask for."""
    if version == "2026-07-28":
        return [request(at, name, **ENVELOPE) for at, name in enumerate(("server/discover", *LISTS))]
    return [hello(version=version), INITIALIZED, *(request(at, name) for at, name in enumerate(("ping", *LISTS), 1))]


def said(folder: Path, messages: list[dict[str, Any]], *more: str) -> list[dict[str, Any]]:
    """The messages that a server writes; its client waits for an answer to each request before it leaves."""
    folder.mkdir(exist_ok=True)
    (folder / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
    command = [sys.executable, *PROGRAM, "--user-id", "ana", "--path", str(folder), *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write("".join(json.dumps(each) + "\n" for each in messages))
        server.stdin.flush()
        told = [server.stdout.readline().rstrip("\n") for each in messages if "id" in each]
        server.stdin.close()
        told += server.stdout.read().splitlines()
    assert server.returncode == 0
    return [json.loads(line) for line in told]


@pytest.mark.parametrize(
    ("version", "profiles"),
    [
        ("2026-07-28", "core"),
        ("2025-11-25", "core,graph,review,team,chatgpt,mem0"),
        ("2024-11-05", "knowledge-graph"),
        ("of no year", "core"),
    ],
)
def test_what_is_said_first_is_what_the_sdk_would_say(tmp_path: Path, version: str, profiles: str) -> None:
    messages = opening(version)
    first = said(tmp_path, messages, "--profile", profiles)
    by_the_sdk = said(tmp_path, [CANCELLED, *messages], "--profile", profiles)
    assert len(first) == sum("id" in each for each in messages)
    assert [each["id"] for each in first] == sorted(each["id"] for each in first)
    assert first == sorted(by_the_sdk, key=lambda each: int(each["id"]))


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
def test_the_lists_are_there_without_the_sdk(tmp_path: Path, version: str) -> None:
    """The SDK of this process is never imported to the end."""
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp/__init__.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, *PROGRAM, "--user-id", "ana", "--path", str(tmp_path / "memory")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        wanted = [each for each in opening(version) if "id" in each]
        for message in opening(version):
            server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        told = [json.loads(server.stdout.readline()) for _ in wanted]
        server.kill()
    assert [each["id"] for each in told] == [each["id"] for each in wanted]
    assert all("result" in each for each in told)


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
def test_every_request_has_one_answer_whoever_gives_it(tmp_path: Path, version: str) -> None:
    more = ENVELOPE if version == "2026-07-28" else {}
    call = request("1", "tools/call", name="remember", arguments={"facts": ["User lives in Lisbon"]}, **more)
    messages = [*opening(version), call, request(90, "tools/list", **more), request("x", "nothing/known", **more)]
    told = said(tmp_path, messages)
    counts = Counter((type(each["id"]), each["id"]) for each in told)
    assert counts == Counter((type(each["id"]), each["id"]) for each in messages if "id" in each)
    by_id = {(type(each["id"]), each["id"]): each for each in told}
    assert by_id[str, "1"]["result"]["structuredContent"]["results"][0]["event"] == "ADD"
    assert by_id[int, 90]["result"]["tools"] and "error" in by_id[str, "x"]


FIRST: list[tuple[str, Any]] = [
    ("no object", [1]),
    ("before the handshake", request(1, "tools/list")),
    ("no client", request(1, "initialize", protocolVersion="2025-11-25", capabilities={})),
    ("no version of the client", {**hello(), "params": {**hello()["params"], "clientInfo": {"name": "x"}}}),
    ("no capabilities", request(1, "initialize", protocolVersion="2025-11-25", clientInfo=CLIENT)),
    ("not 2.0", {**hello(), "jsonrpc": "1.0"}),
    ("an id that is none", {**hello(), "id": True}),
    ("no id", {name: value for name, value in hello().items() if name != "id"}),
    ("a revision that is not spoken", request(1, "tools/list", _meta={VERSION_KEY: "2031-01-01"})),
    ("half an envelope", request(1, "tools/list", _meta={VERSION_KEY: "2026-07-28"})),
    ("a client without a name", request(1, "tools/list", _meta={**ENVELOPE["_meta"], CLIENT_KEY: {}})),
    ("the name of an era", request(1, "tools/list", _meta={VERSION_KEY: "handshake", CAPABILITIES_KEY: {}})),
    ("the name of a table", request(1, "core", _meta={VERSION_KEY: "tools", CAPABILITIES_KEY: {}})),
    ("a method that is no text", {**request(1, "x", **ENVELOPE), "method": ["tools/list"]}),
]  # fmt: skip
THEN: list[tuple[str, Any]] = [
    ("a second handshake", hello(2)),
    ("another era", request(2, "tools/list", **ENVELOPE)),
    ("a cursor", request(2, "tools/list", cursor="x")),
    ("parameters that are null", {**request(2, "tools/list"), "params": None}),
    ("parameters that are a list", {**request(2, "tools/list"), "params": []}),
    ("a call", request(2, "tools/call", name="recall", arguments={"query": "tea"})),
    ("a list of versions", request(2, "versions")),
    ("a member that is not known", {**request(2, "tools/list"), "more": 1}),
]


@pytest.mark.parametrize(("name", "message"), FIRST)
def test_an_unusual_opening_is_left_to_the_sdk(name: str, message: Any) -> None:
    words = FirstWords.of(("core",))
    assert words is not None
    assert words.answer(message) is None


@pytest.mark.parametrize(("name", "message"), THEN)
def test_what_is_unusual_after_the_opening_is_left_to_the_sdk(name: str, message: Any) -> None:
    words = FirstWords.of(("core",))
    assert words is not None
    assert words.answer(hello()) is not None
    assert words.answer(message) is None


@pytest.mark.parametrize("profiles", [("core", "nonsense"), ("mem0", "knowledge-graph")])
def test_profiles_that_the_server_refuses_have_no_first_words(profiles: tuple[str, ...]) -> None:
    assert FirstWords.of(profiles) is None
