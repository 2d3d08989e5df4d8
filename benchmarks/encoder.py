"""How fast `minilm` is, beside the bare ONNX session that it stands on, measured in turns in the same run.

    python benchmarks/encoder.py [--texts 400] [--rounds 5] [--threads 1]

The bare session gets what is as good as it can be: texts tokenized beforehand, sorted by length, in the same batches,
called without an event loop. So a ratio of 1 means that tokenizing, sorting and threads cost nothing. Times are the
best of the rounds (other work on the machine only ever adds). Needs the weights; builds its graph in the user's cache.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from pathlib import Path

import numpy as np

from perdure.backends.embedders.minilm import BATCH_TOKENS, RUN_COST, Encoder, MiniLMEmbedder, batches

SHORT = "where does my sister live now"
BUDGETS = (256, 512, 1024, 2048, 4096)
LOAD = """
import asyncio, time
start = time.perf_counter()
from perdure.backends.registry import build
embedder = build("embedders", "minilm", {})
imported = time.perf_counter()
asyncio.run(embedder.embed("x"))
print(imported - start, time.perf_counter() - imported)
"""


def sample_texts(count: int) -> list[str]:
    """Memories of mixed length, 5 to about 250 tokens, most of them short: the labelled pairs, alone and joined."""
    lines = Path(__file__).with_name("calibration").joinpath("pairs.jsonl").read_text(encoding="utf-8").splitlines()
    memories = [json.loads(line)["memory"] for line in lines]
    rng = random.Random(11)
    sizes = rng.choices((1, 2, 4, 12), weights=(70, 18, 9, 3), k=count)
    return [". ".join(rng.sample(memories, size)) for size in sizes]


def best_of(rounds: int, *calls: Callable[[], object], repeats: int = 1) -> list[float]:
    """The shortest time of each call in seconds; they take turns, so that a busy moment hits all alike."""
    times = [[_seconds(call, repeats) for call in calls] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def _seconds(call: Callable[[], object], repeats: int) -> float:
    """The shortest of so many calls in a row: one text takes so little that every change of thread would show."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def bare_feeds(tokens: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]) -> list[dict[str, np.ndarray]]:
    """What the session reads, made beforehand."""
    feeds = []
    for group in groups:
        ids = np.zeros((len(group), max(len(tokens[row]) for row in group)), dtype=np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(group):
            ids[place, : len(tokens[row])] = tokens[row]
            mask[place, : len(tokens[row])] = 1
        feeds.append({"input_ids": ids, "attention_mask": mask})
    return feeds


def _run_all(encoder: Encoder, feeds: Sequence[dict[str, np.ndarray]]) -> None:
    for feed in feeds:
        encoder._session.run(None, feed)


def compare(embedder: MiniLMEmbedder, encoder: Encoder, texts: list[str], rounds: int) -> None:
    """Print embedder and bare session side by side, for one text, a few and all."""
    loop = asyncio.new_event_loop()
    print(f"{'':<18}{'embedder':>22}{'bare session':>22}{'ratio':>8}")
    for name, case, repeats in (
        ("one short text", [SHORT], 40),
        ("8 texts", texts[:8], 5),
        (f"{len(texts)} texts", texts, 1),
    ):
        tokens = [encoder._tokenize(text) for text in case]
        feeds = bare_feeds(tokens, list(batches([len(ids) for ids in tokens])))
        ours, theirs = best_of(
            rounds,
            partial(_embed_all, loop, embedder, case),
            partial(_run_all, encoder, feeds),
            repeats=repeats,
        )
        columns = [f"{1000 * t / len(case):.2f} ms {len(case) / t:.0f} texts/s" for t in (ours, theirs)]
        print(f"{name:<18}{columns[0]:>22}{columns[1]:>22}{theirs / ours:>8.3f}")
    loop.close()


def _embed_all(loop: asyncio.AbstractEventLoop, embedder: MiniLMEmbedder, texts: list[str]) -> None:
    loop.run_until_complete(embedder.embed_batch(texts))


def sweep(encoder: Encoder, texts: list[str], rounds: int) -> None:
    """Print the throughput of the bare session for other ways to batch."""
    tokens = [encoder._tokenize(text) for text in texts]
    lengths = [len(ids) for ids in tokens]
    rows = list(range(len(texts)))
    groupings = {
        f"{most} tokens, split at {cost}": list(batches(lengths, most, cost))
        for most, cost in ((BATCH_TOKENS, RUN_COST), *((most, inf) for most in BUDGETS))
    }
    groupings["32 texts, unsorted"] = [rows[start : start + 32] for start in range(0, len(rows), 32)]
    prepared = [bare_feeds(tokens, groups) for groups in groupings.values()]
    runs = [partial(_run_all, encoder, feeds) for feeds in prepared]
    times = best_of(rounds, *runs, repeats=max(1, 80 // len(texts)))
    print(f"\n{f'batches of {len(texts)} texts':<26}{'runs':>6}{'padding':>10}{'texts/s':>10}")
    for name, feeds, seconds in zip(groupings, prepared, times, strict=True):
        padding = sum(feed["input_ids"].size for feed in feeds) / sum(lengths) - 1
        print(f"{name:<26}{len(feeds):>6}{padding:>10.1%}{len(texts) / seconds:>10.0f}")


def main() -> int:
    """Run as the module's text says; 1 if the embedder is not available here."""
    parser = argparse.ArgumentParser(description="minilm beside the bare ONNX session")
    parser.add_argument("--texts", type=int, default=400, help="how many texts of mixed length")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each, the best of which counts")
    parser.add_argument("--threads", type=int, default=1, help="threads of one call")
    arguments = parser.parse_args()
    embedder = MiniLMEmbedder(MiniLMEmbedder.Settings(threads=arguments.threads))
    reason = embedder.unavailable()
    if reason:
        print(reason, file=sys.stderr)
        return 1
    texts = sample_texts(arguments.texts)
    asyncio.run(embedder.embed(SHORT))
    encoder = embedder._load()
    lengths = sorted(len(encoder._tokenize(text)) for text in texts)
    print(
        f"{len(texts)} texts of {lengths[0]} to {lengths[-1]} tokens (median {lengths[len(lengths) // 2]}), "
        f"{arguments.threads} thread(s), best of {arguments.rounds}\n"
    )
    done = [subprocess.run([sys.executable, "-c", LOAD], check=True, capture_output=True, text=True) for _ in range(3)]
    imported, loaded = (min(column) for column in zip(*(map(float, run.stdout.split()) for run in done), strict=True))
    print(f"a new process: import {imported:.2f} s, load and first text {loaded:.2f} s\n")
    compare(embedder, encoder, texts, arguments.rounds)
    for count in (8, len(texts)):
        sweep(encoder, texts[:count], arguments.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
