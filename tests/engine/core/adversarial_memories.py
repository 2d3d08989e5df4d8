"""What the adversarial tests share."""

from __future__ import annotations

from typing import Any

from perdure import Memory

ANA = {"user_id": "ana"}
HASHED = {"provider": "hashed"}


def texts(memory: Memory, **scope: Any) -> list[str]:
    return [item.memory for item in memory.get_all(limit=10_000, **(scope or ANA)).results]
