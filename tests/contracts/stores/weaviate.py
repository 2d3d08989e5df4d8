"""The `weaviate` store in the contract suite: one real server for each process, a namespace for each folder."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

from tests.contracts.stores import Provider
from tests.engines.started import started
from tests.engines.weaviate import Server


def server() -> Server:
    """The process's server, which is stopped with it."""
    return started(Server)


def settings(folder: Path) -> dict[str, Any]:
    """Settings of a store that is the folder's own."""
    namespace = "t" + blake2b(str(folder).encode(), digest_size=8).hexdigest()
    return {"url": server().url, "grpc_address": server().grpc_address, "namespace": namespace}


PROVIDERS = {
    "weaviate": Provider(
        "weaviate", settings, engine="Weaviate 1.39.0", server=True, shared=True, atomic=False, examples=12
    )
}
