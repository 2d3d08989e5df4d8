"""What tests of the engine stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.transfers import live_a_little, run


@pytest.fixture
def lived(tmp_path: Path) -> Path:
    run(tmp_path / "lived", live_a_little)
    return tmp_path / "lived"
