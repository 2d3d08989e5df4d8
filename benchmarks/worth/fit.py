"""Fits what a sentence, and a fact made of it, is worth, and shows what the curator would keep by it.

    python benchmarks/worth/fit.py TRAIN.jsonl... [--held HELD.jsonl...] [--out WEIGHTS.tsv]

Files are dialogues (benchmarks/data/talk) or short items (benchmarks/data/curation, `extraction_*`). A sentence or a
fact counts as worth keeping if it holds all keywords of a fact of its dialogue. Prints, for the held files, how well
each model tells them apart (AUC, with the interval of a bootstrap over dialogues), and what the rules alone would keep
beside what the curator keeps with these weights. The curator's own (`worth_weights.tsv` in the lexicon) were written by

    python benchmarks/worth/fit.py benchmarks/data/talk/train.jsonl benchmarks/data/talk/train2.jsonl
        benchmarks/data/curation/extraction_dev*.jsonl benchmarks/data/curation/extraction_{nofact,plain,traps}.jsonl
        --out WEIGHTS.tsv
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from perdure.pipeline.curation.rules.extraction import Extracted, read_messages, rules_alone, worth
from talk_data import Turn, read_dialogues, says, says_any

MODELS = (worth.SENTENCE, worth.FACT, worth.WHOLE)
RIDGE = 10.0
"""Strength of the penalty on the weights; with 3, 30 and 100 the sentences' AUC on held dialogues differs by .005."""
EMPTY = 2.0
"""How much an example counts of a message from which nothing should be kept.

Of 2 and 3, by totals of held dialogues and by plain short messages, of which 3 loses some ("I don't like iced coffee").
"""
CONTEXT = 24
DIGITS = 3


@dataclass(slots=True)
class Examples:
    """Feature values of one model's examples, what is right, and the dialogue of each."""

    features: list[Mapping[str, float]] = field(default_factory=list)
    labels: list[bool] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    """How much each counts."""


def collect(turns: Sequence[Turn], sentence_weights: Mapping[str, float]) -> dict[str, Examples]:
    """Return the examples of each model; nothing is kept, so that every candidate is looked at."""
    found = {model: Examples() for model in MODELS}
    turn: Turn | None = None

    def judge(model: str, text: str, beside: str, features: Mapping[str, float]) -> float:
        assert turn is not None, "a message is being looked at"
        examples = found[model]
        examples.features.append(features)
        examples.labels.append(says_any(text, turn.known))
        examples.groups.append(turn.dialogue)
        examples.weights.append(1.0 if turn.gold else EMPTY)
        return 0.0 if model != worth.SENTENCE else probability(sentence_weights, features)

    for turn in turns:
        read(turn, judge)
    return found


def read(turn: Turn, judge: worth.Judge) -> Extracted:
    """Return what the curator keeps of a turn, by this judge."""
    messages = [*([turn.before] if turn.before else []), turn.message]
    assert turn.message.timestamp is not None, "turns are dated"
    return read_messages(messages, now=turn.message.timestamp, context=turn.context[-CONTEXT:], judge=judge)


def turns_of(paths: Sequence[Path]) -> list[Turn]:
    return [turn for path in paths for turns in read_dialogues(path) for turn in turns]


def kept(turns: Sequence[Turn], judge: worth.Judge) -> str:
    """Return how much of what would be kept of the turns is right, and how much of what should be is kept."""
    stored = right = gold = said = reached = empty = clean = 0
    for turn in turns:
        extracted = read(turn, judge)
        texts = [fact.text for fact in extracted.facts if not fact.forget]
        notes = [note.text for note in extracted.notes]
        stored += len(texts)
        right += sum(says_any(text, turn.known) for text in texts)
        for fact in turn.gold:
            gold += 1
            said += any(says(text, fact) for text in texts)
            reached += any(says(text, fact) for text in (*texts, *notes))
        empty += not turn.gold
        clean += not turn.gold and not texts
    return (
        f"facts {stored:5,}  precision {right / stored:.3f}  recall {said / gold:.3f}  with notes "
        f"{reached / gold:.3f}  no fact of empty messages {clean / empty:.3f}"
    )


