"""What `minilm` costs beside the bare ONNX session that it stands on: ratios of processor time, measured in turns.

    python benchmarks/encoder.py [--texts 400] [--rounds 5] [--threads 1] [--clients 32] [--sweep]

The bare session gets what is as good as it can be: texts tokenized beforehand, sorted by length, in the same batches,
called without an event loop. So a ratio of 1 means that tokenizing, sorting and threads cost nothing. "Unshared" is the
same model with each request in runs of its own, in a thread of its own. Times are processor time of the whole process,
the least of the rounds (other work on the machine only ever adds). `--sweep` compares ways to batch. Needs the weights;
builds its graphs in the user's cache.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from pathlib import Path

import numpy as np

from bare_minilm import RUN
from perdure.backends.blocking import run_blocking
from perdure.backends.embedders.minilm import BATCH_TOKENS, RUN_COST, Encoder, MiniLMEmbedder, batches, graph_file

SHORT = "where does my sister live now"
BUDGETS = (48, 64, 96, 128, 192, 256, 512, 1024)
PER_CLIENT = 6
"""Queries of each client, one after the other."""

OPENINGS = {
    "session and tokenizer, bare": RUN,
    "minilm, first text": """
asyncio.run(build("embedders", "minilm", config).embed(text))
""",
    "minilm, first text, the weights' fingerprint not kept": """
onnx._kept = lambda *arguments: None
asyncio.run(build("embedders", "minilm", config).embed(text))
""",
}
"""What a new process does after it has imported perdure's embedder, NumPy and the drivers."""

Calls = dict[str, Callable[[], object]]
Ask = Callable[[str], Awaitable[object]]


