"""Fit the score of the embedder `minilm` to labelled pairs, print what came out, and write its data file.

    python benchmarks/calibration/fit.py            fit, print, write
    python benchmarks/calibration/fit.py --check    fit, print, and fail if the written file says something else

`--precision int8` does so for the vectors that are computed with 8-bit numbers, which have a data file of their own.

The pairs (pairs.jsonl) are queries and memories with a label: does the memory help to answer? Right and wrong pairs
weigh the same in total, so that a score of 0.5 reads "as often right as wrong, where half of all pairs are right".

The map is a sum of ramps between fixed cosines, its weights fitted by maximum likelihood (expectation maximisation of
a mixture, Dempster, Laird and Rubin 1977). The weights are positive and sum to 1, so the map rises strictly from
(-1, 0) to (1, 1), whatever the pairs. The table compares it, on queries that were left out, with the two usual maps.
A logistic curve (Platt 1999) is too sure of itself at the top: of the pairs at 0.6 and more, which share a name and a
topic, one in eight does not answer. Isotonic steps (pool adjacent violators) are as good, but flat between the steps:
two different cosines would get the same score.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perdure.backends.embedders.minilm import CALIBRATIONS
from perdure.backends.registry import build

PAIRS = Path(__file__).with_name("pairs.jsonl")
FOLDER = Path(__file__).parents[2] / "src/perdure/backends/embedders"
DATA_FILES = {precision: FOLDER / name for precision, name in CALIBRATIONS.items()}

KNOTS = np.array([-1.0, 0.0, 0.15, 0.3, 0.45, 0.6, 1.0])
"""Cosines between which the map is straight; finer ones fit the left-out queries no better."""
PRIOR = 1.0
"""Pairs that each ramp is given beforehand: keeps every weight above zero."""
FOLDS, REPEATS = 10, 5
TOLERANCE = 2e-3
"""Difference in score that `--check` lets pass: cosines differ in the last digits from machine to machine."""

SPECIFICATION = [
    ("programming languages", "User likes Python", "T4: above 0.5"),
    ("What's my budget for the trip?", "User's budget for Hawaii is $10,000", "V1: at least 0.6"),
    ("User's budget is now $15,000", "User's budget for Hawaii is $10,000", "V45: above V1"),
]
"""Sentences of the specifications. They are not among the pairs."""

Floats = NDArray[np.float64]
Map = Callable[[Floats], Floats]
Fit = Callable[[Floats, Floats, Floats], Map]


def read_pairs(file: Path) -> list[dict[str, Any]]:
    """The labelled pairs, each with `query`, `memory`, `relevant` and `style`."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def cosines(pairs: Sequence[tuple[str, str]], precision: str = "fp32") -> Floats:
    """The cosine of each pair by `minilm`."""
    embedder = build("embedders", "minilm", {"precision": precision})

    async def embed() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        left, right = zip(*pairs, strict=True)
        return await embedder.embed_batch(left), await embedder.embed_batch(right)

    queries, memories = asyncio.run(embed())
    return np.asarray((queries * memories).sum(axis=1), dtype=np.float64)


def balance(labels: Floats) -> Floats:
    """Weights that make right and wrong pairs weigh the same, one per pair on average."""
    share = labels.mean()
    return np.asarray(np.where(labels == 1, 0.5 / share, 0.5 / (1 - share)), dtype=np.float64)


def fit_ramps(x: Floats, labels: Floats, weights: Floats) -> Map:
    """The map of this file; its values at KNOTS are what is written."""
    rise = _ramps(x)
    likelihood = np.where(labels[:, None] == 1, rise, 1 - rise)
    shares = np.full(len(KNOTS) - 1, 1 / (len(KNOTS) - 1))
    for _ in range(20_000):
        blame = shares * likelihood
        blame /= np.maximum(blame.sum(axis=1, keepdims=True), 1e-300)
        counts = (weights[:, None] * blame).sum(axis=0) + PRIOR
        previous, shares = shares, counts / counts.sum()
        if np.abs(shares - previous).max() < 1e-12:
            break
    return lambda values: _ramps(values) @ shares


def fit_logistic(x: Floats, labels: Floats, weights: Floats) -> Map:
    """A logistic curve, by Newton's method."""
    design = np.stack([x, np.ones_like(x)], axis=1)
    slope = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ slope))
        curvature = (design * (weights * p * (1 - p))[:, None]).T @ design
        slope -= np.linalg.solve(curvature, design.T @ (weights * (p - labels)))
    return lambda values: 1 / (1 + np.exp(-(slope[0] * values + slope[1])))


