"""The memory tool under the `anthropic` package's own tool runners, against a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types.beta import BetaMemoryTool20250818CreateCommand

from perdure import AsyncMemory, AsyncMemoryTool, Memory, MemoryTool
from tests.backends.wire.anthropic import KEY, AnthropicWire
from tests.backends.wire.server import Heard, Reply
from tests.frontends.library.memory_tools import ANA, opened, text_of

PLAN = "/memories/plan.md"
COMMANDS: list[dict[str, Any]] = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": PLAN, "file_text": "- buy paint\n"},
    {"command": "create", "path": PLAN, "file_text": "again"},
    {"command": "str_replace", "path": PLAN, "old_str": "paint", "new_str": "brushes"},
    {"command": "insert", "path": PLAN, "insert_line": 0, "insert_text": "# Plan"},
    {"command": "view", "path": PLAN, "view_range": [1, 2]},
    {"command": "rename", "old_path": PLAN, "new_path": "/memories/old.md"},
    {"command": "view", "path": "/memories/../secret"},
    {"command": "view"},
    {"command": "delete", "path": "/memories/old.md"},
    {"command": "format"},
]
EXPECTED = [
    ("up to 2 levels deep in /memories", False),
    (f"File created successfully at: {PLAN}", False),
    (f"Error: File {PLAN} already exists", True),
    ("     1\t- buy brushes", False),
    (f"The file {PLAN} has been edited.", False),
    ("     1\t# Plan\n     2\t- buy brushes", False),
    (f"Successfully renamed {PLAN} to /memories/old.md", False),
    ("would escape /memories directory", True),
    ("Missing required parameter: path", True),
    ("Successfully deleted /memories/old.md", False),
    ("Unknown command", True),
]


class MemoryWire(AnthropicWire):
    """The service as it takes its own memory tool: by type and name, without a schema."""

    def respond(self, request: Heard) -> Reply:
        body = json.loads(request.body)
        assert body["tools"] == [{"type": "memory_20250818", "name": "memory"}]
        rest = json.dumps({name: value for name, value in body.items() if name != "tools"})
        return super().respond(replace(request, body=rest.encode()))


@pytest.fixture
def service() -> Iterator[AnthropicWire]:
    calls = [{"tool_calls": [{"name": "memory", "arguments": command}]} for command in COMMANDS]
    with MemoryWire(*calls, {"text": "done"}) as server:
        yield server


def results(server: AnthropicWire) -> list[tuple[str, bool]]:
    """What the model was answered, in order, and whether as an error."""
    said = json.loads(server.heard[-1].body)["messages"]
    blocks = [block for message in said if message["role"] == "user" for block in message["content"]]
    found = [block for block in blocks if isinstance(block, dict) and block["type"] == "tool_result"]
    return [(block["content"], block.get("is_error", False)) for block in found]


def check(server: AnthropicWire) -> None:
    told = results(server)
    assert [is_error for _, is_error in told] == [is_error for _, is_error in EXPECTED]
    for (text, _), (part, _) in zip(told, EXPECTED, strict=True):
        assert part in text


@pytest.mark.parametrize("provider", ["sqlite", "markdown"])
def test_i8_the_sdks_runner_carries_commands_out(tmp_path: Path, service: AnthropicWire, provider: str) -> None:
    client = Anthropic(api_key=KEY, base_url=service.address, max_retries=0)
    with opened(tmp_path, provider) as memory, client:
        memory.add("I live in Oslo.", **ANA)
        runner = client.beta.messages.tool_runner(
            model="claude-sonnet-5-5",
            max_tokens=500,
            max_iterations=len(COMMANDS) + 1,
            messages=[{"role": "user", "content": "Plan my week."}],
            thread=False,  # each request holds the whole conversation
            tools=[MemoryTool(memory, **ANA).for_anthropic()],
        )
        assert runner.until_done().content[0].text == "done"
        check(service)


async def work(path: Path, address: str) -> None:
    memory = AsyncMemory({"path": str(path), "embedder": {"provider": "hashed"}})
    async with AsyncAnthropic(api_key=KEY, base_url=address, max_retries=0) as client:
        runner = client.beta.messages.tool_runner(
            model="claude-sonnet-5-5",
            max_tokens=500,
            max_iterations=len(COMMANDS) + 1,
            messages=[{"role": "user", "content": "Plan my week."}],
            thread=False,  # each request holds the whole conversation
            tools=[AsyncMemoryTool(memory, **ANA).for_anthropic()],
        )
        assert (await runner.until_done()).content[0].text == "done"
    await memory.close()


def test_i8_the_sdks_asynchronous_runner_too(tmp_path: Path, service: AnthropicWire) -> None:
    asyncio.run(work(tmp_path, service.address))
    check(service)


def test_i8_the_sdks_own_commands_are_taken(quick: Memory) -> None:
    tool = MemoryTool(quick, **ANA)
    given = BetaMemoryTool20250818CreateCommand(command="create", path=PLAN, file_text="x")
    assert "successfully" in str(tool.for_anthropic().create(given))
    assert text_of(tool, PLAN) == "x"
    assert tool.for_anthropic().to_dict() == tool.definition()
