"""The program keeps NumPy to one thread of linear algebra; the library leaves that to its host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure import Memory
from perdure.frontends.cli.main import BLAS_THREADS

WATCH = """
import json, os, pathlib, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
            file = pathlib.Path(os.environ["SEEN"])
            file.with_suffix(".part").write_text(json.dumps({name: os.environ.get(name) for name in names}))
            file.with_suffix(".part").replace(file)

sys.meta_path.insert(0, Watch())
"""
"""A `sitecustomize` that notes the variables at the moment when a process imports NumPy."""

CLI = ["-m", "perdure.frontends.cli.main"]
LIBRARY = """
from perdure import Memory
with Memory({"path": "memory", "embedder": {"provider": "hashed"}}) as memory:
    memory.search("where?", user_id="ana")
"""


class Watched:
    """Real processes in a folder, each of which notes what NumPy was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen = folder / "seen.json"
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(WATCH, encoding="utf-8")
        with Memory({"path": str(folder / "memory"), "embedder": {"provider": "hashed"}}) as memory:
            memory.add("I live in Oslo", user_id="ana", infer=False)
        (folder / "memory" / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        inherited = {name: value for name, value in os.environ.items() if name not in BLAS_THREADS}
        path = os.pathsep.join([str(self.folder / "site"), *filter(None, [inherited.get("PYTHONPATH")])])
        environment = {**inherited, "PYTHONPATH": path, "SEEN": str(self.seen), **variables}
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=self.folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def told(self, process: subprocess.Popen[str]) -> dict[str, str | None]:
        """What NumPy was told, once the process has imported it; the process is stopped then."""
        deadline = time.monotonic() + 60
        while not self.seen.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert self.seen.exists(), err
        found: dict[str, str | None] = json.loads(self.seen.read_text(encoding="utf-8"))
        return found


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


SERVING = {
    "serve": ("serve", "--port", "0", "--path", "memory"),
    "proxy": ("proxy", "--port", "0", "--openai-base-url", "http://127.0.0.1:9/v1", "--path", "memory"),
    "search": ("search", "where?", "--user-id", "ana", "--path", "memory"),
}


@pytest.mark.parametrize("command", SERVING)
def test_the_program_uses_one_thread_of_linear_algebra(watched: Watched, command: str) -> None:
    process = watched.start(*CLI, *SERVING[command])
    assert watched.told(process) == dict.fromkeys(BLAS_THREADS, "1")


@pytest.mark.parametrize("command", SERVING)
def test_a_number_that_the_user_set_stays_as_it_is(watched: Watched, command: str) -> None:
    process = watched.start(*CLI, *SERVING[command], OMP_NUM_THREADS="3")
    told = watched.told(process)
    assert told == {"OPENBLAS_NUM_THREADS": None, "OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": None}


def test_the_library_changes_nothing_of_its_host(watched: Watched) -> None:
    process = watched.start("-c", LIBRARY)
    assert watched.told(process) == dict.fromkeys(BLAS_THREADS)