def fit_isotonic(x: Floats, labels: Floats, weights: Floats) -> Map:
    """Isotonic steps, by pooling adjacent violators."""
    blocks: list[list[float]] = []
    for i in np.argsort(x):
        blocks.append([weights[i] * labels[i], weights[i], x[i]])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            hits, total, _ = blocks.pop()
            blocks[-1][0] += hits
            blocks[-1][1] += total
    starts = np.array([block[2] for block in blocks])
    steps = np.array([block[0] / block[1] for block in blocks])
    return lambda values: steps[np.maximum(np.searchsorted(starts, values, "right") - 1, 0)]


def left_out_loss(fit: Fit, x: Floats, labels: Floats, queries: Sequence[str]) -> float:
    """Mean log loss (nats) on queries that the fit has not seen; lower is better, 0.693 is a coin."""
    weights = balance(labels)
    names = {query: number for number, query in enumerate(dict.fromkeys(queries))}
    groups = np.array([names[query] for query in queries])
    losses = []
    for repeat in range(REPEATS):
        fold = np.random.default_rng(repeat).integers(0, FOLDS, len(names))[groups]
        guess = np.empty_like(x)
        for number in range(FOLDS):
            seen = fold != number
            guess[~seen] = fit(x[seen], labels[seen], weights[seen])(x[~seen])
        guess = np.clip(guess, 0.01, 0.99)
        losses.append(np.average(-np.log(np.where(labels == 1, guess, 1 - guess)), weights=weights))
    return float(np.mean(losses))


def _ramps(x: Floats) -> Floats:
    return np.asarray(np.clip((x[:, None] - KNOTS[:-1]) / np.diff(KNOTS), 0, 1), dtype=np.float64)


def _print_tables(pairs: Sequence[dict[str, Any]], x: Floats, labels: Floats, score: Map, precision: str) -> None:
    right, wrong = x[labels == 1], x[labels == 0]
    order = (right[:, None] > wrong).mean()
    print(f"{len(pairs)} pairs, {len(right)} right; a right one lies above a wrong one in {order:.1%} of all cases\n")
    print(f"{'style':<16}{'pairs':>6}{'median cosine right':>22}{'wrong':>8}")
    styles = np.array([pair["style"] for pair in pairs])
    for style in sorted(set(styles)):
        here = styles == style
        medians = np.median(x[here & (labels == 1)]), np.median(x[here & (labels == 0)])
        print(f"{style:<16}{here.sum():>6}{medians[0]:>22.2f}{medians[1]:>8.2f}")
    print(f"\n{'map':<16}{'log loss on left-out queries':>30}")
    queries = [pair["query"] for pair in pairs]
    for name, fit in (("ramps (used)", fit_ramps), ("logistic", fit_logistic), ("isotonic steps", fit_isotonic)):
        print(f"{name:<16}{left_out_loss(fit, x, labels, queries):>30.4f}")
    weights = balance(labels)
    print(f"\n{'cosine':<16}{'pairs':>6}{'share right':>14}{'score at middle':>18}")
    for low in np.arange(-0.2, 0.8, 0.1):
        here = (x >= low) & (x < low + 0.1)
        if here.any():
            share = np.average(labels[here], weights=weights[here])
            middle = float(score(np.array([low + 0.05]))[0])
            print(f"{low:>5.1f} to {low + 0.1:<7.1f}{here.sum():>6}{share:>14.2f}{middle:>18.2f}")
    print("\nthe specifications' own sentences")
    own = cosines([(query, memory) for query, memory, _ in SPECIFICATION], precision)
    for (query, memory, demand), cosine, value in zip(SPECIFICATION, own, score(own), strict=True):
        print(f"  {cosine:.3f} -> {value:.3f}  {demand}   ({query} / {memory})")


def main() -> int:
    """Run as the module's text says; 0, or 1 if `--check` finds another map in the data file."""
    parser = argparse.ArgumentParser(description="fit the score of the embedder minilm")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the data file differs")
    parser.add_argument("--precision", choices=sorted(DATA_FILES), default="fp32", help="of the vectors")
    arguments = parser.parse_args()
    data_file = DATA_FILES[arguments.precision]
    pairs = read_pairs(PAIRS)
    x = cosines([(pair["query"], pair["memory"]) for pair in pairs], arguments.precision)
    labels = np.array([float(pair["relevant"]) for pair in pairs])
    score = fit_ramps(x, labels, balance(labels))
    _print_tables(pairs, x, labels, score, arguments.precision)
    at_knots = [round(float(value), 4) for value in score(KNOTS)]
    if arguments.check:
        written = json.loads(data_file.read_text(encoding="utf-8"))
        same = written["cosines"] == KNOTS.tolist() and np.allclose(written["scores"], at_knots, atol=TOLERANCE)
        print("\nthe data file " + ("agrees" if same else f"differs: {at_knots}"))
        return 0 if same else 1
    name = "minilm" if arguments.precision == "fp32" else f"minilm-{arguments.precision}"
    data = {"embedder": name, "pairs": len(pairs), "cosines": KNOTS.tolist(), "scores": at_knots}
    data_file.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten: {data_file.name} {at_knots}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
