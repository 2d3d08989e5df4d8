"""The `pinecone` store in the contract suite: a strict fake of the service, and namespaces of each folder's own."""

from __future__ import annotations

import atexit
import functools
import hashlib
from pathlib import Path
from typing import Any

from tests.contracts.stores import Provider
from tests.engines.pinecone import KEY
from tests.engines.service import Process


@functools.cache
def service() -> Process:
    """The process's service; it ends with the process."""
    running = Process("tests.engines.pinecone")
    atexit.register(running.stop)
    return running


def settings(folder: Path) -> dict[str, Any]:
    """A store of the folder's own in the project."""
    name = hashlib.blake2b(str(folder).encode(), digest_size=8).hexdigest()
    return {"base_url": service().address, "api_key": KEY, "namespace": f"t{name}", "retry_delay": 0.01}


PROVIDERS = {
    "pinecone": Provider(
        "pinecone",
        settings,
        engine="a strict fake of the service, version 2026-07",
        server=True,
        shared=True,
        atomic=False,
        longest=700,
        examples=12,
    )
}
