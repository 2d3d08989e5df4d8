"""The command line: what a command loads is what it needs, for loading is most of what a person waits for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.frontends.cli_runs import folder

PROBE = """
import sys
from perdure.frontends.cli.main import main
status = main(sys.argv[1:])
print(*sorted(sys.modules))
sys.exit(status)
"""


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a process has loaded once it has done a command."""
    done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("command", [("list",), ("search", "where does she live?")], ids=["list", "search"])
def test_what_only_looks_loads_nothing_that_reads_messages(tmp_path: Path, command: tuple[str, ...]) -> None:
    at = folder(tmp_path / "memory")
    at.said("Ana lives in Lisbon")
    loaded = loaded_by(*command, "--user-id", "ana", "--path", str(at.path))
    assert "perdure.pipeline.extraction" in loaded, "its door alone"
    heavy = {"pipeline.extraction.flow", "pipeline.reconciliation.deciding", "pipeline.insight.actions"}
    assert not {f"perdure.{name}" for name in heavy} & loaded
    assert not {"alembic", "onnxruntime", "tokenizers", "fastapi", "rich"} & loaded


def test_what_remembers_loads_what_it_needs(tmp_path: Path) -> None:
    at = folder(tmp_path / "memory")
    loaded = loaded_by("add", "I live in Lisbon.", "--user-id", "ana", "--path", str(at.path))
    assert {"perdure.pipeline.extraction.flow", "perdure.pipeline.slots.read"} <= loaded
    assert at.texts() == ["User lives in Lisbon"]
