"""Ids that encode what they stand for: an `add`, a deletion, an export.

The server looks up what an id names within the caller's scope, so that a guessed id gives no access. No table is
needed, so that every replica can answer.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from perdure.domain.scope import SCOPE_FIELDS, Scope

ADD = "ADD"
DELETE_ALL = "DELETE_ALL"
MAX_LENGTH = 16_000
"""Characters of an id that is read."""


def seal(kind: str, **values: Any) -> str:
    """The id of a thing of some kind."""
    text = json.dumps([kind, values], separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def unseal(id: str) -> tuple[str, dict[str, Any]] | None:
    """The kind and the values of an id, or None for what is no such id."""
    if len(id) > MAX_LENGTH:
        return None
    try:
        kind, values = json.loads(base64.b64decode(id + "=" * (-len(id) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        return None
    return (kind, values) if isinstance(kind, str) and isinstance(values, dict) else None


def scope_of(value: object) -> Scope:
    """The scope in an id; InvalidInputError for what is none."""
    if not isinstance(value, dict):
        return Scope()
    return Scope(**{name: value[name] for name in SCOPE_FIELDS if name in value})


def addition_id(key: str, scope: Scope) -> str:
    """The id of the event that an `add` is."""
    return seal(ADD, key=key, scope=scope.given())


def deletion_id(scope: Scope) -> str:
    """The id of the event that the deletion of a scope is, once it has been done."""
    return seal(DELETE_ALL, scope=scope.given())
