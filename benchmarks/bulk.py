"""How fast messages are stored as they are, against the bare encoder and against a bare durable write.

    python benchmarks/bulk.py [--messages 2000]

Prints messages a second of `add([...], infer=False)` in calls of 250, with `minilm` beside the encoder alone, and with
`hashed`; then single durable adds a second, beside single fsyncs a second of the same disk; and how many bytes are
written to files for each message of 80 characters in calls of 250, log and closing included (Linux only).
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from perdure import Memory

CALL = 250
PLACES = ("Lisbon", "Oslo", "Kyoto", "Quito", "Tartu", "Cork")
THINGS = (
    "the tram to the harbour",
    "a recipe for lentil soup",
    "my sister's violin",
    "the broken dishwasher",
    "a tax form",
)


def sentences(count: int, seed: int) -> list[str]:
    """Chat-like sentences of 8 to 40 words, all different."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        parts = [
            f"On day {chance.randrange(10_000)} I thought about {chance.choice(THINGS)} in {chance.choice(PLACES)}"
            for _ in range(chance.choice((1, 1, 2, 3)))
        ]
        made.append(f"{'. '.join(parts)} (note {number})")
    return made


def memory(folder: str, embedder: str) -> Memory:
    return Memory({"path": folder, "embedder": {"provider": embedder}})


def rate(count: int, action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return count / (time.perf_counter() - started)


def stored(embedder: str, texts: list[str]) -> tuple[float, float]:
    """Messages a second through `add`, and through the encoder alone, in alternating calls of 250 on one memory."""
    with tempfile.TemporaryDirectory() as folder, memory(folder, embedder) as store:
        store.add("warm up", user_id="ana", infer=False)
        adding = encoding = 0.0
        for start in range(0, len(texts), CALL):
            batch = texts[start : start + CALL]
            moment = time.perf_counter()
            store.add([{"role": "user", "content": text} for text in batch], user_id="ana", infer=False)
            adding += time.perf_counter() - moment
            moment = time.perf_counter()
            store.embedder.embed_batch([f"{text} again" for text in batch])
            encoding += time.perf_counter() - moment
        return len(texts) / adding, len(texts) / encoding


def singles(count: int) -> tuple[float, float]:
    """Durable single adds a second, and fsyncs of a small file a second on the same disk."""
    with tempfile.TemporaryDirectory() as folder:
        with memory(folder, "hashed") as store:
            store.add("warm up", user_id="ana", infer=False)

            def add_all() -> None:
                for number in range(count):
                    store.add(f"single note {number}", user_id="ana", infer=False)

            adds = rate(count, add_all)
        with (Path(folder) / "probe").open("wb", buffering=0) as probe:

            def sync_all() -> None:
                for _ in range(count):
                    probe.write(b"x" * 4096)
                    os.fsync(probe.fileno())

            return adds, rate(count, sync_all)


def bytes_written(count: int, embedder: str) -> float:
    """Bytes that the process writes for each message, from an open memory to a closed one."""

    def written() -> int:
        lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
        return int(dict(line.split(": ") for line in lines)["wchar"])

    texts = [f"{number} {text}"[:80] for number, text in enumerate(sentences(count, 3))]
    with tempfile.TemporaryDirectory() as folder:
        with memory(folder, embedder) as store:
            store.add("warm up", user_id="ana", infer=False)
            before = written()
            for start in range(0, count, CALL):
                batch = [{"role": "user", "content": text} for text in texts[start : start + CALL]]
                store.add(batch, user_id="ana", infer=False)
        return (written() - before) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--hashed-messages", type=int, default=10_000)
    arguments = parser.parse_args()
    rows = []
    added, encoded = stored("minilm", sentences(arguments.messages, 1))
    rows.append(("minilm: add, calls of 250", added, "bare encoder", encoded))
    added, encoded = stored("hashed", sentences(arguments.hashed_messages, 2))
    rows.append(("hashed: add, calls of 250", added, "bare encoder", encoded))
    single, fsync = singles(500)
    rows.append(("hashed: single durable adds", single, "bare fsync", fsync))
    print(f"{'what':<30}{'per second':>12}  {'beside':<14}{'per second':>12}{'ratio':>8}")
    for what, figure, beside, limit in rows:
        print(f"{what:<30}{figure:>12,.0f}  {beside:<14}{limit:>12,.0f}{figure / limit:>8.2f}")
    if Path("/proc/self/io").exists():
        for embedder, count in (("minilm", arguments.messages), ("hashed", arguments.hashed_messages)):
            print(f"{embedder}: kilobytes written for each message{bytes_written(count, embedder) / 1000:>8.1f}")


if __name__ == "__main__":
    main()
