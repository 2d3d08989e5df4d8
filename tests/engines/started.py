"""The servers that a test process starts once, for all of its tests."""

from __future__ import annotations

import atexit
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

from tests.engines.programs import Unavailable


class Server(Protocol):
    def start(self) -> None: ...

    def kill(self) -> None: ...


S = TypeVar("S", bound=Server)


def started(make: Callable[[Path], S], within: Path | None = None) -> S:
    """The process's server, which ends with the process; the test is skipped where there can be none.

    Its data lies in a folder of its own, inside of the one that is given.
    """
    found = _started(make, within)
    if isinstance(found, Unavailable):
        pytest.skip(str(found))
    return found


@functools.cache
def _started(make: Callable[[Path], S], within: Path | None) -> S | Unavailable:
    folder = tempfile.TemporaryDirectory(prefix="perdure-engine-", dir=within)
    atexit.register(folder.cleanup)
    try:
        server = make(Path(folder.name))
        server.start()
    except Unavailable as error:
        return error  # it takes long to find out, so it is asked once
    atexit.register(server.kill)
    return server
