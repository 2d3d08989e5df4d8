"""mem0's own clients, unmodified, told to report to nobody and to keep their notes in a folder that is thrown away."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager

os.environ["MEM0_TELEMETRY"] = "False"
os.environ.setdefault("MEM0_DIR", tempfile.mkdtemp(prefix="mem0-"))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from mem0 import AsyncMemoryClient, MemoryClient
    from mem0 import exceptions as mem0_errors
    from mem0.client import types as mem0_types


@contextmanager
def mem0_client(url: str, api_key: str = "any") -> Iterator[MemoryClient]:
    """A client of a server, closed at the end: mem0's own never is."""
    client = MemoryClient(api_key=api_key, host=url)
    with closing(client.client):
        yield client


__all__ = ["AsyncMemoryClient", "MemoryClient", "mem0_client", "mem0_errors", "mem0_types"]
