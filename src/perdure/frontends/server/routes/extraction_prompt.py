"""Prompts with a caller's own instructions: mem0 adds them to what the model is told, and replaces nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.domain.clock import system_clock
from perdure.domain.message import read_messages
from perdure.domain.scope import Scope
from perdure.frontends.server.dependencies import PersonalMemory
from perdure.frontends.server.schemas.memories import AddForm
from perdure.frontends.server.schemas.scope_fields import DEFAULT_PROJECT
from perdure.frontends.server.schemas.times import read_time
from perdure.pipeline.curation.llm.extraction import circumstances
from perdure.pipeline.prompts import load


def project_of(personal: PersonalMemory) -> str:
    """The project that a caller works in."""
    return personal.walls.project_id or DEFAULT_PROJECT


async def settings_of(personal: PersonalMemory) -> dict[str, Any]:
    """What was set of the caller's project; nothing without a ledger, where memory works on."""
    await personal.engine.kernel.open()
    ledger = personal.engine.kernel.ledger
    return {} if ledger is None else await ledger.settings.get(settings_key(personal))


def settings_key(personal: PersonalMemory) -> str:
    """Build the ledger key of the settings of a caller's project."""
    return f"mem0 project {project_of(personal)}"


async def prompt_of(personal: PersonalMemory, form: AddForm, scope: Scope) -> str | None:
    """The extraction prompt of an `add`: the caller's whole, the usual one with instructions, or None for that alone.

    Instructions of the request come before the project's; those for agents hold where an agent is named and no user.
    """
    if form.prompt is not None or personal.engine.kernel.llm is None:
        return form.prompt
    lines = _instructions(form, personal.inside(scope), await settings_of(personal))
    messages = read_messages(form.messages)
    if not lines or not messages:
        return None
    usual = personal.memory.config.custom_prompts.fact_extraction
    if usual is None:
        now = system_clock() if form.timestamp is None else read_time(form.timestamp, "timestamp")
        usual = f"{load('extract')}\n\n{circumstances(messages, now)}"
    return "\n\n".join([usual, *lines])


def _instructions(form: AddForm, scope: Scope, project: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    is_agents = scope.agent_id is not None and scope.user_id is None
    names = ("agent_custom_instructions", "custom_instructions") if is_agents else ("custom_instructions",)
    chosen = next((text for name in names if (text := getattr(form, name) or project.get(name))), None)
    if chosen:
        lines.append(f"Instructions of this memory's owner:\n{chosen}")
    if form.includes:
        lines.append(f"Keep only what concerns: {form.includes}")
    if form.excludes:
        lines.append(f"Leave out what concerns: {form.excludes}")
    return lines
