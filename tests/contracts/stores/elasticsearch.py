"""The `elasticsearch` store in the contract suite: one real server, and a prefix of index names for each folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from tests.contracts.stores import Provider
from tests.engines.elasticsearch import Server
from tests.engines.started import started

MEMORY = Path("/dev/shm")
"""Where the data lies if it exists: to make an index takes a dozen syncs of a disk, and each test makes one."""


def server() -> Server:
    """The process's server, which ends with the process; the test is skipped where there can be none."""
    return started(Server, MEMORY if os.access(MEMORY, os.W_OK) else None)


def settings(folder: Path) -> dict[str, Any]:
    """A store of the folder's own on the server."""
    name = hashlib.blake2b(str(folder).encode(), digest_size=8).hexdigest()
    return {"url": server().url, "prefix": f"t{name}"}


PROVIDERS = {
    "elasticsearch": Provider(
        "elasticsearch", settings, engine="Elasticsearch 8.19.21", server=True, shared=True, atomic=False, examples=12
    )
}
