"""Overrides: the memory options of one request, in its body or, for clients that cannot change it, in headers.

Body: `memory_id, memory_top_k, memory_recency_weight, memory_score_threshold`, `memory_config, memory_context`.
Headers, which the body overrides: x-memory-id, x-memory-top-k, x-memory-score-threshold, x-memory-recency-weight,
x-memory-enabled, x-memory-auto-store, x-memory-types, x-memory-project-id; and x-disable-router-memory, which nothing
overrides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers

from perdure.domain.errors import InvalidInputError
from perdure.domain.text.readable import utf8_of
from perdure.engine.chat.settings import GatewaySettings

FIELDS = frozenset(
    {"memory_id", "memory_top_k", "memory_recency_weight", "memory_score_threshold", "memory_config", "memory_context"}
)
"""The gateway's own fields of a body, which are never forwarded."""
MOST_MEMORIES = 100  # maximum memories that one request may ask for
_CONFIG = ("enabled", "memory_types", "retrieval_limit", "similarity_threshold", "auto_store")
_YES = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """The options of a request; None if not given."""

    opted_out: bool = False  # from `x-disable-router-memory: true`
    enabled: bool | None = None
    auto_store: bool | None = None
    limit: int | None = None  # maximum memories; 0 recalls nothing and still stores the turn
    threshold: float | None = None
    recency_weight: float | None = None
    types: tuple[str, ...] = ()
    memory_id: str | None = None
    user_id: str | None = None  # from `memory_context`
    project_id: str | None = None

    def stores(self, settings: GatewaySettings) -> bool:
        """Whether the turn is stored; the request overrides the settings."""
        return settings.auto_store if self.auto_store is None else self.auto_store


def read_overrides(headers: Headers, body: Mapping[str, Any]) -> Overrides:
    """Read the memory options of a request; InvalidInputError names a wrong field or header."""
    config = _object(body, "memory_config")
    context = _object(body, "memory_context")
    limit = _first(
        _count(body.get("memory_top_k"), "memory_top_k"),
        _count(config.get("retrieval_limit"), "memory_config.retrieval_limit"),
        _count(_header_number(headers, "x-memory-top-k"), "x-memory-top-k"),
    )
    return Overrides(
        opted_out=_flag(headers.get("x-disable-router-memory"), "x-disable-router-memory") or False,
        enabled=_first(
            _bool(config.get("enabled"), "memory_config.enabled"),
            _flag(headers.get("x-memory-enabled"), "x-memory-enabled"),
        ),
        auto_store=_first(
            _bool(config.get("auto_store"), "memory_config.auto_store"),
            _flag(headers.get("x-memory-auto-store"), "x-memory-auto-store"),
        ),
        limit=limit,
        threshold=_first(
            _share(body.get("memory_score_threshold"), "memory_score_threshold"),
            _share(config.get("similarity_threshold"), "memory_config.similarity_threshold"),
            _share(_header_number(headers, "x-memory-score-threshold"), "x-memory-score-threshold"),
        ),
        recency_weight=_first(
            _share(body.get("memory_recency_weight"), "memory_recency_weight"),
            _share(_header_number(headers, "x-memory-recency-weight"), "x-memory-recency-weight"),
        ),
        types=_types(config.get("memory_types"), headers),
        memory_id=_text(body.get("memory_id"), "memory_id")
        or utf8_of(headers.get("x-memory-id", ""), "x-memory-id")
        or None,
        user_id=_text(context.get("user_id"), "memory_context.user_id"),
        project_id=_text(context.get("project_id"), "memory_context.project_id")
        or utf8_of(headers.get("x-memory-project-id", ""), "x-memory-project-id")
        or None,
    )


def without_ours(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body for upstream, without the gateway's own fields."""
    return {name: value for name, value in body.items() if name not in FIELDS}


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _wrong(field: str, wanted: str, value: object) -> InvalidInputError:
    return InvalidInputError(f"{field} must be {wanted}", field=field, value=value)


def _object(body: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = body.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(field, "an object", value)
    unknown = [name for name in value if field == "memory_config" and name not in _CONFIG]
    if unknown:
        raise InvalidInputError(f"{field} takes {', '.join(_CONFIG)}, and nothing else", field=field, value=unknown[0])
    return value


def _number(value: object, field: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise _wrong(field, "a number", value)
    return value


def _count(value: object, field: str) -> int | None:
    number = _number(value, field)
    if number is None:
        return None
    if number > MOST_MEMORIES or math.isinf(number) or number != int(number):
        raise _wrong(field, f"a whole number of {MOST_MEMORIES} at most", value)
    return max(0, int(number))


def _share(value: object, field: str) -> float | None:
    number = _number(value, field)
    if number is not None and not 0 <= number <= 1:
        raise _wrong(field, "from 0 to 1", value)
    return number


def _header_number(headers: Headers, name: str) -> float | None:
    value = headers.get(name, "").strip()
    if not value:
        return None
    try:
        return float(value)
    except ValueError:
        raise _wrong(name, "a number", value) from None


def _flag(value: str | None, field: str) -> bool | None:
    if value is None or not value.strip():
        return None
    found = _YES.get(value.strip().lower())
    if found is None:
        raise _wrong(field, "true or false", value)
    return found


def _bool(value: object, field: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise _wrong(field, "true or false", value)
    return value


def _text(value: object, field: str) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise _wrong(field, "text", value)
    return value


def _types(value: object, headers: Headers) -> tuple[str, ...]:
    if value is None:
        told = utf8_of(headers.get("x-memory-types", ""), "x-memory-types")
        return tuple(name for each in told.split(",") if (name := each.strip()))
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise _wrong("memory_config.memory_types", "a list of types", value)
    return tuple(value)
