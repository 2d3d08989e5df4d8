"""What memory adds to an answer: to its first byte, and to the whole of it, at several numbers of streams at once.

    python benchmarks/gateway_latency.py [--streams 1 16 64] [--seconds 20] [--facts 1000] [--embedder minilm]
        [--episodes search] [--rate 12] [--without-aiohttp]

One run asks the same model's server in four ways, turn by turn: directly, through a pass-through that does nothing else
(uvicorn and aiohttp, as perdure has them with the extra `fast`), through `perdure proxy` with `x-disable-router-memory:
true`, and through the same process with memory: each of these requests is searched for among the facts, gets what is
found, and its turn is kept and read for facts while others are answered. `added` is the difference to asking directly,
of the same percentile; processor time is the proxy's, and counts what it does after the answer too. Clients, model's
server and proxy share this machine, so that the more streams there are the longer each answer takes: no more than
`--rate` are begun in a second, whatever their number. `--without-aiohttp` has the proxy ask the model's server over
httpcore2. Needs Linux and the extras `server` and `fast`. Spec 001 §10: under 50 ms at p50 (V63).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from perdure import Memory

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.gateway.processes import Proxy, module
from benchmarks.gateway.streams import PLACES, Clients, Load, Times

ROUNDS = 3
"""Times that each way has its turn, so that whatever else the machine does meets all of them."""
SHORTEST = 0.1
"""Seconds that the model takes for an answer at least."""
USER = "ana"
OF_USER = {"x-authz-user-id": USER}
OFF = {"x-disable-router-memory": "true"}
FACTS = (
    "Ana keeps the papers of {} in box {}",
    "Ana's friend number {1} lives in {0}",
    "Ana stayed {1} days in {0}",
    "The garden in {} has {} trees",
    "Ana wants to bring {1} books along to {0}",
)


def fill(folder: Path, facts: int, settings: dict[str, str]) -> None:
    """Let a memory hold so many facts."""
    os.environ.update(settings)
    told = [FACTS[n % len(FACTS)].format(PLACES[n % len(PLACES)], n) for n in range(facts)]
    with Memory({"path": folder}) as memory:
        for start in range(0, facts, 250):
            messages = [{"role": "user", "content": fact} for fact in told[start : start + 250]]
            memory.add(messages, user_id=USER, infer=False)


def measure(ways: dict[str, tuple[str, dict[str, str]]], load: Load, proxy: Proxy) -> dict[str, Times]:
    """Let each way have its turns."""
    found = {name: Times() for name in ways}
    for _ in range(ROUNDS):
        for name, (url, headers) in ways.items():
            before = proxy.worked()
            times = asyncio.run(Clients(url, load, headers).run())
            found[name].first += times.first
            found[name].whole += times.whole
            found[name].used += times.used
            proxy.settle()
            found[name].worked += proxy.worked() - before
    return found


def show(found: dict[str, Times], load: Load) -> dict[str, float]:
    """Print a table; the milliseconds that each way adds to the first byte at p50."""
    kind = "streams at once" if load.is_stream else "at once, not streamed"
    print(f"\n{load.streams} {kind}, answers of {load.answer:.2f} s")
    print(f"{'':<26}{'answers':>8}   {'first byte, added':>20}   {'whole answer, added':>20}")
    print(f"{'':<26}{'':>8}   {'p50 ms':>10}{'p99 ms':>10}   {'p50 ms':>10}{'p99 ms':>10}")
    base: np.ndarray | None = None
    added: dict[str, float] = {}
    for name, times in found.items():
        both = np.array([np.percentile(each, [50, 99]) for each in (times.first, times.whole)]).ravel() * 1000
        base = both if base is None else base
        told = both if name == "directly" else both - base
        added[name] = float(told[0])
        cells = [f"{each:>10.1f}" for each in told]
        note = "   (not added: all of it)" if name == "directly" else ""
        if name.startswith("memory"):
            note = f"   {times.worked / len(times.whole) * 1000:.0f} ms of processor time each"
        row = f"{name:<26}{len(times.whole):>8,}   {''.join(cells[:2])}   {''.join(cells[2:])}{note}"
        print(row + (f", {times.used / len(times.whole):.0%} with memories" if name == "memory on" else ""))
    on, off, bare = added["memory on"], added["memory off"], added["bare pass-through"]
    print(f"memory on adds {on - off:.1f} ms to memory off, which adds {off / max(bare, 0.1):.1f} times the bare one's")
    return added


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--seconds", type=float, default=20, help="seconds of each way at each number of streams")
    parser.add_argument("--facts", type=int, default=1000)
    parser.add_argument("--embedder", choices=["minilm", "hashed"], default="minilm")
    parser.add_argument("--episodes", choices=["keep", "search"], default="keep", help="search: messages are found too")
    parser.add_argument("--rate", type=float, default=12, help="answers that are begun in a second, at most")
    parser.add_argument("--without-aiohttp", action="store_true", help="as an installation without the extra `fast`")
    arguments = parser.parse_args()
    settings = {"PERDURE_EMBEDDER__PROVIDER": arguments.embedder, "PERDURE_EPISODES": arguments.episodes}
    added: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, module("upstream") as model, module("bare", model) as bare:
        fill(Path(folder) / "memory", arguments.facts, settings)
        if arguments.without_aiohttp:
            (Path(folder) / "aiohttp.py").write_text("raise ImportError\n", encoding="utf-8")
            settings["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        proxy = Proxy(Path(folder), model, settings)
        ways = {
            "directly": (model, {}),
            "bare pass-through": (bare, {}),
            "memory off": (proxy.url, OFF),
            "memory on": (proxy.url, OF_USER),
        }
        try:
            for url, headers in ways.values():  # the first answer of each loads and opens what it needs
                asyncio.run(Clients(url, Load(1, 0.5, SHORTEST), headers).run())
            seconds = f"{arguments.seconds:.0f} s each, {os.cpu_count()} cores"
            print(f"{arguments.facts:,} facts, {arguments.embedder}, episodes {arguments.episodes}, {seconds}")
            for streams in arguments.streams:
                answer = max(SHORTEST, streams / arguments.rate)
                for is_stream in (True, False):
                    load = Load(streams, arguments.seconds / ROUNDS, answer, is_stream=is_stream)
                    told = show(measure(ways, load, proxy), load)
                    added = added or told
        finally:
            proxy.kill()
    print(f"\nV63: memory adds {added['memory on']:.1f} ms at p50 with {arguments.streams[0]} at once; 50 are allowed")
    return 0 if added["memory on"] < 50 else 1


if __name__ == "__main__":
    sys.exit(main())
