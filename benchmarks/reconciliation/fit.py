"""Fits the weights that the rules curator's reconciliation weighs its evidence by (`reconcile_weights.tsv`).

    python fit.py OUT RECONCILE.jsonl... --pairs PAIRS.txt...

RECONCILE.jsonl are items in the format of benchmarks/data/curation; PAIRS.txt has a line `N|fact|memory` (the memory
holds the fact), `U|...` (the fact changes it) or `A|...` (another matter). Beside the labelled pairs, three kinds of
negatives are made: memories of one item beside each other, facts beside the memories that are not their target, and
facts beside memories of other lines. Prints the cross-validated accuracy and the share of false changes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from perdure.backends.embedders.minilm import MiniLMEmbedder
from perdure.domain.clock import iso, system_clock
from perdure.domain.fact import Neighbour
from perdure.domain.memory import MemoryItem, text_hash
from perdure.domain.scope import Scope
from perdure.pipeline.reconciliation.evidence import evidence
from perdure.pipeline.reconciliation.judge import judge_reading
from perdure.pipeline.slots import read

OUTCOMES = {"ADD": 0, "NONE": 1}
RIDGE, ROUNDS, RATE = 20.0, 400, 0.5
WEIGHTS = {"pair": 1.0, "beside": 0.1, "untargeted": 0.4, "crossed": 0.06}
NOW = iso(system_clock())


class Cosines:
    """Cosines of texts, each embedded once."""

    def __init__(self) -> None:
        self._embedder = MiniLMEmbedder(MiniLMEmbedder.Settings())
        self._vectors: dict[str, np.ndarray] = {}

    def __call__(self, one: str, two: str) -> float:
        missing = [text for text in (one, two) if text not in self._vectors]
        if missing:
            self._vectors.update(zip(missing, asyncio.run(self._embedder.embed_batch(missing)), strict=True))
        return float(self._vectors[one] @ self._vectors[two])


def row(fact: str, memories: list[str], cosine: Cosines) -> tuple[dict[str, float], float, str]:
    """The evidence of a fact beside the nearest of some memories, with its cosine and text."""
    ranked = sorted(((cosine(fact, text), text) for text in memories), reverse=True)
    near = [
        Neighbour(
            item=MemoryItem(
                id=str(n),
                memory=text,
                hash=text_hash(text),
                scope=Scope(user_id="u"),
                created_at=NOW,
                updated_at=NOW,
                told_at=NOW,
            ),
            similarity=similarity,
        )
        for n, (similarity, text) in enumerate(ranked)
    ]
    best = judge_reading(read(fact), near)[0]
    return evidence(best.pair, cosine, best.verdict if best.firm else None), ranked[0][0], ranked[0][1]


def of_items(path: Path, cosine: Cosines) -> Iterator[tuple[str, dict[str, float], int]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        texts = {memory["id"]: memory["text"] for memory in item["existing"]}
        for text in texts.values():
            rest = [other for other in texts.values() if other != text]
            if rest and (found := row(text, rest, cosine))[1] >= 0.35:
                yield "beside", found[0], 0
        if "forget" in item["tags"]:
            continue
        targets = {want.get("id") for want in item["expect"]} - {None}
        outcome = OUTCOMES.get(item["kind"], 2)
        found = row(item["fact"], list(texts.values()), cosine)
        hit = found[2] in {texts[target] for target in targets}
        yield "pair", found[0], outcome if outcome != 2 or hit else 0
        kept = [
            texts[key] for key in item["must_keep"] if key not in targets and (outcome != 1 or texts[key] != found[2])
        ]
        if (
            outcome
            and kept
            and (other := row(item["fact"], kept, cosine))[1] >= 0.3
            and (outcome == 2 or other[1] <= 0.6)
        ):
            yield "untargeted", other[0], 0


def of_pairs(path: Path, cosine: Cosines) -> Iterator[tuple[str, dict[str, float], int]]:
    lines = [line.split("|") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for kind, fact, memory in lines:
        yield "pair", row(fact, [memory], cosine)[0], "ANU".index(kind)
        others = [text for _, other, text in lines if other != fact and 0.3 <= cosine(fact, text) < 0.62]
        if others:
            yield "crossed", row(fact, others, cosine)[0], 0


def fit(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Multinomial logistic regression with a ridge, over standardised evidence; column 0 is the bias."""
    mean, spread = x.mean(0), x.std(0) + 1e-6
    mean[0], spread[0] = 0.0, 1.0
    z, truth, w = (x - mean) / spread, np.eye(3)[y], np.zeros((x.shape[1], 3))
    for _ in range(ROUNDS):
        ridge = w.copy()
        ridge[0] = 0.0
        w -= RATE * (z.T @ ((odds(z @ w) - truth) * weight[:, None]) + RIDGE * ridge) / weight.sum()
    raw = w / spread[:, None]
    raw[0] = w[0] - (mean / spread)[1:] @ w[1:]
    return raw


def odds(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("items", type=Path, nargs="*")
    parser.add_argument("--pairs", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    cosine = Cosines()
    rows = [found for path in given.items for found in of_items(path, cosine)]
    rows += [found for path in given.pairs for found in of_pairs(path, cosine)]
    names = list(rows[0][1])
    x = np.array([[found[name] for name in names] for _, found, _ in rows])
    y = np.array([outcome for *_, outcome in rows])
    source = np.array([kind for kind, *_ in rows])
    weight = np.array([WEIGHTS[kind] for kind in source])
    fold = np.random.default_rng(0).integers(0, 10, len(y))
    guess = np.zeros((len(y), 3))
    for part in range(10):
        guess[fold == part] = odds(x[fold == part] @ fit(x[fold != part], y[fold != part], weight[fold != part]))
    chosen = np.where(guess[:, 2] >= 0.52, 2, np.where(guess[:, 1] > guess[:, 0], 1, 0))
    for kind in WEIGHTS:
        here = source == kind
        if here.any():
            false = ((chosen == 2) & (y != 2))[here].mean()
            print(f"{kind:10} {here.sum():5}  right {(chosen == y)[here].mean():.3f}  false changes {false:.3f}")
    lines = [
        f"{name}\t{' '.join(f'{value:.4f}' for value in values)}"
        for name, values in zip(names, fit(x, y, weight), strict=True)
    ]
    head = (
        "# Weights of the evidence for: a new matter, the same fact, a changed one (multinomial logistic regression)."
    )
    given.out.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
