"""The `cached` store in the contract suite, over a `sqlite` one: with a cache in process, and with one on Redis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.contracts.stores import Provider
from tests.contracts.stores.redis import server


def settings(folder: Path, cache: dict[str, Any]) -> dict[str, Any]:
    return {"store": {"provider": "sqlite", "config": {"path": str(folder / "memories.db")}}, "cache": cache}


def on_redis(folder: Path) -> dict[str, Any]:
    return settings(folder, {"provider": "redis", "config": {"url": server().url(), "timeout": 5}})


PROVIDERS = {
    "cached": Provider(
        "cached",
        lambda folder: settings(folder, {"provider": "memory"}),
        engine="SQLite behind a cache in process",
        examples=12,
    ),
    "cached-redis": Provider(
        "cached", on_redis, engine="SQLite behind Redis 8.2.3", server=True, shared=True, examples=12
    ),
}
