"""Ids that say by themselves what they are of: of an `add`, a deletion, an export.

What they name is looked up inside of the walls of whoever shows one, so that knowing or inventing an id opens nothing;
and it needs no table, so that any replica answers for any other.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from perdure.domain.scope import SCOPE_FIELDS, Scope

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
