"""Collects labelled pairs of texts for `train.py`.

    python rows.py OUT.tsv [--talk TALK.jsonl...] [--items RECONCILE.jsonl...] [--pairs PAIRS.tsv...]
                           [--worth DIALOGUES_OR_ITEMS.jsonl...]

A line of OUT.tsv is: task, label, two texts, how much the line counts, and the group that no fold may split.

`relation`: the newer statement and the older one. `R` the newer replaces the older, `S` the older holds all of the
newer, `F` the newer says the same more exactly, `B` both stay true, of one topic, `X` unrelated. PAIRS.tsv holds label,
newer and older, or lines `N|fact|memory`, `U|...`, `A|...` as `../reconciliation/pairs.txt` does.
`sentence`: a sentence as typed, and the assistant's message before it; `1` if it is worth keeping.
`fact`: a fact that the rules read, and the sentence that it is from; `1` if it is right and worth keeping.
The other files are in the formats of ../data.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from perdure.backends.embedders.minilm import MiniLMEmbedder
from perdure.pipeline.curation.rules.extraction import notes, read_messages, worth
from talk_data import Turn, read_dialogues, says, says_any

OLD_LABELS = {"N": "S", "U": "R", "A": "B"}
WEIGHTS = {"pair": 1.0, "item": 1.0, "beside": 0.3, "gold": 1.0, "raw": 0.7, "rules": 0.7, "near": 0.6, "far": 0.1}
"""How much a line counts by where it is from: negatives of dialogues are many."""
NEAREST, FARTHER = 4, 1
"""Earlier statements of a dialogue that each is set beside, nearest ones and drawn ones."""
ALIKE = 0.93
"""Cosine from which two statements of a dialogue say the same, which nobody labelled."""
TELLS, TELLS_NEAREST, MAY_TELL = 0.62, 0.5, 0.38
"""Cosines from which a statement tells a labelled fact of its message: any, the nearest one, perhaps."""
LONGEST = 40  # words of a sentence as said, and of the assistant's message before it
EMPTY = 3.0  # how much a line counts of a message from which nothing should be kept
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    new: str
    old: str
    weight: float
    group: str
    task: str = "relation"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of one message of a dialogue; of a labelled fact also its place among these."""

    text: str
    kind: str
    message: int
    place: int | None = None


def of_pairs(path: Path) -> Iterator[Row]:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    older = ""
    group = 0
    for line in lines:
        label, new, old = (part.strip() for part in line.split("\t" if "\t" in line else "|"))
        group += old != older
        older = old
        yield Row(OLD_LABELS.get(label, label), new, old, WEIGHTS["pair"], f"{path.name} {group // 4}")


def of_items(path: Path) -> Iterator[Row]:
    for line in path.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        if "forget" in item["tags"]:
            continue
        group = f"{path.name} {item['id']}"
        texts = {memory["id"]: memory["text"] for memory in item["existing"]}
        targets = {want.get("id") for want in item["expect"]} - {None}
        relation = {"ADD": "B", "NONE": "S"}.get(item["kind"], "R")
        for key, text in texts.items():
            if key in targets:
                yield Row(relation, item["fact"], text, WEIGHTS["item"], group)
            elif key in item["must_keep"] and relation != "S":
                yield Row("B", item["fact"], text, WEIGHTS["beside"], group)
        for one, two in pairwise(texts.values()):
            yield Row("B", two, one, WEIGHTS["far"], group)


def of_talk(path: Path, random: np.random.Generator) -> Iterator[Row]:
    """Labelled facts, sentences as said, and what the rules read, each beside what was said before it."""
    dialogues = zip(path.read_text(encoding="utf-8").splitlines(), read_dialogues(path), strict=True)
    for line, turns in dialogues:
        item = json.loads(line)
        retires = [
            message.get("retires", [])
            for session in item["sessions"]
            for message in session
            if message["role"] == "user"
        ]
        yield from _of_dialogue(item["id"], turns, retires, random)


def _of_dialogue(
    name: str, turns: Sequence[Turn], retires: Sequence[Sequence[str]], random: np.random.Generator
) -> Iterator[Row]:
    gold = [(number, fact) for number, turn in enumerate(turns) for fact in turn.gold]
    statements = _statements(turns, gold)
    vectors = _vectors([each.text for each in statements])
    told = [_told(each, gold, vectors[n], vectors) for n, each in enumerate(statements)]
    ends: dict[int, tuple[int, int | None]] = {}  # of a labelled fact: the message, and the fact in its place
    for number, tags in enumerate(retires):
        for tag in tags:
            olds = [place for place, (at, fact) in enumerate(gold) if fact.get("tag") == tag and at <= number]
            news = [place for place, (at, _) in enumerate(gold) if at == number and place not in olds]
            if olds:
                near = [float(vectors[place] @ vectors[olds[-1]]) for place in news]
                ends[olds[-1]] = (number, news[int(np.argmax(near))] if news else None)
    ended_by = [{place for place, (end, _) in ends.items() if end == number} for number in range(len(turns))]
    of_message = [{place for place, (at, _) in enumerate(gold) if at == number} for number in range(len(turns))]
    for n, new in enumerate(statements):
        beside = []
        for m, old in enumerate(statements):
            if old.message >= new.message:
                continue
            sure, may = told[m]
            over = {place for place in sure | may if place in ends and ends[place][0] <= new.message}
            ended = sure & ended_by[new.message]
            if any(_is_new(ends[place][1], new, told[n][0]) for place in ended):
                yield Row("R", new.text, old.text, WEIGHTS[new.kind] * WEIGHTS[old.kind], name)
            both_gold = new.kind == old.kind == "gold"
            in_doubt = bool(of_message[old.message] & ended_by[new.message]) and not both_gold
            unlabelled = new.kind == old.kind == "raw" and not (told[n][0] and sure)
            alike = bool(told[n][0] & sure) or vectors[n] @ vectors[m] >= ALIKE
            if not (over or in_doubt or unlabelled or alike):
                beside.append(m)
        beside.sort(key=lambda m: -float(vectors[n] @ vectors[m]))
        drawn = random.permutation(beside[NEAREST:])[:FARTHER]
        for m in beside[:NEAREST]:
            yield Row("B", new.text, statements[m].text, WEIGHTS["near"], name)
        for m in drawn:
            yield Row("X", new.text, statements[int(m)].text, WEIGHTS["far"], name)


