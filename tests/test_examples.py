"""The examples run as a user runs them, and print what they are there to show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SHOWN = {
    "quickstart.py": ["Porto", "allergic to nuts", "Rita plays the cello"],
    "time_travel.py": ["ADD: User's budget", "is 1200 euros", "undone: User's budget for the trip is 900 euros"],
    "prompt_context.py": ["vegetarian", "Noa", "one sentence"],
}


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_an_example_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    home = {**os.environ, "HOME": str(tmp_path)}
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=home, check=False)
    assert done.returncode == 0, done.stderr
    assert [each for each in SHOWN[name] if each not in done.stdout] == []
    assert list(tmp_path.rglob("*.db")) == [], "nothing is left behind"
