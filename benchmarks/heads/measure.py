"""Measures the packaged judge on labelled pairs of statements that it was not trained on.

    python measure.py PAIRS.tsv...

PAIRS.tsv has a label, the newer statement and the older one (benchmarks/data/relations). Prints the AUC of "replaces"
and of "the same" with the 95 % interval of a bootstrap over groups of one older statement, how often the likeliest of
the five relations is the labelled one, and what the thresholds of the curator let through.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from perdure.backends.embedders.minilm import MiniLMEmbedder
from perdure.pipeline.curation.rules.reconciliation.decisions import VETOED

LABELS = "RSFBX"
DRAWS = 500


def auc(score: np.ndarray, label: np.ndarray) -> float:
    """Return the share of pairs, one with the label and one without, that are in the right order."""
    order = np.argsort(score, kind="stable")
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    good = label.sum()
    return float((ranks[label].sum() - good * (good + 1) / 2) / (good * (len(label) - good)))


def interval(score: np.ndarray, label: np.ndarray, groups: list[str]) -> tuple[float, float]:
    random = np.random.default_rng(0)
    names = sorted(set(groups))
    rows = {name: np.flatnonzero(np.array(groups) == name) for name in names}
    found = []
    for _ in range(DRAWS):
        some = np.concatenate([rows[names[place]] for place in random.integers(0, len(names), len(names))])
        if 0 < label[some].sum() < len(some):
            found.append(auc(score[some], label[some]))
    return float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, nargs="+")
    given = parser.parse_args()
    judge = MiniLMEmbedder(MiniLMEmbedder.Settings()).judge()
    assert judge is not None, "minilm and its weights are installed"
    for path in given.pairs:
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        labels = np.array([LABELS.index(label) for label, _, _ in rows])
        olds = [old for _, _, old in rows]
        said = judge.relations([(new, old) for _, new, old in rows])
        shares = np.array([[each.replaces, each.same, each.refines, each.beside, each.unrelated] for each in said])
        print(f"{path.name}: {len(rows)} pairs beside {len(set(olds))} older statements")
        for place, name in enumerate(("replaces", "same")):
            low, high = interval(shares[:, place], labels == place, olds)
            print(f"  {name:9} AUC {auc(shares[:, place], labels == place):.3f} [{low:.3f}, {high:.3f}]")
        print(f"  likeliest of five is right {np.mean(shares.argmax(axis=1) == labels):.3f}")
        for name, threshold in (("likely", 0.4), ("sure", 0.9)):
            hit = shares[:, 0] >= threshold
            right, found = np.mean(labels[hit] == 0), np.mean(hit[labels == 0])
            print(f"  {name:9} from {threshold}: {hit.sum()} pairs, {right:.3f} replaced; {found:.3f} of what is")
        vetoed = shares[:, 0] + shares[:, 2] < VETOED
        beside, gone = np.mean(vetoed[labels == LABELS.index("B")]), np.mean(vetoed[labels == 0])
        print(f"  vetoed    under {VETOED}: {beside:.3f} of what stands beside; {gone:.3f} of what is replaced")


if __name__ == "__main__":
    main()
