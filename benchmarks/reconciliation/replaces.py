"""Fits how likely a fact replaces an earlier statement (`reconcile_replaces.tsv`) to talk that the judge never saw.

    python replaces.py OUT.tsv DIALOGUES.jsonl... [--check DIALOGUES.jsonl...]

The curator's own weights were written from ../data/talk/held.jsonl and ../data/talk/train3.jsonl, with the judge that
was fitted to train.jsonl and train2.jsonl. Another run writes slightly other ones: what is stored, and so compared,
depends on the weights in use.

Every dialogue is told to a memory by `add`, message by message, and what the curator weighs is taken down as it does:
the learned judgement of a fact beside the nearest facts and notes, how near they are, and what their words say
(`judge.signs`). A pair counts as a replacement if the message makes a labelled fact out of date that the older
statement says. Prints, for facts and notes together and in cross-validation over whole dialogues, how many of the
labelled changes are found at which precision; for `--check` with the weights of all the others.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from perdure import Memory
from perdure.pipeline.curation.rules.reconciliation import decisions, judge
from perdure.pipeline.curation.rules.reconciliation.pairing import Finding
from talk_data import read_dialogues, says

FOLDS, DECAY, STEPS = 8, 5.0, 40
"""Parts of the cross-validation; weight of the squares (L2) on standardised signs; Newton's steps."""
PRECISIONS = (0.7, 0.75, 0.8, 0.85)


@dataclass(frozen=True)
class Row:
    dialogue: str
    message: int
    old: str
    changes: tuple[str, ...]
    """The labelled changes that this pair would be."""
    signs: dict[str, float]
    may: bool
    """Whether the older one is retired if the weights are sure: a note only links."""


def of_dialogues(path: Path) -> Iterator[tuple[list[Row], set[tuple[str, str]]]]:
    """The pairs that the curator weighs in each dialogue, and the changes that are labelled in it."""
    items = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for item, turns in zip(items, read_dialogues(path), strict=True):
        said = [m for session in item["sessions"] for m in session if m["role"] == "user"]
        tagged = {f["tag"]: f for m in said for f in (*m["facts"], *m.get("optional", ())) if f.get("tag")}
        changes = {(item["id"], tag) for m in said for tag in m.get("retires", ())}
        rows: list[Row] = []
        heard: list[tuple[Finding, bool]] = []
        with _taken_down(heard), tempfile.TemporaryDirectory() as folder, Memory.local(folder) as memory:
            for number, (turn, m) in enumerate(zip(turns, said, strict=True)):
                heard.clear()
                memory.add([*([turn.before] if turn.before else []), turn.message], user_id=item["id"])
                rows += [_row(item["id"], number, each, {t: tagged[t] for t in m.get("retires", ())}) for each in heard]
        yield rows, changes


def _taken_down(heard: list[tuple[Finding, bool]]) -> Any:
    """While this is open, every finding that has a learned judgement is added to the list."""

    def and_heard(inner: Any) -> Any:
        def call(*given: Any) -> Any:
            found = inner(*given)
            is_fact = given[0].kind == "facts"
            heard.extend((each, is_fact) for each in found if each.relation and not each.pair.memory.beside)
            return found

        return call

    return mock.patch.object(decisions, "_with_judgement", and_heard(decisions._with_judgement))


def _row(dialogue: str, message: int, heard: tuple[Finding, bool], ended: dict[str, Any]) -> Row:
    finding, is_fact = heard
    old = finding.pair.memory.item.memory
    changes = tuple(tag for tag, fact in ended.items() if says(old, fact))
    may = is_fact and (finding.pair.memory.item.kind == "notes" or judge.may_take_place(finding))
    return Row(dialogue, message, old, changes, judge.signs(finding), may)


def fit(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Logistic regression: a weight for each sign as it is, and the score without any."""
    mean, spread = x.mean(0), x.std(0) + 1e-6
    z = np.c_[(x - mean) / spread, np.ones(len(x))]
    weights, squares = np.zeros(z.shape[1]), np.diag([DECAY] * x.shape[1] + [0.0])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-z @ weights))
        slope = z.T @ (p - y) + squares @ weights
        weights -= np.linalg.solve((z * (p * (1 - p))[:, None]).T @ z + squares, slope)
    scaled = weights[:-1] / spread
    return scaled, float(weights[-1] - mean @ scaled)


def shown(name: str, rows: list[Row], score: np.ndarray, changes: int) -> None:
    """Prints how many changes are found at the lowest score that still has a precision."""
    best: dict[tuple[str, int, str], tuple[float, Row]] = {}
    for row, value in zip(rows, score, strict=True):
        key = (row.dialogue, row.message, row.old)
        if row.may and (key not in best or best[key][0] < value):
            best[key] = (float(value), row)
    found: set[tuple[str, str]] = set()
    wrong = 0
    at: dict[float, str] = {}
    for number, (value, row) in enumerate(sorted(best.values(), key=lambda each: -each[0]), 1):
        found |= {(row.dialogue, tag) for tag in row.changes}
        wrong += not row.changes
        for wanted in PRECISIONS:
            if number >= 10 and 1 - wrong / number >= wanted:
                at[wanted] = f"{len(found)} from {1 / (1 + np.exp(-value)):.2f}"
    line = "; ".join(f"precision {wanted}: {at.get(wanted, 'none')}" for wanted in PRECISIONS)
    print(f"{name:10} {len(rows)} pairs, {changes} changes; {line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("dialogues", type=Path, nargs="+")
    parser.add_argument("--check", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    read = [each for path in given.dialogues for each in of_dialogues(path)]
    rows = [row for some, _ in read for row in some]
    changes = sum(len(some) for _, some in read)
    names = list(rows[0].signs)
    x = np.array([[row.signs[name] for name in names] for row in rows])
    y = np.array([bool(row.changes) for row in rows], float)
    order = np.random.default_rng(0).permutation(sorted({row.dialogue for row in rows}))
    part = {dialogue: place % FOLDS for place, dialogue in enumerate(order)}
    fold = np.array([part[row.dialogue] for row in rows])
    score = np.zeros(len(rows))
    for number in range(FOLDS):
        weights, base = fit(x[fold != number], y[fold != number])
        score[fold == number] = x[fold == number] @ weights + base
    shown("validated", rows, score, changes)
    weights, base = fit(x, y)
    for path in given.check:
        others = list(of_dialogues(path))
        unread = [row for some, _ in others for row in some]
        signs = np.array([[row.signs[name] for name in names] for row in unread])
        shown(path.stem, unread, signs @ weights + base, sum(len(some) for _, some in others))
    lines = ["# How much each sign weighs for a fact replacing a statement (benchmarks/reconciliation/replaces.py)."]
    lines += [f"{name}\t{weight:.4f}" for name, weight in zip((*names, "="), (*weights, base), strict=True)]
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
