"""Random filters on every store, held against the one meaning of filters: zero mismatches are demanded.

    python benchmarks/filters.py [--stores sqlite pgvector ...] [--filters 10000]

Each store gets some hundred odd rows (Hypothesis draws them as the tests do), then each filter, no two of them the
same, is listed and searched. 10,000 filters for an embedded store and 1,000 for one on a server unless told otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis.errors import NonInteractiveExampleWarning

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.contracts import strategies
from tests.contracts.stores import all_providers

from perdure.backends import registry
from perdure.backends.vector_stores.base import Point, VectorStore
from perdure.domain.filter import matches

ROWS = 300
DRAWN = 40
"""Rows and filters that one drawing of Hypothesis gives."""


def drawn(strategy: Any, count: int) -> list[Any]:
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    found: list[Any] = []

    @seed(1)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(strategy, min_size=DRAWN, max_size=DRAWN))
    def draw(values: list[Any]) -> None:
        found.extend(values)

    draw()
    random.Random(1).shuffle(found)
    return found


async def check(store: VectorStore, points: list[Point], filters: list[Any]) -> list[str]:
    await store.open()
    await store.create_collection("filters", 4)
    for start in range(0, len(points), 100):
        await store.apply("filters", points[start : start + 100])
    mismatches = []
    for number, one in enumerate(filters):
        expected = {point.id for point in points if matches(one, point.payload)}
        listed = {point.id for point in (await store.list("filters", one)).points}
        found = {hit.id for hit in await store.search("filters", points[0].vector, 10, one)}
        if listed != expected or len(found) != min(10, len(expected)) or not found <= expected:
            mismatches.append(f"{one}: {sorted(listed ^ expected)[:5]}")
        if sys.stderr.isatty() and number % 50 == 0:
            print(f"\r{store.name}: {number:,} filters", end="", file=sys.stderr)
    return mismatches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", nargs="*", help="ids of the contract suite; all by default")
    parser.add_argument("--filters", type=int, help="how many; by default 10,000 embedded and 1,000 on a server")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NonInteractiveExampleWarning)
    known = all_providers()
    ids = arguments.stores or sorted(known)
    most = max(arguments.filters or (1_000 if known[id].server else 10_000) for id in ids)
    payloads = drawn(strategies.payloads(), -(-ROWS // DRAWN) * 2)[:ROWS]
    filters = list({str(one): one for one in drawn(strategies.filters(), 10 * most // DRAWN + 1)}.values())[:most]
    chance = np.random.default_rng(1)
    points = [
        Point(f"r{n}", chance.normal(size=4).astype(np.float32), {**payload, "id": f"r{n}"})
        for n, payload in enumerate(payloads)
    ]
    print(f"{'store':>20} {'filters':>8} {'mismatches':>11} {'seconds':>8}")
    failed = False
    for id in ids:
        count = arguments.filters or (1_000 if known[id].server else 10_000)
        with tempfile.TemporaryDirectory(prefix="perdure-filters-") as folder:
            store = registry.build("vector_stores", known[id].name, known[id].settings(Path(folder)))
            moment = time.perf_counter()
            mismatches = asyncio.run(check(store, points, filters[:count]))
            asyncio.run(store.close())
        seconds = time.perf_counter() - moment
        print(f"{id:>20} {len(filters[:count]):8,} {len(mismatches):11} {seconds:8.0f}", flush=True)
        for line in mismatches[:10]:
            print(f"{'':>20} {line}")
        failed |= bool(mismatches)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
