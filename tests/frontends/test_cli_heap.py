"""What serves has one heap for all of its threads, unless whoever runs it says otherwise."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps are the GNU C library's")

PROBE = """
import ctypes, sys, threading
from perdure.frontends.cli import serving
if "begin" in sys.argv:
    serving.begin()
together = threading.Barrier(6)
def take():
    together.wait()
    kept = [bytearray(50_000) for _ in range(20)]
    together.wait()
threads = [threading.Thread(target=take) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def heaps(told: Path, *arguments: str, **variables: str) -> int:
    """How many heaps a process has in which six threads took memory at one time."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")}
    command = [sys.executable, "-c", PROBE, str(told), *arguments]
    subprocess.run(command, check=True, timeout=120, env={**kept, **variables})
    return told.read_text().count("<heap nr=")


def test_threads_of_what_serves_share_one_heap(tmp_path: Path) -> None:
    assert heaps(tmp_path / "others.xml") > 1
    assert heaps(tmp_path / "serving.xml", "begin") == 1


def test_who_runs_it_has_the_last_word(tmp_path: Path) -> None:
    assert heaps(tmp_path / "told.xml", "begin", MALLOC_ARENA_MAX="3") == 3