def read_pairs() -> list[dict[str, str]]:
    """The labelled pairs of the calibration: short questions and memories."""
    lines = Path(__file__).with_name("calibration").joinpath("pairs.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def sample_texts(count: int) -> list[str]:
    """Memories of mixed length, 5 to about 250 tokens, most of them short: the labelled pairs, alone and joined."""
    memories = [pair["memory"] for pair in read_pairs()]
    rng = random.Random(11)
    sizes = rng.choices((1, 2, 4, 12), weights=(70, 18, 9, 3), k=count)
    return [". ".join(rng.sample(memories, size)) for size in sizes]


def least(rounds: int, calls: Calls, repeats: int = 1) -> dict[str, float]:
    """The least processor time of each call in seconds; they take turns, so that a busy moment hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(_seconds(call, repeats))
    return {name: min(each) for name, each in times.items()}


def _seconds(call: Callable[[], object], repeats: int) -> float:
    """The least of so many calls in a row: one text takes so little that every change of thread would show."""
    best = inf
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def report(title: str, times: dict[str, float], per: int = 1) -> None:
    """Print the times in ms, each with its ratio to the first."""
    first = next(iter(times.values()))
    print(f"\n{title}")
    for name, seconds in times.items():
        print(f"  {name:<56}{1000 * seconds / per:>9.2f} ms{seconds / first:>8.2f}")


def bare_feeds(
    encoder: Encoder, tokens: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]
) -> list[dict[str, np.ndarray]]:
    """What the session reads, made beforehand."""
    feeds = []
    for group in groups:
        known, _ = encoder.feed([tokens[row] for row in group])
        feeds.append({node.name: known[node.name] for node in encoder._session.get_inputs()})
    return feeds


def _run_all(encoder: Encoder, feeds: Sequence[dict[str, np.ndarray]]) -> None:
    for feed in feeds:
        encoder._session.run(None, feed)


async def _clients(ask: Ask, questions: Sequence[str], clients: int) -> list[float]:
    """Ask all questions, so many clients at once; the seconds that each took."""
    waits: list[float] = []

    async def client(own: Sequence[str]) -> None:
        for question in own:
            start = time.perf_counter()
            await ask(question)
            waits.append(time.perf_counter() - start)

    await asyncio.gather(*(client(questions[number::clients]) for number in range(clients)))
    return waits


def _unshared(encoder: Encoder) -> Ask:
    """Each request in a thread and a run of its own."""

    def ask(text: str) -> Awaitable[object]:
        return run_blocking(encoder.encode, [text])

    return ask


def compare_alone(embedder: MiniLMEmbedder, texts: list[str], rounds: int) -> None:
    """Print what one caller pays over the bare session, for one text, a few and all."""
    loop, encoder = asyncio.new_event_loop(), embedder._load()
    for name, case, repeats in (
        ("one short text, one caller", [SHORT], 40),
        ("8 texts, one caller", texts[:8], 5),
        (f"{len(texts)} texts, one caller, per text", texts, 1),
    ):
        tokens = [encoder._tokenize(text) for text in case]
        feeds = bare_feeds(encoder, tokens, encoder.cut([len(ids) for ids in tokens], BATCH_TOKENS))
        one = (lambda: loop.run_until_complete(embedder.embed(SHORT))) if len(case) == 1 else None
        calls: Calls = {
            "bare session": partial(_run_all, encoder, feeds),
            "unshared": lambda case=case: loop.run_until_complete(run_blocking(encoder.encode, case)),
            "minilm": one or (lambda case=case: loop.run_until_complete(embedder.embed_batch(case))),
        }
        report(name, least(rounds, calls, repeats), len(case))
    loop.close()


def compare_clients(embedder: MiniLMEmbedder, small: MiniLMEmbedder, clients: int, rounds: int) -> None:
    """Print what a query costs when many ask at once, and how long it takes beside an import."""
    encoder = embedder._load()
    unique = list(dict.fromkeys(pair["query"] for pair in read_pairs()))
    questions = (unique * 9)[: clients * PER_CLIENT]
    tokens = [encoder._tokenize(text) for text in questions]
    calls: Calls = {
        "bare session, one after the other": partial(
            _run_all, encoder, bare_feeds(encoder, tokens, [[i] for i in range(len(tokens))])
        ),
        f"{clients} clients, unshared": lambda: asyncio.run(_clients(_unshared(encoder), questions, clients)),
        f"{clients} clients, minilm": lambda: asyncio.run(_clients(embedder.embed, questions, clients)),
        f"{clients} clients, minilm int8": lambda: asyncio.run(_clients(small.embed, questions, clients)),
        "1 client, unshared": lambda: asyncio.run(_clients(_unshared(encoder), questions, 1)),
        "1 client, minilm": lambda: asyncio.run(_clients(embedder.embed, questions, 1)),
        "1 client, minilm int8": lambda: asyncio.run(_clients(small.embed, questions, 1)),
    }
    report("a question", least(rounds, calls), len(questions))


def compare_import(embedder: MiniLMEmbedder, texts: list[str], rounds: int) -> None:
    """Print how long a query waits while every core embeds a list (wall time: it says little on a busy machine)."""
    encoder = embedder._load()
    questions = [pair["query"] for pair in read_pairs()][:20]
    lists = [texts * 3 for _ in range(encoder.batcher._runners)]
    ways: dict[str, tuple[Ask, Callable[[list[str]], Awaitable[object]]]] = {
        "unshared": (_unshared(encoder), lambda own: run_blocking(encoder.encode, own)),
        "minilm": (embedder.embed, embedder.embed_batch),
    }

    async def beside(name: str) -> list[float]:
        ask, embed = ways[name]
        imports = asyncio.gather(*(embed(own) for own in lists))
        await asyncio.sleep(0.1)
        waits = await _clients(ask, questions, 1)
        await imports
        return waits

    alone = sorted(asyncio.run(_clients(embedder.embed, questions, 1)))
    times = {"nothing beside it": alone[len(alone) // 2]}
    for name in ways:
        waits = sorted(wait for _ in range(rounds) for wait in asyncio.run(beside(name)))
        times |= {f"{name}, p50": waits[len(waits) // 2], f"{name}, longest": waits[-1]}
    report(f"a question while {len(lists)} lists are embedded, wall time", times)


def compare_precisions(embedder: MiniLMEmbedder, small: MiniLMEmbedder, texts: list[str], rounds: int) -> None:
    """Print what int8 costs over fp32, and how near its vectors are."""
    loop = asyncio.new_event_loop()
    for name, case, repeats in (("one short text", [SHORT], 40), (f"{len(texts)} texts, per text", texts, 1)):
        calls: Calls = {
            precision: lambda case=case, each=each: loop.run_until_complete(each.embed_batch(case))
            for precision, each in (("fp32", embedder), ("int8", small))
        }
        report(f"{name}, by precision", least(rounds, calls, repeats), len(case))
    exact, near = (loop.run_until_complete(each.embed_batch(texts)) for each in (embedder, small))
    cosines = (exact * near).sum(axis=1)
    print(f"  cosine of int8 to fp32: mean {cosines.mean():.4f}, least {cosines.min():.4f}")
    loop.close()


def compare_opening(embedder: MiniLMEmbedder, rounds: int, precision: str) -> None:
    """Print what a new process pays until its first vector, less its imports."""
    files = embedder._find()
    if files is None or files.is_graph or embedder._cache_dir is None:
        return
    graph = graph_file(files, embedder._cache_dir, embedder._settings.precision)
    head = (
        "import asyncio, os, time\nos.environ['ORT_DISABLE_TELEMETRY'] = '1'\nimport numpy, onnxruntime, tokenizers\n"
        "from perdure.backends.embedders import minilm\nfrom perdure.backends.registry import build\n"
        "from perdure.backends.shared import onnx\n"
        f"graph, tokenizer_file, text = {str(graph)!r}, {str(files.tokenizer)!r}, 'x'\n"
        f"config = {{'precision': {precision!r}}}\n"
        "start = time.process_time()\n"
    )
    times: dict[str, list[float]] = {name: [] for name in OPENINGS}
    for _ in range(rounds):
        for name, code in OPENINGS.items():
            command = [sys.executable, "-c", f"{head}{code}\nprint(time.process_time() - start)"]
            times[name].append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    report(f"opening in a new process, {precision}", {name: min(each) for name, each in times.items()})


def sweep(encoder: Encoder, texts: list[str], rounds: int) -> None:
    """Print what the bare session needs for other ways to batch."""
    tokens = [encoder._tokenize(text) for text in texts]
    lengths = [len(ids) for ids in tokens]
    rows = list(range(len(texts)))
    groupings = {
        f"{most} tokens, split at {cost}": list(batches(lengths, most, cost))
        for most, cost in (
            (BATCH_TOKENS, RUN_COST),
            *((most, RUN_COST) for most in BUDGETS if most != BATCH_TOKENS),
            *((most, inf) for most in BUDGETS),
        )
    }
    groupings["32 texts, unsorted"] = [rows[start : start + 32] for start in range(0, len(rows), 32)]
    feeds = {name: bare_feeds(encoder, tokens, groups) for name, groups in groupings.items()}
    calls: Calls = {}
    for name, each in feeds.items():
        padding = sum(feed["input_ids"].size for feed in each) / sum(lengths) - 1
        calls[f"{name}: {len(each)} runs, {padding:.1%} padding"] = partial(_run_all, encoder, each)
    report(f"batches of {len(texts)} texts, per text", least(rounds, calls, max(1, 80 // len(texts))), len(texts))


def main() -> int:
    """Run as the module's text says; 1 if the embedder is not available here."""
    parser = argparse.ArgumentParser(description="minilm beside the bare ONNX session")
    parser.add_argument("--texts", type=int, default=400, help="how many texts of mixed length")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each, the least of which counts")
    parser.add_argument("--threads", type=int, default=1, help="threads of one call")
    parser.add_argument("--clients", type=int, default=32, help="how many ask at once")
    parser.add_argument("--sweep", action="store_true", help="compare ways to batch, too")
    arguments = parser.parse_args()
    embedder, small = (
        MiniLMEmbedder(MiniLMEmbedder.Settings(threads=arguments.threads, precision=precision))
        for precision in ("fp32", "int8")
    )
    for each in (embedder, small):
        if reason := each.unavailable():
            print(reason, file=sys.stderr)
            return 1
        asyncio.run(each.embed(SHORT))
    texts = sample_texts(arguments.texts)
    encoder = embedder._load()
    lengths = sorted(len(encoder._tokenize(text)) for text in texts)
    print(
        f"{len(texts)} texts of {lengths[0]} to {lengths[-1]} tokens (median {lengths[len(lengths) // 2]}), "
        f"{arguments.threads} thread(s), {os.cpu_count()} cores, least of {arguments.rounds}; the last column is the "
        "ratio to the first line"
    )
    compare_alone(embedder, texts, arguments.rounds)
    compare_clients(embedder, small, arguments.clients, arguments.rounds)
    compare_import(embedder, texts, arguments.rounds)
    compare_precisions(embedder, small, texts, arguments.rounds)
    for precision, each in (("fp32", embedder), ("int8", small)):
        compare_opening(each, arguments.rounds, precision)
    if arguments.sweep:
        for count in (8, len(texts)):
            sweep(encoder, texts[:count], arguments.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
