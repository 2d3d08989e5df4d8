"""Tool: the declaration of one tool, its schemas, and the call that its handler is given."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args

import mcp_types as types
from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from perdure.domain.errors import ConfigError
from perdure.frontends.mcp import Profile
from perdure.frontends.mcp.consent import (
    Act,
    CallerAccess,
    Consent,
    Decision,
    RequestContext,
    ask_now,
    asks_by_answer,
    can_ask,
    is_yes,
    question,
    reply_of,
)

if TYPE_CHECKING:
    from perdure.domain.memory import MemoryItem
    from perdure.frontends.library.memory import AsyncMemory
    from perdure.frontends.library.team import AsyncTeamMemory


class Arguments(BaseModel):
    """Arguments of a tool; unknown ones are rejected, which catches typos and scopes that a model makes up."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolAnswer(BaseModel):
    """Answer of a tool; fields without a value are left out."""

    model_config = ConfigDict(frozen=True)

    def plain(self) -> dict[str, Any]:
        """Return the answer as plain JSON values."""
        return self.model_dump(mode="json", exclude_none=True)

    def as_text(self) -> str:
        """Return the answer as text, for clients that do not read structured content."""
        return json.dumps(self.plain(), ensure_ascii=False, separators=(",", ":"))


class _Compact(GenerateJsonSchema):
    """Leaves out titles, the null of optional fields, and defaults of null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if found.get("default", 0) is None:
            del found["default"]
        return found

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, with nested models written out where they are used."""
    found = model.model_json_schema(schema_generator=_Compact)
    parts = found.pop("$defs", {})
    resolved = _resolved(found, parts)
    assert isinstance(resolved, dict), "the schema of a model is an object"
    return resolved


def _resolved(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_resolved(each, parts) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _resolved(parts[value["$ref"].rpartition("/")[2]], parts)
    is_model = value.get("type") == "object" and "properties" in value
    left_out = ("title", "description") if is_model else ()
    return {key: _resolved(each, parts) for key, each in value.items() if key not in left_out or isinstance(each, dict)}


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

    async def decide(
        self, act: Act, items: Sequence[MemoryItem], confirm: str | None, *, note: str = ""
    ) -> Decision | types.InputRequiredResult:
        """Return the person's decision about an act, or the question that the client must put to them first.

        `confirm` is the handle that the call carries, if it carries one; `note` ends the question.
        """
        if confirm is not None:
            return Decision.YES if self.consent.fits(confirm, act, self.access.caller, items) else Decision.MISMATCH
        reply, state = reply_of(self.params, act), self.params.request_state or ""
        if reply is not None and self.consent.fits(state, act, self.access.caller, items):
            return Decision.YES if is_yes(reply, act) else Decision.NO
        if not can_ask(self.context):
            return Decision.UNASKED
        form = question(act, items, note)
        if asks_by_answer(self.context):
            return types.InputRequiredResult(
                input_requests={act.name: types.ElicitRequest(params=form)},
                request_state=self.consent.handle(act, self.access.caller, items),
            )
        return Decision.YES if await ask_now(self.context, form, act) else Decision.NO


@dataclass(frozen=True, slots=True)
class TeamCall:
    """One call of a team's tool, for its handler."""

    team: AsyncTeamMemory


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
    run: Callable[[Any, Any], Awaitable[Answer]]
    reads: bool = False
    """Changes nothing, so readers may call it."""
    destroys: bool = False
    of_team: bool = False
    """Is about a team's memory: its handler is given a TeamCall."""
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


def tools_of(names: Sequence[str]) -> tuple[Tool, ...]:
    """Return the tools of profiles, in the order of `Profile`; ConfigError for an unknown name, or a tool name twice.

    A profile's module is imported only if it is asked for: clients do not wait for a server.
    """
    known = get_args(Profile)
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no profile {name!r}; there is {', '.join(known)}", field="profile", value=name)
    modules = [import_module(f"{__package__}.{name.replace('-', '_')}") for name in known if name in names]
    tools = tuple(tool for module in modules for tool in module.TOOLS)
    counts = Counter(tool.name for tool in tools)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise ConfigError(
            f"two of the profiles {', '.join(names)} have a tool {twice[0]!r}: serve them apart", field="profile"
        )
    return tools
