"""The `azure_ai_search` store in the contract suite: a strict fake of the service, and a prefix for each folder."""

from __future__ import annotations

import atexit
import functools
import hashlib
from pathlib import Path
from typing import Any

from tests.contracts.stores import Provider
from tests.engines.azure_ai_search import KEY
from tests.engines.service import Process


@functools.cache
def service() -> Process:
    """The process's service; it ends with the process."""
    running = Process("tests.engines.azure_ai_search")
    atexit.register(running.stop)
    return running


def settings(folder: Path) -> dict[str, Any]:
    """A store of the folder's own on the service."""
    name = hashlib.blake2b(str(folder).encode(), digest_size=8).hexdigest()
    return {"endpoint": service().address, "api_key": KEY, "prefix": f"t{name}", "retry_delay": 0.01}


PROVIDERS = {
    "azure_ai_search": Provider(
        "azure_ai_search",
        settings,
        engine="a strict fake of the service, version 2026-04-01",
        server=True,
        shared=True,
        atomic=False,
        examples=12,
    )
}
