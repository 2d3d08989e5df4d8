"""The `milvus` store in the contract suite: Milvus Lite inside the process, and its server over TCP."""

from __future__ import annotations

import atexit
import functools
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.backends.vector_stores.milvus_server import Server
from tests.contracts.stores import Provider


@functools.cache
def server() -> Server:
    """The one server of this process."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-milvus-"))
    started = Server(folder / "data")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(started.stop)
    started.start()
    return started


def database(folder: Path) -> str:
    """The folder's own database."""
    return "d" + hashlib.sha256(str(folder).encode()).hexdigest()[:20]


def on_server(folder: Path) -> dict[str, Any]:
    return {"uri": server().uri, "db_name": database(folder)}


def in_process(folder: Path) -> dict[str, Any]:
    return {"path": str(folder / "milvus.db")}


PROVIDERS = {
    "milvus": Provider(
        "milvus",
        on_server,
        engine="Milvus Lite 3.2.2 as a server of its own (not Milvus itself)",
        server=True,
        shared=True,
        atomic=False,
        examples=12,
    ),
    "milvus-lite": Provider("milvus", in_process, engine="Milvus Lite 3.2.2", atomic=False, examples=12),
}
