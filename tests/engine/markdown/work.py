"""A process at work on a memory of files, which may end in the middle: `python -m tests.engine.markdown.work ...`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from perdure import Memory

WORK = {"user_id": "alice", "run_id": "work"}
OPERATIONS = ("replace", "unlink", "mkdir", "rmdir", "open")
KILLED = 9


def config(path: str, **more: Any) -> dict[str, Any]:
    """Memories as files without git, with the quick embedder."""
    embedder = {"provider": "hashed"}
    return {
        "path": path,
        "vector_store": {"provider": "markdown", "config": {"git": False}},
        "embedder": embedder,
        "curator": "rules",
        "updates": "supersede",
        **more,
    }


def end_before(number: int) -> None:
    """End this process right before its n-th operation on a file of memories (from 1 on)."""
    left = [number]

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(path: Any, *args: Any, **kwargs: Any) -> Any:
            reads = real is os_open and not (args and args[0] & os.O_CREAT)
            if "entries" in os.fspath(path) and not reads:
                left[0] -= 1
                if left[0] == 0:
                    os._exit(KILLED)
            return real(path, *args, **kwargs)

        return operation

    os_open = os.open
    for name in OPERATIONS:
        setattr(os, name, counting(getattr(os, name)))


def work(memory: Memory, what: str) -> None:
    """One operation on the memory that `prepare` left."""
    if what == "add":
        memory.add("I have a dog named Rex.", **WORK)
    elif what == "supersede":
        memory.add("I moved to Bergen.", **WORK)
    elif what == "delete":
        memory.delete(memory.get_all(**WORK).results[0].id)
    elif what == "forget":
        memory.forget(**WORK)


def main(path: str, what: str, number: str) -> None:
    """Do it, and end before an operation where a number from 1 on is given."""
    memory = Memory(config(path))
    memory.get_all(**WORK)
    if int(number):
        end_before(int(number))
    work(memory, what)
    memory.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
