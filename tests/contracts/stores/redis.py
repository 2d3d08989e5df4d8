"""Redis by both of its ways: the Search module with a VECTOR field, and vector sets; each folder has a prefix."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

from tests.contracts.stores import Provider
from tests.engines.redis import Server
from tests.engines.started import started


def server() -> Server:
    """The server of this process, started with the first call; it has the Search module and vector sets."""
    return started(Server)


def settings(mode: str, folder: Path) -> dict[str, Any]:
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return {"url": server().url(), "prefix": f"test-{digest}", "mode": mode}


PROVIDERS = {
    "redis": Provider(
        "redis",
        functools.partial(settings, "search"),
        engine="Redis 8.2.3 with RediSearch 2.10.5",
        server=True,
        shared=True,
        examples=12,
    ),
    "redis-vectorset": Provider(
        "redis",
        functools.partial(settings, "vectorset"),
        engine="Redis 8.2.3, vector sets",
        server=True,
        shared=True,
        examples=12,
    ),
}
