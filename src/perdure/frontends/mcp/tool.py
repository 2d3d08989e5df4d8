"""Tool: the declaration of one tool, and what its handler is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import mcp_types as types

from perdure.frontends.mcp.schema import Arguments, ToolAnswer, schema_of

if TYPE_CHECKING:
    from perdure.frontends.library.memory import AsyncMemory
    from perdure.frontends.mcp.access import CallerAccess, RequestContext
    from perdure.frontends.mcp.consent import Consent


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call, for a tool's handler."""

    access: CallerAccess
    context: RequestContext
    params: types.CallToolRequestParams
    consent: Consent

    @property
    def memory(self) -> AsyncMemory:
        """The memory, limited to the caller's scope."""
        return self.access.memory

    @property
    def client(self) -> str | None:
        """The name that the client gave itself, such as `claude-code`."""
        told = self.context.session.client_params
        return told.client_info.name if told is not None and told.client_info is not None else None


Answer = ToolAnswer | types.InputRequiredResult
"""A handler's answer: the result, or a question to the person, after which the client calls again."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool: its name, its text for the model, its arguments, its answer, and the function that runs it."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    answer: type[ToolAnswer]
    run: Callable[[ToolCall, Any], Awaitable[Answer]]
    reads: bool = False
    """Changes nothing, so readers may call it."""
    destroys: bool = False
    repeatable: bool = field(default=False)
    """Calling it again with the same arguments changes nothing more."""

    @cached_property
    def declaration(self) -> types.Tool:
        """The tool as clients see it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema_of(self.arguments),
            output_schema=schema_of(self.answer),
            annotations=types.ToolAnnotations(
                read_only_hint=self.reads,
                destructive_hint=self.destroys,
                idempotent_hint=self.reads or self.repeatable,
                open_world_hint=False,
            ),
        )
