"""What `perdure mcp` answers before the SDK is imported; docs/generate.py writes and checks it.

The SDK's server is asked, in memory and once for each profile, so that the file cannot say something else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from perdure.domain.scope import Scope
from perdure.engine.config.config import MemoryConfig
from perdure.frontends.mcp import DEFAULT, Profile
from perdure.frontends.mcp.consent import Consent
from perdure.frontends.mcp.front import CAPABILITIES_KEY, HANDSHAKE, VERSION_KEY
from perdure.frontends.mcp.server import LISTS, build_server
from perdure.frontends.mcp.stdio import FolderAccess
from perdure.frontends.mcp.tool import tools_of

FILE = Path(__file__).parents[1] / "src/perdure/frontends/mcp/front.json"
HELLO = {"capabilities": {}, "clientInfo": {"name": "docs", "version": "1"}}


def first_words() -> dict[Path, str]:
    """Return the file and its text."""
    found: dict[str, Any] = {HANDSHAKE: answers(LATEST_HANDSHAKE_VERSION, DEFAULT)}
    found[HANDSHAKE]["versions"] = list(HANDSHAKE_PROTOCOL_VERSIONS)
    found |= {version: answers(version, DEFAULT) for version in MODERN_PROTOCOL_VERSIONS}
    for era in found.values():
        era["tools/list"]["tools"] = []
    found["modern"] = list(MODERN_PROTOCOL_VERSIONS)
    each = {name: answers(LATEST_HANDSHAKE_VERSION, (name,))["tools/list"]["tools"] for name in get_args(Profile)}
    text = json.dumps({**found, "tools": each}, ensure_ascii=False, indent=0, separators=(",", ":"))
    return {FILE: text + "\n"}


def answers(version: str, profiles: tuple[Profile, ...]) -> dict[str, Any]:
    """Return the results of the SDK's server in a revision, by method."""
    lines = anyio.run(asked, opening(version), profiles)
    return {method: json.loads(line)["result"] for method, line in lines.items()}


def opening(version: str) -> list[dict[str, Any]]:
    """Return what a client says first in a revision, and every list that it can ask for."""
    methods = ["ping", *LISTS]
    if version in HANDSHAKE_PROTOCOL_VERSIONS:
        more: dict[str, Any] = {}
        first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": version, **HELLO}}
        begun = [first, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    else:
        more = {"params": {"_meta": {VERSION_KEY: version, CAPABILITIES_KEY: {}}}}
        begun, methods = [], ["server/discover", *LISTS]
    return begun + [{"jsonrpc": "2.0", "id": at, "method": name, **more} for at, name in enumerate(methods, 1)]


async def asked(messages: list[dict[str, Any]], profiles: tuple[Profile, ...]) -> dict[str, str]:
    """Return the lines that the SDK's server writes for some requests, by method."""
    access = FolderAccess(MemoryConfig, Scope(user_id="ana"))
    server = build_server(tools_of(profiles), access, Consent(), has_session=True)
    told: dict[str, str] = {}
    sending, reading = anyio.create_memory_object_stream[SessionMessage | Exception](len(messages))
    writing, receiving = anyio.create_memory_object_stream[SessionMessage](len(messages))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, reading, writing, server.create_initialization_options())
        for message in messages:
            await sending.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False)))
            if "id" in message:
                answer = (await receiving.receive()).message
                told[message["method"]] = answer.model_dump_json(by_alias=True, exclude_unset=True)
        sending.close()
    receiving.close()
    return told
