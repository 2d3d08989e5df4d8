"""A process of its own that works on a vector store: `python -m ... PROVIDER SETTINGS TASK NAME`.

Says `ready` when the store is open and waits for a line; tells on standard output what it did.
"""

from __future__ import annotations

import asyncio
import json
import sys

import numpy as np

from perdure.backends import registry
from perdure.backends.vector_stores.base import Point, VectorStore

DIMENSION = 8


def point(name: str, number: int) -> Point:
    """A row whose vector tells its number."""
    numbers = np.zeros(DIMENSION, np.float32)
    numbers[0], numbers[1] = np.cos(number), np.sin(number)
    payload = {
        "id": f"{name}-{number}",
        "memory": f"{name} wrote {number}",
        "user_id": "alice",
        "created_at": f"2026-01-01T00:00:00.{number:06}+00:00",
    }
    return Point(str(payload["id"]), numbers, payload)


async def write(store: VectorStore, name: str) -> None:
    """Forty rows one by one, then half of them away."""
    for number in range(40):
        await store.apply("shared", [point(name, number)])
    await store.apply("shared", [], [f"{name}-{number}" for number in range(0, 40, 2)])


async def write_for_ever(store: VectorStore, name: str) -> None:
    """Batches of ten rows, each told once it is applied, until the process is killed."""
    number = 0
    while True:
        deletes = [f"{name}-{number - 30}"] if number >= 30 else []
        await store.apply("shared", [point(name, number + k) for k in range(10)], deletes)
        print(number, flush=True)
        number += 10


async def main(provider: str, settings: str, task: str, name: str) -> None:
    store: VectorStore = registry.build("vector_stores", provider, json.loads(settings))
    await store.open()
    await store.create_collection("shared", DIMENSION)
    print("ready", flush=True)
    sys.stdin.readline()
    await {"write": write, "write_for_ever": write_for_ever}[task](store, name)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
