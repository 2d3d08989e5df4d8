"""A search of a scope that is in memory, and of one that is not, beside what the machine could do.

    python benchmarks/scopes.py --data locomo10.json [--embedders hashed minilm] [--turns 1000 10000] [--users 10 100]

Turns of LoCoMo (arXiv 2402.17753) are stored as they were said, in one user's scope for each size, and asked LoCoMo's
own questions with the default preset and limit 10. Each scope is filled by one process, which ends, and asked by
another, whose code is warm from another user's scope. All figures are processor time, the median of 60 questions:

floor    NumPy's product of a question with all vectors, ten rows of the store by id, and one hop to the event loop
hot      a search of a scope that was searched before
cold     the first search of the scope in its process; "runs" counts calls of the encoder in it
encode   the bare encoding of the question
bytes    what the index takes in memory (its own count), over its vectors

With --users: so many users of 1,000 turns each, asked in random order after each was asked once.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from perdure import Memory
from perdure.frontends.library.portal import PORTAL
from recall_data import read_locomo

ASKED = 60
BEGUN = datetime(2024, 1, 1, tzinfo=UTC)


def turns_of(path: Path, count: int) -> list[dict[str, Any]]:
    """So many turns, two minutes apart; the data set is told again where it has fewer."""
    said = [(turn.speaker, turn.text) for conversation in read_locomo(path) for turn in conversation.turns]
    return [
        {
            "role": "user",
            "name": said[place % len(said)][0] or "Ana",
            "content": said[place % len(said)][1],
            "timestamp": (BEGUN + timedelta(minutes=2 * place)).isoformat(),
        }
        for place in range(count)
    ]


def questions_of(path: Path) -> list[str]:
    """The data set's questions, shuffled the same way each time."""
    asked = [question.text for conversation in read_locomo(path) for question in conversation.questions]
    random.Random(7).shuffle(asked)
    return asked


def opened(folder: Path, embedder: str) -> Memory:
    """A memory with the default settings but for its embedder."""
    return Memory({"path": str(folder), "embedder": {"provider": embedder}})


def fill(folder: Path, embedder: str, data: Path, turns: int, users: int) -> None:
    """Store the turns of each user, and a few of one who warms the code."""
    with opened(folder, embedder) as memory:
        for number in range(users):
            said = turns_of(data, turns)
            for start in range(0, turns, 250):
                memory.add(said[start : start + 250], user_id=f"u{number}", infer=False)
        memory.add(turns_of(data, 40), user_id="warm", infer=False)


def cost(call: Callable[[], Any]) -> float:
    """Processor time of a call, in milliseconds."""
    before = time.process_time()
    call()
    return (time.process_time() - before) * 1000


def bare(embed: Callable[[str], Any], text: str) -> None:
    """One encoding, by the hop that every call of the library takes."""
    PORTAL.call(embed(text))


def median(costs: Sequence[float]) -> float:
    return statistics.median(costs)


def ask(folder: Path, embedder: str, data: Path, turns: int, users: int) -> dict[str, float]:
    """The figures of one folder, in this process."""
    questions = questions_of(data)
    with opened(folder, embedder) as memory:
        for question in questions[-40:]:
            memory.search(question, user_id="warm", limit=10)
        kernel = memory._memory._engine.kernel
        encoder = kernel.embedding.embedder
        runs: list[int] = []
        plain_one, plain_many = encoder.embed, encoder.embed_batch

        async def counted(text: str) -> Any:
            runs.append(1)
            return await plain_one(text)

        async def counted_many(texts: Sequence[str]) -> Any:
            runs.append(len(texts))
            return await plain_many(texts)

        encoder.embed, encoder.embed_batch = counted, counted_many
        cold = [cost(lambda: memory.search(questions[0], user_id="u0", limit=10))]
        cold_runs = len(runs)
        hot = [cost(partial(memory.search, each, user_id="u0", limit=10)) for each in questions[1 : ASKED + 1]]
        encoder.embed, encoder.embed_batch = plain_one, plain_many
        encode = [cost(partial(bare, plain_one, each)) for each in questions[1 : ASKED + 1]]
        vectors = np.random.default_rng(1).normal(size=(turns, encoder.dimension)).astype(np.float32)
        query = vectors[0].copy()
        ids = [each.id for each in memory.search(questions[1], user_id="u0", limit=10).results]
        floor = [
            cost(lambda: (vectors @ query, PORTAL.call(kernel.store.payloads(kernel.collection, ids))))
            for _ in range(ASKED)
        ]
        scan = [cost(lambda: vectors @ query) for _ in range(ASKED)]
        (held,) = [
            each for scope, each in memory._memory._engine.read._fused.indexes._held.items() if scope.user_id == "u0"
        ]
        found = {
            "floor": median(floor), "scan": median(scan), "hot": median(hot), "cold": cold[0], "runs": cold_runs,
            "encode": median(encode), "bytes": held.index.size / (4 * encoder.dimension * turns),
        }  # fmt: skip
        if users > 1:
            order = [f"u{number}" for number in range(users)]
            for user in order:
                memory.search(questions[0], user_id=user, limit=10)
            drawn = random.Random(3).choices(order, k=ASKED)
            pairs = list(zip(questions[:ASKED], drawn, strict=True))
            searches = [partial(memory.search, each, user_id=user, limit=10) for each, user in pairs]
            found["random"] = median([cost(each) for each in searches])
        return found


def measured(step: str, *arguments: Any) -> dict[str, float]:
    """A step in a process of its own."""
    command = [sys.executable, __file__, "--step", json.dumps([step, *map(str, arguments)])]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--embedders", nargs="+", default=["hashed", "minilm"])
    parser.add_argument("--turns", nargs="+", type=int, default=[1000, 10_000])
    parser.add_argument("--users", nargs="+", type=int, default=[10, 100])
    parser.add_argument("--step", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.step:
        step, folder, embedder, data, turns, users = json.loads(chosen.step)
        run = fill if step == "fill" else ask
        print(json.dumps(run(Path(folder), embedder, Path(data), int(turns), int(users))))
        return
    print("embedder turns | hot/floor cold/hot runs hot/encode bytes/vectors | ms: floor hot cold encode")
    for embedder in chosen.embedders:
        for turns in chosen.turns:
            with tempfile.TemporaryDirectory() as folder:
                measured("fill", folder, embedder, chosen.data, turns, 1)
                got = measured("ask", folder, embedder, chosen.data, turns, 1)
            ratios = (got["hot"] / got["floor"], got["cold"] / got["hot"], got["runs"], got["hot"] / got["encode"])
            print(
                f"{embedder:8} {turns:6} | {ratios[0]:9.1f} {ratios[1]:8.1f} {ratios[2]:4.0f} {ratios[3]:10.1f} "
                f"{got['bytes']:13.2f} | {got['floor']:9.2f} {got['hot']:.2f} {got['cold']:.2f} {got['encode']:.2f}",
                flush=True,
            )
    print("\nusers of 1,000 turns each, hashed: a search of a random one who was asked before, ms")
    for users in chosen.users:
        with tempfile.TemporaryDirectory() as folder:
            measured("fill", folder, "hashed", chosen.data, 1000, users)
            got = measured("ask", folder, "hashed", chosen.data, 1000, users)
        print(f"{users:5} users: {got['random']:.2f}", flush=True)


if __name__ == "__main__":
    main()
