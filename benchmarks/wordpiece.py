"""Our WordPiece beside the package `tokenizers`: equal on every text, and how long each takes.

    python benchmarks/wordpiece.py [FILE ...] [--texts 100000]

Texts are the lines of the files (by default of this repository, in which a score of languages stand) as they are, and
mixed with characters of all of Unicode; and every character by itself and within a word. Exits with 1 if any differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tokenizers import Tokenizer

from perdure.backends.embedders._wordpiece import read_tokenizer
from perdure.backends.embedders.minilm import find_model

MOST = 256
KINDS = {".md", ".py", ".json", ".jsonl", ".tsv", ".toml", ".txt"}
Tokenize = Callable[[str], list[int]]
ODD = (
    "[CLS]",
    "[MASK]x",
    "[SEP",
    "\u0000",
    "\ufffd",
    "\u200b",
    "\u0130",
    "\u1e9e",
    "\ufb01",
    "\u00a0",
    "\u3000",
    "\r\n",
)


def both(file: Path) -> tuple[Tokenize, Tokenize]:
    """Ours and the driver's, each to at most MOST tokens."""
    ours = read_tokenizer(file, MOST)
    assert ours is not None
    driver = Tokenizer.from_file(str(file))
    driver.no_padding()
    driver.no_truncation()

    def theirs(text: str) -> list[int]:
        ids = driver.encode(text).ids
        return ids if len(ids) <= MOST else [*ids[: MOST - 1], ids[-1]]

    return ours, theirs


def lines(paths: list[Path]) -> list[str]:
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    found = dict[str, None]()
    for file in files:
        if file.suffix in KINDS and file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            found.update(dict.fromkeys(line[:20_000] for line in text.splitlines() if line.strip()))
    return list(found)


def mixed(text: str, draw: random.Random) -> str:
    """The text with some characters in between that stand in no text of ours, and in other places what it says."""
    parts = list(text)
    for _ in range(draw.randint(1, 6)):
        place = draw.randint(0, len(parts))
        # Most of Unicode's planes are empty: half are drawn from the first, which people write in.
        code = draw.randrange(0x3000 if draw.random() < 0.5 else 0x110000)
        parts[place:place] = [draw.choice(ODD)] if draw.random() < 0.2 or 0xD800 <= code < 0xE000 else [chr(code)]
    return "".join(parts)


def texts(seeds: list[str], count: int, draw: random.Random) -> Iterator[str]:
    """As many texts: lines as they are, and from then on mixed ones."""
    draw.shuffle(seeds)
    yield from seeds[: count // 2]
    for _ in range(count - min(len(seeds), count // 2)):
        yield mixed(draw.choice(seeds), draw)


def characters() -> Iterator[str]:
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000:
            yield f"x{chr(code)}y {chr(code)} a{chr(code)}"


def unequal(ours: Tokenize, theirs: Tokenize, some: Iterator[str]) -> tuple[int, list[str]]:
    """How many texts were compared, and those that differ."""
    count, found = 0, []
    for text in some:
        count += 1
        if ours(text) != theirs(text):
            found.append(text)
    return count, found


def microseconds(tokenize: Tokenize, some: list[str]) -> float:
    start = time.perf_counter()
    for text in some:
        tokenize(text)
    return (time.perf_counter() - start) / len(some) * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--texts", type=int, default=100_000)
    asked = parser.parse_args()
    files = find_model(None, None)
    if files is None:
        raise SystemExit("there are no weights of MiniLM")
    ours, theirs = both(files.tokenizer)
    seeds = lines(asked.files or [Path(__file__).parents[1] / name for name in ("docs", "benchmarks", "tests", "src")])
    broken = 0
    for name, some in (("texts", texts(seeds, asked.texts, random.Random(1))), ("characters", characters())):
        count, found = unequal(ours, theirs, some)
        broken += len(found)
        print(f"{name}: {count}, of which {len(found)} differ {[text[:60] for text in found[:3]]}")
    for name, some in (
        ("of up to 60 characters", [text for text in seeds if len(text) <= 60][:20_000]),
        ("of 500 and more", [text for text in seeds if len(text) >= 500][:2_000]),
    ):
        # The words of a text that is new are new in part: the first round is what a first reading takes.
        first = microseconds(both(files.tokenizer)[0], some), microseconds(theirs, some)
        again = microseconds(ours, some), microseconds(theirs, some)
        print(
            f"microseconds a text {name} ({len(some)}), ours and tokenizers: first {first[0]:.1f} {first[1]:.1f}",
            end="",
        )
        print(f", again {again[0]:.1f} {again[1]:.1f}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
