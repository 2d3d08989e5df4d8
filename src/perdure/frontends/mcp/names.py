"""The names of the profiles: settings and options use them, and do not import the tools."""

from __future__ import annotations

from typing import Literal

Profile = Literal["core"]
"""A set of tools that a server offers together."""
DEFAULT: tuple[Profile, ...] = ("core",)
