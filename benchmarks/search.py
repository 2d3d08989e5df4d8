"""How long a search inside one user's memories takes, and whether it finds what is nearest.

    python benchmarks/search.py [--sizes 10000 100000 1000000]

Fills a folder with users of 1,000 memories each (`hashed`, 384 dimensions), then measures `Memory.search`, `limit=10`,
`preset="plain"`, less `memory.embedder.embed` of the same query: warm (a user searched before) and cold (a user's first
search), beside NumPy's bare product with that user's 1,000 vectors in the same run. Recall is against exact cosine over
those vectors; for `best` see recall_scale.py.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from perdure import Memory

PER_USER = 1_000
WORDS = [
    f"{a}{b}" for a in ("tea", "boat", "rain", "chess", "lamp", "coat", "moss", "brass") for b in map(str, range(250))
]


def sentence(chance: random.Random) -> str:
    return "User noted " + " ".join(chance.choices(WORDS, k=9))


def fill(folder: Path, users: int) -> dict[str, list[str]]:
    """Users of 1,000 memories each; the texts of the first few and last few users, which are measured."""
    chance = random.Random(7)
    kept: dict[str, list[str]] = {}
    with open_memory(folder) as memory:
        for number in range(users):
            texts = [sentence(chance) for _ in range(PER_USER)]
            for start in range(0, PER_USER, 250):
                batch = [{"role": "user", "content": text} for text in texts[start : start + 250]]
                memory.add(batch, user_id=f"user-{number}", infer=False)
            if number < 20 or number >= users - 20:
                kept[f"user-{number}"] = texts
            if sys.stderr.isatty():
                print(f"\rfilling: {(number + 1) * PER_USER:,} memories", end="", file=sys.stderr)
    return kept


def open_memory(folder: Path) -> Memory:
    return Memory(
        {"path": str(folder), "embedder": {"provider": "hashed", "config": {"dimensions": 384}}, "episodes": "off"}
    )


def measure(folder: Path, kept: dict[str, list[str]], queries: int) -> dict[str, float]:
    chance = random.Random(11)
    with open_memory(folder) as memory:
        memory.search("warm up", user_id="nobody", limit=10, preset="plain")
        cold, warm, bare, recalls = [], [], [], []
        vectors = {user: memory.embedder.embed_batch(texts) for user, texts in kept.items()}
        for user in kept:
            cold.append(timed(memory, user, sentence(chance))[0])
        for _ in range(queries):
            user, query = chance.choice(sorted(kept)), sentence(chance)
            seconds, found = timed(memory, user, query)
            warm.append(seconds)
            vector = memory.embedder.embed(query)
            moment = time.perf_counter()
            scores = vectors[user] @ vector
            best = np.argpartition(-scores, 10)[:10]
            bare.append(time.perf_counter() - moment)
            # Equal scores may stand in either order, so what counts is that nothing found is worse than the tenth.
            floor = float(np.sort(scores[best])[0]) - 1e-5
            recalls.append(sum(score >= floor for score in found) / 10)
    return {
        "cold p50": statistics.median(cold) * 1000,
        "warm p50": statistics.median(warm) * 1000,
        "warm p95": sorted(warm)[int(len(warm) * 0.95)] * 1000,
        "numpy p50": statistics.median(bare) * 1000,
        "recall": statistics.mean(recalls),
    }


def timed(memory: Memory, user: str, query: str) -> tuple[float, list[float]]:
    moment = time.perf_counter()
    memory.embedder.embed(query)
    embedding = time.perf_counter() - moment
    moment = time.perf_counter()
    found = memory.search(query, user_id=user, limit=10, preset="plain")
    whole = time.perf_counter() - moment
    return whole - embedding, [item.similarity or 0.0 for item in found.results]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=400)
    arguments = parser.parse_args()
    first: float | None = None
    print(
        f"{'memories':>10}{'warm p50':>10}{'p95':>8}{'cold p50':>10}{'numpy':>8}{'recall':>8}{'flat':>7}{'MB':>8}  (ms)"
    )
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            kept = fill(folder, max(1, size // PER_USER))
            figures = measure(folder, kept, arguments.queries)
            first = first or figures["warm p50"]
            megabytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
            print(
                f"{size:>10,}{figures['warm p50']:>10.2f}{figures['warm p95']:>8.2f}{figures['cold p50']:>10.2f}"
                f"{figures['numpy p50']:>8.2f}{figures['recall']:>8.3f}{figures['warm p50'] / first:>7.2f}"
                f"{megabytes:>8,.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
