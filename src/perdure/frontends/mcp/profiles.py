"""Profiles: named sets of tools, which a server offers together."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.errors import ConfigError
from perdure.frontends.mcp import core, erasure
from perdure.frontends.mcp.names import Profile
from perdure.frontends.mcp.tool import Tool

PROFILES: dict[Profile, tuple[Tool, ...]] = {
    "core": (
        core.RECALL,
        core.REMEMBER,
        core.LEARN,
        core.CORRECT,
        erasure.FORGET,
        core.UNDO,
        core.HISTORY,
        core.CONTEXT,
    ),
}


def tools_of(names: Sequence[str]) -> tuple[Tool, ...]:
    """Return the tools of profiles, in the order of the table; ConfigError for an unknown name."""
    for name in names:
        if name not in PROFILES:
            raise ConfigError(
                f"there is no profile {name!r}; there is {', '.join(PROFILES)}", field="profile", value=name
            )
    return tuple(tool for name, tools in PROFILES.items() if name in names for tool in tools)
