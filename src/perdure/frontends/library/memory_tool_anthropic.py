"""The memory tool for the `anthropic` package's tool runners; the only module that needs the package for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from perdure.backends.registry import missing_driver
from perdure.domain.message import ToolAnswer

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ImportError as error:
    raise missing_driver("anthropic", error) from error


def sync_tool(answer: Callable[[Mapping[str, Any]], ToolAnswer]) -> BetaAbstractMemoryTool:
    """Return the tool for a synchronous client's runner."""
    return _Tool(answer)


def async_tool(answer: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]) -> BetaAsyncAbstractMemoryTool:
    """Return the tool for an asynchronous client's runner."""
    return _AsyncTool(answer)


def _told(answer: ToolAnswer) -> str:
    """Return an answer's text; raise an error as the runner's own type, which marks it for the model."""
    if answer.is_error:
        raise ToolError(answer.text)
    return answer.text


def _given(input: object) -> Mapping[str, Any]:
    return input if isinstance(input, Mapping) else {}


class _Tool(BetaAbstractMemoryTool):
    def __init__(self, answer: Callable[[Mapping[str, Any]], ToolAnswer]) -> None:
        super().__init__()
        self._answer = answer

    def call(self, input: object) -> str:
        return _told(self._answer(_given(input)))

    def execute(self, command: Any) -> str:
        return self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = execute


class _AsyncTool(BetaAsyncAbstractMemoryTool):
    def __init__(self, answer: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]) -> None:
        super().__init__()
        self._answer = answer

    async def call(self, input: object) -> str:
        return _told(await self._answer(_given(input)))

    async def execute(self, command: Any) -> str:
        return await self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = execute
