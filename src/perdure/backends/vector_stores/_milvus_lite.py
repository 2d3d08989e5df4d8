"""Milvus Lite inside this process, on a path of one's own."""

from __future__ import annotations

import atexit
from pathlib import Path

from milvus_lite.adapter.grpc.server import start_server_in_thread  # type: ignore[import-untyped]  # it has no types
from milvus_lite.exceptions import DataDirLockedError  # type: ignore[import-untyped]  # it has no types

from perdure.domain.errors import VectorStoreError


class Lite:
    """A running Milvus Lite; it listens on a free port of the loopback address, as it always does.

    It is asked by one thread at a time: Milvus Lite has no defence against two that write one collection.
    """

    def __init__(self, path: Path) -> None:
        if path.is_file():
            raise VectorStoreError(
                f"{path} is a file, and Milvus Lite 3 keeps a folder: one that Milvus Lite 2 wrote cannot be read"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._server, self._database, port = start_server_in_thread(str(path), max_workers=1)
        except DataDirLockedError:
            raise VectorStoreError(
                f"{path} is open already, and Milvus Lite's folder is for one at a time: start a server "
                "(milvus-lite server) and give its address as vector_store.config.uri to share it"
            ) from None
        except OSError as error:
            raise VectorStoreError(f"Milvus Lite cannot use {path}: {error.strerror or error}") from None
        self.uri = f"http://127.0.0.1:{port}"
        atexit.register(self.stop)

    def stop(self) -> None:
        """Answer what is under way, and let go of the folder."""
        atexit.unregister(self.stop)
        self._server.stop(None).wait()
        self._database.close()