def probability(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    return logistic(sum(weights.get(name, 0.0) * value for name, value in features.items()))


def logistic(score: float) -> float:
    return 1.0 / (1.0 + float(np.exp(-np.clip(score, -60, 60))))


def fit(examples: Examples) -> dict[str, float]:
    """Return the weights of a logistic regression with a ridge penalty (Newton's method)."""
    names = sorted({name for each in examples.features for name in each})
    x = matrix(examples.features, names)
    y = np.array(examples.labels, np.float64)
    weights = np.zeros(len(names))
    penalty = np.array([0.0 if name == "bias" else RIDGE for name in names])
    counts = np.array(examples.weights)
    for _ in range(40):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ weights, -60, 60)))
        slope = x.T @ (counts * (p - y)) + penalty * weights
        curve = (x * (counts * p * (1 - p))[:, None]).T @ x + np.diag(penalty + 1e-6)
        step = np.linalg.solve(curve, slope)
        weights -= step
        if np.abs(step).max() < 1e-6:
            break
    return {name: round(float(value), DIGITS) for name, value in zip(names, weights, strict=True)}


def matrix(features: Sequence[Mapping[str, float]], names: Sequence[str]) -> np.ndarray:
    places = {name: place for place, name in enumerate(names)}
    x = np.zeros((len(features), len(names)))
    for row, each in enumerate(features):
        for name, value in each.items():
            if name in places:
                x[row, places[name]] = value
    return x


def scores(examples: Examples, weights: Mapping[str, float]) -> np.ndarray:
    names = sorted(weights)
    return matrix(examples.features, names) @ np.array([weights[name] for name in names])


def auc(score: np.ndarray, label: np.ndarray) -> float:
    """Return the share of pairs, one worth keeping and one not, that are in the right order."""
    order = np.argsort(score, kind="stable")
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    good = label.sum()
    return float((ranks[label > 0].sum() - good * (good + 1) / 2) / (good * (len(label) - good)))


def interval(score: np.ndarray, label: np.ndarray, groups: Sequence[str], draws: int = 200) -> tuple[float, float]:
    """Return the 95 % interval of the AUC by a bootstrap over dialogues."""
    random = np.random.default_rng(0)
    rows = {group: np.flatnonzero(np.array(groups) == group) for group in set(groups)}
    keys = sorted(rows)
    found = []
    for _ in range(draws):
        some = np.concatenate([rows[keys[place]] for place in random.integers(0, len(keys), len(keys))])
        found.append(auc(score[some], label[some]))
    return float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", nargs="+", type=Path)
    parser.add_argument("--held", nargs="*", type=Path, default=[])
    parser.add_argument("--out", type=Path, help="where to write the weights; default: nowhere")
    arguments = parser.parse_args()
    train, held_turns = turns_of(arguments.train), turns_of(arguments.held)
    first = fit(collect(train, {})[worth.SENTENCE])
    examples = collect(train, first)
    fitted = {model: fit(examples[model]) for model in MODELS}
    held = collect(held_turns, first)
    for model in MODELS:
        line = (
            f"{model:9} {len(examples[model].labels):6,} examples, {np.mean(examples[model].labels):.3f} worth keeping"
        )
        if arguments.held:
            label = np.array(held[model].labels, np.float64)
            score = scores(held[model], fitted[model])
            low, high = interval(score, label, held[model].groups)
            line += f"; held {len(label):6,}, {label.mean():.3f}, AUC {auc(score, label):.3f} [{low:.3f}, {high:.3f}]"
        print(line)
    if arguments.out is not None:
        rows = [f"{model}/{name}\t{value}" for model in MODELS for name, value in fitted[model].items() if value]
        head = "# Weights of worth.py, by model and feature; written by benchmarks/worth/fit.py."
        arguments.out.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    if arguments.held:
        print(f"\nrules alone  {kept(held_turns, rules_alone)}")
        print(
            f"by weights   {kept(held_turns, lambda model, _text, _beside, found: probability(fitted[model], found))}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
