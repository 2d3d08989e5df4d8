"""Memory for clients of the Model Context Protocol. The profiles' names are here: settings and options use them, and do
not import the tools."""

from __future__ import annotations

from typing import Literal

Profile = Literal["core", "graph", "review", "team", "chatgpt", "mem0", "knowledge-graph"]
"""A set of tools that a server offers together."""
DEFAULT: tuple[Profile, ...] = ("core",)