def _statements(turns: Sequence[Turn], gold: Sequence[tuple[int, Mapping[str, Any]]]) -> list[Statement]:
    """The labelled facts, then what was typed and what the rules read out of it, each of these message by message.

    The facts come first, so that one has the same place here as among the labels.
    """
    found = [Statement(fact["text"], "gold", number, place) for place, (number, fact) in enumerate(gold)]
    for number, turn in enumerate(turns):
        typed = turn.message.content.strip()
        sentences = [typed, *(each.strip() for each in _SENTENCE.split(typed))]
        read = read_messages(
            [*([turn.before] if turn.before else []), turn.message], now=turn.message.timestamp, context=turn.context
        )
        texts = {each: "raw" for each in sentences if 3 <= len(each.split()) <= LONGEST}
        texts |= {fact.text: "rules" for fact in read.facts if not fact.forget}
        found += [Statement(text, kind, number) for text, kind in texts.items()]
    return found


def _told(
    statement: Statement, gold: Sequence[tuple[int, Mapping[str, Any]]], vector: np.ndarray, vectors: np.ndarray
) -> tuple[set[int], set[int]]:
    """The labelled facts of its own message that a statement tells, and those that it may tell.

    Keywords are strict ("tuesday" is not in "tues"), and what is not known to be told must not become an example of
    what stands beside: likeness decides too, and what it leaves in doubt is no example of anything.
    """
    if statement.place is not None:
        return {statement.place}, set()
    near = {place: float(vector @ vectors[place]) for place, (at, _) in enumerate(gold) if at == statement.message}
    sure = {place for place, like in near.items() if like >= TELLS or says(statement.text, gold[place][1])}
    nearest = max(near, key=near.__getitem__, default=-1)
    if near and (not sure or len(near) == 1) and near[nearest] >= TELLS_NEAREST:
        sure.add(nearest)
    return sure, {place for place, like in near.items() if place not in sure and like >= MAY_TELL}


def _is_new(place: int | None, statement: Statement, told: set[int]) -> bool:
    """Whether a statement tells the labelled fact in an ended one's place; without one, what was typed tells it."""
    return statement.kind == "raw" if place is None else place in told


def of_worth(path: Path) -> Iterator[Row]:
    """Every sentence of the user, and every fact that the rules would make of them."""
    for turns in read_dialogues(path):
        for turn in turns:
            yield from _of_turn(turn, path.name)


def _of_turn(turn: Turn, file: str) -> Iterator[Row]:
    typed = [sentence.text for sentence in notes.sentences(turn.message.content)]
    before = " ".join(turn.before.content.split()[-LONGEST:]) if turn.before else ""
    weight = 1.0 if turn.gold else EMPTY
    group = f"{file} {turn.dialogue}"
    made: dict[str, None] = {}

    def judge(model: str, text: str, beside: str, features: Mapping[str, float]) -> float:
        if model == worth.SENTENCE:
            return 0.5
        made[text] = None
        return 0.0

    messages = [*([turn.before] if turn.before else []), turn.message]
    read_messages(messages, now=turn.message.timestamp, context=turn.context[-24:], judge=judge)
    for text in typed:
        yield Row(str(int(says_any(text, turn.known))), text, before, weight, group, "sentence")
    for text in made:
        mine = worth.topic(text)
        source = max(typed, key=lambda sentence: len(mine & worth.topic(sentence)), default="")
        yield Row(str(int(says_any(text, turn.known))), text, source, weight, group, "fact")


def _vectors(texts: Sequence[str]) -> np.ndarray:
    return asyncio.run(MiniLMEmbedder(MiniLMEmbedder.Settings()).embed_batch(list(texts)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for source in ("--talk", "--items", "--pairs", "--worth"):
        parser.add_argument(source, type=Path, nargs="*", default=[])
    given = parser.parse_args()
    random = np.random.default_rng(0)
    rows = [row for path in given.pairs for row in of_pairs(path)]
    rows += [row for path in given.items for row in of_items(path)]
    rows += [row for path in given.talk for row in of_talk(path, random)]
    rows += [row for path in given.worth for row in of_worth(path)]
    lines = [
        "\t".join((row.task, row.label, _line(row.new), _line(row.old), f"{row.weight:g}", row.group))
        for row in dict.fromkeys(rows)
    ]
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(dict(sorted(Counter((row.task, row.label) for row in rows).items())))


def _line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
