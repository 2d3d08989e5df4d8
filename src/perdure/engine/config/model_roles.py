"""Roles: how a model of 001 §10 is asked: as its settings say, else as the spec says of its role (V24, V61)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.engine.config.config import LLMConfig


def asked_by_role(named: LLMConfig | None, *, max_tokens: int, temperature: float) -> Mapping[str, Any]:
    """The `max_tokens` and `temperature` of a call: the role's own, or None where the model's settings name one."""
    given = named.config if named is not None else {}
    own: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature}
    return {name: None if name in given else value for name, value in own.items()}


def seconds_of(named: LLMConfig | None) -> float | None:
    """Seconds that an answer may take: the model's `timeout` (`llm_timeout_seconds`); None where nothing names one."""
    given = named.config.get("timeout") if named is not None else None
    return float(given) if isinstance(given, (int, float)) else None
