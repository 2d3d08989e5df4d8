"""Fits the network by which the rules curator's reconciliation weighs its evidence (`reconcile_weights.tsv`).

    python fit.py OUT [--items RECONCILE.jsonl...] [--pairs PAIRS.txt...] [--dialogues DIALOGUES.jsonl...]

RECONCILE.jsonl and DIALOGUES.jsonl are in the formats of benchmarks/data/curation; PAIRS.txt has a line
`N|fact|memory` (the memory holds the fact), `U|...` (the fact changes it) or `A|...` (another matter). `rows.py` tells
which negatives are made. Prints what is right in cross-validation over whole dialogues and whole stretches of lines.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rows import CHANGE, WEIGHTS, Cosines, Row, of_dialogues, of_items, of_pairs

HIDDEN, NETWORKS, EPOCHS, BATCH = 16, 3, 150, 256
DECAY, RATE = 1e-2, 3e-3
"""Weight decay and step (Adam): the best of a small grid by the cross-validation that this script prints."""
FOLDS = 8
THRESHOLD = 0.5

Layers = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Input weights (features, hidden), hidden bias, output weights (hidden, 3), output bias."""


def odds(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def apply(layers: Layers, x: np.ndarray) -> np.ndarray:
    first, bias, second, base = layers
    return odds(np.tanh(x @ first + bias) @ second + base)


def fit(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Layers:
    """Several small networks side by side, their scores averaged: together one network, on raw evidence."""
    mean, spread = x.mean(0), x.std(0) + 1e-6
    z = (x - mean) / spread
    nets = [_train(z, y, weight / weight.mean(), seed) for seed in range(NETWORKS)]
    first = np.concatenate([net[0] for net in nets], axis=1) / spread[:, None]
    bias = np.concatenate([net[1] for net in nets]) - mean @ first
    second = np.concatenate([net[2] for net in nets]) / NETWORKS
    return first, bias, second, sum(net[3] for net in nets) / NETWORKS


def _train(z: np.ndarray, y: np.ndarray, weight: np.ndarray, seed: int) -> Layers:
    random = np.random.default_rng(seed)
    layers = [
        random.normal(0, z.shape[1] ** -0.5, (z.shape[1], HIDDEN)),
        np.zeros(HIDDEN),
        random.normal(0, 0.3, (HIDDEN, 3)),
        np.zeros(3),
    ]
    truth = np.eye(3)[y]
    means, squares = [np.zeros_like(p) for p in layers], [np.zeros_like(p) for p in layers]
    step = 0
    for _ in range(EPOCHS):
        for part in np.array_split(random.permutation(len(z)), max(1, len(z) // BATCH)):
            step += 1
            hidden = np.tanh(z[part] @ layers[0] + layers[1])
            error = (odds(hidden @ layers[2] + layers[3]) - truth[part]) * weight[part, None] / len(part)
            back = (error @ layers[2].T) * (1 - hidden**2)
            slopes = [z[part].T @ back + DECAY * layers[0], back.sum(0), hidden.T @ error + DECAY * layers[2]]
            slopes.append(error.sum(0))
            for at, slope in enumerate(slopes):
                means[at] = 0.9 * means[at] + 0.1 * slope
                squares[at] = 0.999 * squares[at] + 0.001 * slope**2
                sized = np.sqrt(squares[at] / (1 - 0.999**step)) + 1e-8
                layers[at] = layers[at] - RATE * means[at] / (1 - 0.9**step) / sized
    return layers[0], layers[1], layers[2], layers[3]


def validate(rows: list[Row], x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
    groups = sorted({row.group for row in rows})
    fold_of = {group: n % FOLDS for n, group in enumerate(np.random.default_rng(0).permutation(groups))}
    fold = np.array([fold_of[row.group] for row in rows])
    guess = np.zeros((len(y), 3))
    for part in range(FOLDS):
        guess[fold == part] = apply(fit(x[fold != part], y[fold != part], weight[fold != part]), x[fold == part])
    chosen = np.where(guess[:, CHANGE] >= THRESHOLD, CHANGE, np.where(guess[:, 1] > guess[:, 0], 1, 0))
    kinds = np.array([row.kind for row in rows])
    for kind in WEIGHTS:
        here = kinds == kind
        if here.any():
            false = ((chosen == CHANGE) & (y != CHANGE))[here].mean()
            print(f"{kind:10} {here.sum():5}  right {(chosen == y)[here].mean():.3f}  false changes {false:.3f}")


def write(out: Path, names: list[str], layers: Layers) -> None:
    first, bias, second, base = layers
    lines = [
        "# A small network over the evidence (benchmarks/reconciliation/fit.py): each signal's weights into the hidden",
        "# units, their bias, then each outcome's weights out of them, its own bias first.",
    ]
    table = [*zip(names, first, strict=True), ("=bias", bias)]
    table += [
        (f"={outcome}", np.concatenate([[base[n]], second[:, n]]))
        for n, outcome in enumerate(("other", "same", "change"))
    ]
    lines += [f"{name}\t{' '.join(f'{value:.3f}' for value in values)}" for name, values in table]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for source in ("--items", "--pairs", "--dialogues"):
        parser.add_argument(source, type=Path, nargs="*", default=[])
    given = parser.parse_args()
    cosine = Cosines()
    rows = [row for path in given.items for row in of_items(path, cosine)]
    rows += [row for path in given.pairs for row in of_pairs(path, cosine)]
    rows += [row for path in given.dialogues for row in of_dialogues(path, cosine)]
    names = list(rows[0].found)
    x = np.array([[row.found[name] for name in names] for row in rows])
    y = np.array([row.outcome for row in rows])
    weight = np.array([WEIGHTS[row.kind] for row in rows])
    validate(rows, x, y, weight)
    write(given.out, names, fit(x, y, weight))


if __name__ == "__main__":
    main()
