"""The servers that most tests ask."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.frontends.server.probes import probes
from tests.frontends.server.running import SECRET, Running, running
from tests.frontends.server.teams import Team

if TYPE_CHECKING:
    from mem0 import MemoryClient


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    """A server over a fresh folder; indirect parameters are arguments of `running`."""
    with running(tmp_path / "memory", **getattr(request, "param", {})) as found:
        yield found


@pytest.fixture
def probed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    """The same, with the tests' own routes, and a secret by which it knows tokens."""
    given = {"env": {"PERDURE_JWT_SECRET": SECRET}, **getattr(request, "param", {})}
    with running(tmp_path / "memory", routes=probes(), **given) as found:
        yield found


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for all tests of a module; its SERVER are arguments of `running`."""
    with running(tmp_path_factory.mktemp("memory"), **getattr(request.module, "SERVER", {})) as found:
        yield found


@pytest.fixture
def who() -> str:
    """A user of a test's own, on a server that it shares."""
    return f"user-{uuid.uuid4()}"


@pytest.fixture
def team(shared: Running) -> Team:
    """A team of a test's own, likewise; the server needs the SECRET."""
    return Team(shared)


@pytest.fixture(scope="module")
def client(shared: Running) -> Iterator[MemoryClient]:
    """mem0's own client of the shared server."""
    from tests.frontends.server.mem0.clients import mem0_client  # mem0 takes seconds to import

    with mem0_client(shared.url) as found:
        yield found
