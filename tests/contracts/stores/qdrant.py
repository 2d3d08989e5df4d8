"""The `qdrant` store in the contract suite: over REST, and embedded in a folder."""

import atexit
import shutil
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.contracts.stores import Provider
from tests.engines.qdrant import Server


@cache
def server() -> Server:
    """The server that a worker process shares; started with the first call."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="qdrant-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found = Server(folder)
    found.start()
    atexit.register(found.stop)
    return found


def served(folder: Path) -> dict[str, Any]:
    """Settings of a store of the folder's own on the shared server."""
    return {"url": server().url, "prefix": sha256(str(folder).encode()).hexdigest()[:12] + "-"}


def _embedded(folder: Path) -> dict[str, Any]:
    return {"path": str(folder / "qdrant")}


PROVIDERS = {
    "qdrant": Provider(
        "qdrant",
        served,
        engine="Qdrant's engine (edge 0.9) behind a REST layer of ours (not its server)",
        server=True,
        shared=True,
        atomic=False,
        examples=12,
    ),
    "qdrant-path": Provider("qdrant", _embedded, engine="Qdrant's engine (edge 0.9)", atomic=False, examples=12),
}
