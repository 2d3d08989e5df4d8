"""The synchronous library is what tools/generate_sync.py makes of the asynchronous one."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import perdure

GENERATOR = Path(__file__).parents[3] / "tools" / "generate_sync.py"


def test_the_synchronous_modules_are_up_to_date() -> None:
    checked = subprocess.run([sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("name", ["Memory", "MemoryStore", "MemoryTool", "TeamMemory"])
def test_a_synchronous_class_has_the_methods_of_the_asynchronous_one(name: str) -> None:
    sync, asynchronous = getattr(perdure, name), getattr(perdure, f"Async{name}")
    public = {each for each in dir(asynchronous) if not each.startswith("_")}
    assert {each for each in dir(sync) if not each.startswith("_")} == public
    for each in public:
        if inspect.isfunction(getattr(sync, each)):
            ours = inspect.signature(getattr(sync, each)).parameters.values()
            theirs = inspect.signature(getattr(asynchronous, each)).parameters.values()
            assert [(one.name, one.kind, one.default) for one in ours] == [
                (one.name, one.kind, one.default) for one in theirs
            ]
            assert not inspect.iscoroutinefunction(getattr(sync, each))
