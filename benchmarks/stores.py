"""What each store costs beside its engine used bare: writing, and searching inside one user of many.

    python benchmarks/stores.py [--stores memory sqlite pgvector ...] [--rows 100000] [--users 10000]

Every store gets the same rows (384 numbers each, evenly over the users) in batches of 500, then answers searches for
the ten nearest of one user, through `VectorStore.search` with the filter that the engine sends. `bare` is one user's
ten nearest asked of the engine's own client in the same run, as one would write it by hand (stores_bare.py), and
`ratio` is what the store costs beside it. `recall` is against exact cosine over the user's vectors, `foreign` counts
rows of other users among all answers: 1.0 and 0 are demanded. The engines are started as the tests start them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.contracts.stores import all_providers

from perdure.backends import registry
from perdure.backends.vector_stores.base import Point, VectorStore
from perdure.domain.filter import Condition, Moment, Not, all_of, eq

DIMENSION = 384
BATCH = 500
QUERIES = 200
NOW = Moment("2026-06-01T00:00:00.000000+00:00")


def payload(number: int, user: str) -> dict[str, Any]:
    """A row as the engine writes one."""
    moment = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.{number % 1000000:06}+00:00"
    return {
        "id": f"{number:032x}",
        "memory": f"User noted fact number {number} about topic {number % 97}",
        "hash": f"{number * 7919:032x}",
        "metadata": {"tag": f"t{number % 13}", "n": number % 101},
        "kind": "facts",
        "state": "live",
        "type": "semantic",
        "user_id": user,
        "created_at": moment,
        "updated_at": moment,
        "told_at": moment,
    }


def user_of(number: int, users: int) -> str:
    return f"user-{number % users}"


def batches(rows: int, users: int) -> Iterator[list[Point]]:
    for start in range(0, rows, BATCH):
        numbers = range(start, min(start + BATCH, rows))
        vectors = np.random.default_rng(start).normal(size=(len(numbers), DIMENSION)).astype(np.float32)
        yield [
            Point(f"{number:032x}", vector, payload(number, user_of(number, users)))
            for number, vector in zip(numbers, vectors, strict=True)
        ]


def visible(user: str) -> Any:
    """The filter of a search, as the engine writes it."""
    return all_of(
        eq("user_id", user),
        eq("kind", "facts"),
        eq("state", "live"),
        Not(Condition("valid_to", "lte", NOW)),
        Not(Condition("expires_at", "lte", NOW)),
    )


async def measure(store: VectorStore, rows: int, users: int) -> dict[str, Any]:
    await store.open()
    await store.create_collection("bench", DIMENSION)
    kept: dict[str, list[tuple[str, Any]]] = {}
    measured = {user_of(number, users) for number in np.random.default_rng(1).integers(0, rows, 50)}
    writing = 0.0
    for batch in batches(rows, users):
        moment = time.perf_counter()
        await store.apply("bench", batch)
        writing += time.perf_counter() - moment
        for point in batch:
            if point.payload["user_id"] in measured:
                kept.setdefault(point.payload["user_id"], []).append((point.id, point.vector))
        if sys.stderr.isatty():
            print(f"\r{store.name}: {int(batch[-1].id, 16) + 1:,} rows", end="", file=sys.stderr)
    moment = time.perf_counter()
    await store.sync()
    writing += time.perf_counter() - moment
    chance = np.random.default_rng(2)
    seconds, recalls, foreign = [], [], 0
    names = sorted(kept)
    for turn in range(QUERIES + len(names)):
        user = names[turn % len(names)]
        query = chance.normal(size=DIMENSION).astype(np.float32)
        moment = time.perf_counter()
        hits = await store.search("bench", query, 10, visible(user))
        if turn >= len(names):  # each user once, to be warm
            seconds.append(time.perf_counter() - moment)
        recalls.append(recall(query, kept[user], [hit.id for hit in hits]))
        foreign += sum(hit.payload["user_id"] != user or int(hit.id, 16) % users != int(user[5:]) for hit in hits)
    return {
        "rows/s": rows / writing,
        "p50": statistics.median(seconds) * 1000,
        "p95": sorted(seconds)[int(len(seconds) * 0.95)] * 1000,
        "recall": statistics.fmean(recalls),
        "worst": min(recalls),
        "foreign": foreign,
        "users": names,
    }


def recall(query: Any, held: list[tuple[str, Any]], found: list[str]) -> float:
    """How many of the exact ten nearest were found."""
    matrix = np.stack([vector for _, vector in held]).astype(np.float64)
    scores = matrix @ query / np.linalg.norm(matrix, axis=1)
    best = [held[place][0] for place in np.argsort(-scores)[: min(10, len(held))]]
    return len(set(best) & set(found)) / len(best)


def bare_p50(ask: Callable[[str, Any], Any], users: list[str]) -> float:
    """The median of the engine's own answer, in milliseconds."""
    chance = np.random.default_rng(2)
    seconds = []
    for turn in range(QUERIES + len(users)):
        query = chance.normal(size=DIMENSION).astype(np.float32)
        query /= np.linalg.norm(query)
        moment = time.perf_counter()
        found = ask(users[turn % len(users)], query)
        if turn >= len(users):
            seconds.append(time.perf_counter() - moment)
        assert len(found) > 0
    return statistics.median(seconds) * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", nargs="*", help="ids of the contract suite; all by default")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--json", action="store_true", help="print a JSON object for each store instead of the table")
    arguments = parser.parse_args()
    from stores_bare import BARE  # beside this file

    known = all_providers()
    if not arguments.json:
        heads = "".join(f" {head:>8}" for head in ("rows/s", "p50 ms", "p95 ms", "recall", "foreign", "bare ms"))
        print(f"{'store':>20}{heads}  ratio")
    failed = False
    for id in arguments.stores or sorted(known):
        with tempfile.TemporaryDirectory(prefix="perdure-stores-") as folder:
            place = Path(folder) / "store"
            place.mkdir()
            store = registry.build("vector_stores", known[id].name, known[id].settings(place))
            found = asyncio.run(measure(store, arguments.rows, arguments.users))
            bare = BARE.get(id)
            if bare:
                with bare(store, "bench", batches(arguments.rows, arguments.users)) as ask:
                    found["bare"] = bare_p50(ask, found["users"])
            else:
                found["bare"] = None
            asyncio.run(store.close())
        failed |= found["worst"] < 1 or found["foreign"] > 0
        del found["users"]
        if arguments.json:
            print(json.dumps({"store": id, **found}), flush=True)
            continue
        told = "" if found["bare"] is None else f"{found['bare']:8.2f} {found['p50'] / found['bare']:6.2f}"
        print(
            f"{id:>20} {found['rows/s']:8,.0f} {found['p50']:8.2f} {found['p95']:8.2f} {found['recall']:8.3f}"
            f" {found['foreign']:8} {told}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
