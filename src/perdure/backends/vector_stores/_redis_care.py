"""Durability in Redis: what the server was told to keep on disk, made sure of or written anew without deleted text."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from perdure.domain.errors import VectorStoreError

_LOOK = 0.02
"""Seconds between two looks at a rewrite."""


def worries(client: Any) -> list[str]:
    """What in the server's settings puts memories at risk, a sentence each; none where it does not tell."""
    try:
        memory, kept = client.info("memory"), client.info("persistence")
    except (NoPermissionError, ResponseError):
        return []
    found = []
    if not kept.get("aof_enabled"):
        found.append("appendonly is off: rows written since its last snapshot are gone with the server")
    policy = str(memory.get("maxmemory_policy", ""))
    if memory.get("maxmemory") and policy.startswith("allkeys"):
        found.append(f"maxmemory-policy is {policy}: it may throw memories away, noeviction never does")
    return found


def sync(client: Any, key: str, timeout: float) -> None:
    """Return once everything written is on the server's disk: in its append-only file, or else in a snapshot."""
    deadline = time.monotonic() + timeout
    try:
        with client.client() as connection:  # WAITAOF waits for what its own connection has written
            connection.incr(key)
            done, _ = connection.execute_command("WAITAOF", 1, 0, int(timeout * 900))
    except ResponseError as error:
        if "appendonly" not in str(error) and "unknown command" not in str(error).lower():
            raise
        try:
            done = _rewrite(client, client.bgsave, deadline)
        except (NoPermissionError, ResponseError):
            return  # the server's operator alone decides what is kept
    if not done:
        raise VectorStoreError(f"redis: what was written was not on the server's disk within {timeout:g} s")


def scrub(client: Any, timeout: float) -> bool:
    """Write the server's files anew, without what was deleted; False where that takes longer or is not allowed."""
    deadline = time.monotonic() + timeout
    try:
        if client.info("persistence").get("aof_enabled") and not _rewrite(client, client.bgrewriteaof, deadline):
            return False
        snapshots = any(client.config_get("save").values())
        return not snapshots or _rewrite(client, client.bgsave, deadline)
    except (NoPermissionError, ResponseError):
        return False


def _rewrite(client: Any, begin: Callable[[], object], deadline: float) -> bool:
    """Whether a rewrite that began after this call has ended well; one that was under way before proves nothing."""
    while _idle(client, deadline):
        try:
            begin()
        except ResponseError as error:
            if "progress" not in str(error) and "child process" not in str(error):
                raise
            continue  # another process was faster: ours comes after it
        if not _idle(client, deadline):
            return False
        told = client.info("persistence")
        statuses = ("aof_last_bgrewrite_status", "rdb_last_bgsave_status")
        return all(told.get(status, "ok") == "ok" for status in statuses)
    return False


def _idle(client: Any, deadline: float) -> bool:
    """Whether nothing is being rewritten any more."""
    marks = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
    while time.monotonic() < deadline:
        told = client.info("persistence")
        if not any(told.get(mark) for mark in marks):
            return True
        time.sleep(_LOOK)
    return False
