"""What tests of the engine stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Memory
from perdure.engine.graph import jobs
from tests.engine.graph.worlds import FaultyGraph
from tests.engine.team.teams import Join, joining
from tests.engine.transfer.transfers import live_a_little, run


@pytest.fixture
def lived(tmp_path: Path) -> Path:
    run(tmp_path / "lived", live_a_little)
    return tmp_path / "lived"


@pytest.fixture
def join(quick: Memory) -> Join:
    """Makes members of teams over one memory."""
    return joining(quick)


@pytest.fixture
def mended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The graph that fails on command is well before and after, and a job that failed is soon tried again."""
    FaultyGraph.mend()
    monkeypatch.setattr(jobs, "FIRST_PAUSE", 0.02)
    yield
    FaultyGraph.mend()
