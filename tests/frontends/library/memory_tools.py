"""Memory tools over real memories, as agents and their tests use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perdure import Memory, MemoryTool

ANA = {"user_id": "ana"}


def opened(path: Path, provider: str = "sqlite", **more: Any) -> Memory:
    """A memory in a folder, on this vector store."""
    config = {"path": str(path), "vector_store": {"provider": provider}, "embedder": {"provider": "hashed"}}
    return Memory({**config, **more})


def do(tool: MemoryTool, command: str, path: str | None = None, **given: Any) -> str:
    """The answer to a command that is carried out."""
    answer = tool.answer({"command": command, **({} if path is None else {"path": path}), **given})
    assert not answer.is_error, answer.text
    return answer.text


def refused(tool: MemoryTool, command: str, path: object = None, **given: Any) -> str:
    """The answer to a command that is not, and that changes nothing."""
    before = paths(tool)
    answer = tool.answer({"command": command, **({} if path is None else {"path": path}), **given})
    assert answer.is_error, answer.text
    assert paths(tool) == before
    return answer.text


def paths(tool: MemoryTool, folder: str = "/memories") -> list[str]:
    """What a listing names, without the sizes and the folder itself."""
    return [line.partition("\t")[2] for line in do(tool, "view", folder).splitlines()[2:]]


def text_of(tool: MemoryTool, path: str) -> str:
    """A file's text, as it is shown."""
    shown = do(tool, "view", path).splitlines()[1:]
    return "\n".join(line.partition("\t")[2] for line in shown if "\t" in line)


def fact(tool: MemoryTool, words: str) -> str:
    """The path of the fact that holds these words."""
    return next(path for path in paths(tool, "/memories/facts") if words in text_of(tool, path))
