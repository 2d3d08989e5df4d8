"""Fetch and build the engines that the tests start, before the tests: a build takes longer than a test may.

    python -m tests.engines.prepare

They are kept outside the checkout, so that a second run has nothing to do. An engine that cannot be had here is told,
and the tests that need it skip themselves by name.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.engines import elasticsearch, neo4j, redis, weaviate
from tests.engines.programs import Unavailable

ENGINES: dict[str, Callable[[], object]] = {
    "redis": redis.binaries,
    "elasticsearch": elasticsearch.home,
    "weaviate": weaviate.binary,
    "neo4j": neo4j.home,
}


def prepare(name: str) -> str:
    moment = time.monotonic()
    try:
        ENGINES[name]()
    except Unavailable as error:
        return f"{name}: cannot be had here, its tests are skipped: {error}"
    return f"{name}: ready after {time.monotonic() - moment:.0f} s"


def main() -> int:
    with ThreadPoolExecutor() as pool:
        for told in pool.map(prepare, ENGINES):
            print(told, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
