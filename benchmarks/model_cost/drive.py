"""Run one scene through one peer, in the peer's own environment.

    python -P drive.py PEER_FILE TASK_FILE RESULT_FILE

The peer's file defines `Peer`; the standard library is all that this one needs. Everybody comes to know what is known
before in the same way: by an `add` of one message for each memory. That, the imports and the first connection, and one
`add` by somebody else, are neither timed nor recorded.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Protocol

WHO, SOMEBODY_ELSE = "ana", "boris"


class Peer(Protocol):
    """What a peer's file defines; made with the service's address (with /v1) and an empty folder."""

    async def add(self, messages: list[dict[str, str]], who: str) -> None:
        """The measured call, as the peer's own documentation shows it."""

    async def stored(self, who: str) -> list[str]:
        """The texts of all memories."""

    async def close(self) -> None:
        """Let go of everything."""


def post(address: str, body: Any) -> None:
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        answer.read()


def load(file: str) -> Any:
    spec = importlib.util.spec_from_file_location("peer_driver", file)
    assert spec is not None and spec.loader is not None, f"{file} is no Python file"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Peer


async def run(file: str, task: dict[str, Any]) -> dict[str, Any]:
    address = task["address"]
    peer: Peer = load(file)(f"{address}/v1", Path(task["folder"]))
    for who, fact in [(SOMEBODY_ELSE, task["warm_up"]), *((WHO, fact) for fact in task["known"])]:
        post(f"{address}/tell", [fact])
        await peer.add([{"role": "user", "content": fact["said"]}], who)
    post(f"{address}/tell", task["facts"])
    post(f"{address}/record", True)
    started = time.perf_counter()
    await peer.add(task["messages"], WHO)
    seconds = time.perf_counter() - started
    post(f"{address}/record", False)
    stored = await peer.stored(WHO)
    await peer.close()
    return {"seconds": seconds, "stored": stored}


def main() -> None:
    peer, task, result = sys.argv[1:]
    found = asyncio.run(run(peer, json.loads(Path(task).read_text(encoding="utf-8"))))
    Path(result).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
