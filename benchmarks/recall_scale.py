"""How the time of a search grows with the turns of one scope, less the encoding of the question.

    python benchmarks/recall_scale.py [--turns 1000 10000 100000] [--queries 50]

One user's turns (`hashed`, 384 dimensions; two speakers, sessions of 20 turns) are searched with `best`, limit 10.
`first` is the first search of the scope in a process, which reads it; `warm` one like any other; `after a write` one
that takes in a turn written before it; `plain` the exact cosine alone. `NumPy` is one product of the question with all
vectors in the same run, and `ratio` what `warm` takes of it. Milliseconds; the encoding of the question is taken off.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from perdure import Memory

WORDS = [f"{a}{b}" for a in ("tea", "boat", "rain", "chess", "lamp", "coat", "moss", "brass") for b in range(250)]
SPEAKERS = ("Ana", "Ben")
BATCH = 500
SESSION = 20


def turn(number: int, chance: random.Random) -> dict[str, Any]:
    start = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=6 * (number // SESSION), minutes=number % SESSION)
    words = chance.choices(WORDS, k=12)
    return {"role": "user", "name": SPEAKERS[number % 2], "content": " ".join(words), "timestamp": start.isoformat()}


def open_memory(folder: Path) -> Memory:
    return Memory({"path": str(folder), "embedder": {"provider": "hashed", "config": {"dimensions": 384}}})


def fill(folder: Path, turns: int) -> None:
    chance = random.Random(7)
    with open_memory(folder) as memory:
        for start in range(0, turns, BATCH):
            batch = [turn(number, chance) for number in range(start, min(start + BATCH, turns))]
            memory.add(batch, user_id="one", infer=False)
            if sys.stderr.isatty():
                print(f"\r{start + len(batch):,} turns", end="", file=sys.stderr)


def timed(memory: Memory, search: Callable[[str], Any], queries: list[str]) -> float:
    """The median of a search in milliseconds, less the encoding of its question."""
    taken = []
    for query in queries:
        moment = time.perf_counter()
        memory.embedder.embed(query)
        encoding = time.perf_counter() - moment
        moment = time.perf_counter()
        search(query)
        taken.append(time.perf_counter() - moment - encoding)
    return statistics.median(taken) * 1000


def measure(folder: Path, turns: int, queries: int) -> dict[str, float]:
    chance = random.Random(11)
    asked = [
        f"What did {chance.choice(SPEAKERS)} say of {' '.join(chance.choices(WORDS, k=4))}?" for _ in range(queries)
    ]
    matrix = np.random.default_rng(1).normal(size=(turns, 384)).astype(np.float32)
    with open_memory(folder) as memory:
        memory.search("warm up", user_id="nobody")
        found = {"first": timed(memory, lambda query: memory.search(query, user_id="one", limit=10), asked[:1])}
        found["warm"] = timed(memory, lambda query: memory.search(query, user_id="one", limit=10), asked)
        fresh = iter(range(turns, turns + queries))
        spent = 0.0

        def write_and_search(query: str) -> None:
            nonlocal spent
            moment = time.perf_counter()
            memory.add([turn(next(fresh), chance)], user_id="one", infer=False)
            spent += time.perf_counter() - moment
            memory.search(query, user_id="one", limit=10)

        after = timed(memory, write_and_search, asked[: queries // 2])
        found["after a write"] = after - spent / (queries // 2) * 1000
        plain = lambda query: memory.search(query, user_id="one", limit=10, preset="plain")  # noqa: E731
        found["plain"] = timed(memory, plain, asked)
        query = matrix[0]
        moments = []
        for _ in range(queries):
            moment = time.perf_counter()
            np.argpartition(-(matrix @ query), 10)
            moments.append(time.perf_counter() - moment)
        found["NumPy"] = statistics.median(moments) * 1000
    return {**found, "ratio": found["warm"] / found["NumPy"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--queries", type=int, default=50)
    arguments = parser.parse_args()
    columns = ("first", "warm", "after a write", "plain", "NumPy", "ratio")
    print(f"{'turns':>9}" + "".join(f"{name:>15}" for name in columns))
    for turns in arguments.turns:
        with tempfile.TemporaryDirectory(prefix="perdure-scale-") as folder:
            fill(Path(folder), turns)
            found = measure(Path(folder), turns, arguments.queries)
        print(f"{turns:>9,}" + "".join(f"{found[name]:15.2f}" for name in columns), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
