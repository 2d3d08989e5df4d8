"""The `pgvector` store in the contract suite: each folder is a schema of one server, which starts on first use."""

from __future__ import annotations

import atexit
import functools
from hashlib import md5
from pathlib import Path
from typing import Any

from tests.contracts.ledgers.ledger_postgres import Server, new_server
from tests.contracts.stores import Provider


@functools.cache
def server() -> Server:
    """The server of this process, until it ends."""
    started = new_server()
    atexit.register(started.remove)
    return started


def settings(folder: Path) -> dict[str, Any]:
    """A schema of the folder's own."""
    schema = f"t_{md5(str(folder).encode()).hexdigest()[:20]}"
    return {"connection_string": server().url(), "schema": schema, "pool_size": 4}


PROVIDERS = {
    "pgvector": Provider(
        "pgvector", settings, engine="PostgreSQL 18.4 with pgvector 0.8.5", server=True, shared=True, examples=12
    )
}
