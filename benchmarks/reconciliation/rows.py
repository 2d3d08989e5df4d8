"""Labelled evidence: what the rules see of pairs of statements whose relation is known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from perdure.backends.embedders.minilm import MiniLMEmbedder
from perdure.domain.clock import iso, system_clock
from perdure.domain.fact import Neighbour
from perdure.domain.memory import MemoryItem, text_hash
from perdure.domain.message import Message, read_messages
from perdure.domain.scope import Scope
from perdure.pipeline.curation.rules.extraction import read_messages as read_facts
from perdure.pipeline.curation.rules.reconciliation.evidence import evidence
from perdure.pipeline.curation.rules.reconciliation.judge import judge_reading
from perdure.pipeline.curation.rules.slots import read

OTHER, SAME, CHANGE = 0, 1, 2
OUTCOMES = {"ADD": OTHER, "NONE": SAME}
WEIGHTS = {
    "pair": 1.0,
    "named": 0.5,
    "beside": 0.1,
    "untargeted": 0.4,
    "crossed": 0.06,
    "changed": 1.0,
    "unchanged": 0.15,
}
"""How much one row of a kind counts: made negatives are many and less sure than what a hand labelled."""
NEAR = 0.3
"""Cosine from which a statement beside another teaches something."""
ALIKE = 0.97
"""Cosine from which two statements of a dialogue say the same, which nobody labelled."""
BESIDE = 4
"""Earlier statements of a dialogue that each is set beside."""
NAMES = ("Mara", "Jonas", "Priya", "Old Tom", "Kwame", "Ilse")
FIRST_SESSION = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NOW = iso(system_clock())


@dataclass(frozen=True)
class Row:
    """The evidence of one pair, what is right, of what kind the label is, and the group that no fold may split."""

    kind: str
    found: dict[str, float]
    outcome: int
    group: str


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


def beside(fact: str, memories: Sequence[str], cosine: Cosines) -> tuple[dict[str, float], float, str]:
    """The evidence of a fact beside the nearest of some memories, with its cosine and text."""
    ranked = sorted(((cosine(fact, text), text) for text in memories), reverse=True)
    near = [Neighbour(item=_item(str(n), text), similarity=similarity) for n, (similarity, text) in enumerate(ranked)]
    best = judge_reading(read(fact), near)[0]
    return evidence(best.pair, best.held), ranked[0][0], ranked[0][1]


def _item(id: str, text: str) -> MemoryItem:
    scope = Scope(user_id="u")
    return MemoryItem(
        id=id, memory=text, hash=text_hash(text), scope=scope, created_at=NOW, updated_at=NOW, told_at=NOW
    )


def of_items(path: Path, cosine: Cosines) -> Iterator[Row]:
    """Rows of reconcile items: the fact beside its target, and made negatives beside it."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        item, group = json.loads(line), f"{path.name} {number // 6}"
        texts = {memory["id"]: memory["text"] for memory in item["existing"]}
        for text in texts.values():
            rest = [other for other in texts.values() if other != text]
            if rest and (found := beside(text, rest, cosine))[1] >= 0.35:
                yield Row("beside", found[0], OTHER, group)
        if "forget" in item["tags"]:
            continue
        targets = {want.get("id") for want in item["expect"]} - {None}
        outcome = OUTCOMES.get(item["kind"], CHANGE)
        found = beside(item["fact"], list(texts.values()), cosine)
        hit = found[2] in {texts[target] for target in targets}
        yield Row("pair", found[0], outcome if outcome != CHANGE or hit else OTHER, group)
        kept = [
            texts[key]
            for key in item["must_keep"]
            if key not in targets and (outcome != SAME or texts[key] != found[2])
        ]
        if outcome and kept:
            other = beside(item["fact"], kept, cosine)
            if other[1] >= NEAR and (outcome == CHANGE or other[1] <= 0.6):
                yield Row("untargeted", other[0], OTHER, group)


def of_pairs(path: Path, cosine: Cosines) -> Iterator[Row]:
    """Rows of labelled pairs, `N|fact|memory`, `U|...`, `A|...`; each fact also beside another line's memory."""
    lines = [line.split("|") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for number, (kind, fact, memory) in enumerate(lines):
        group = f"{path.name} {number // 6}"
        yield Row("pair", beside(fact, [memory], cosine)[0], "ANU".index(kind), group)
        if "User" in fact and "User" in memory:
            yield Row("named", beside(_of(fact, number), [_of(memory, number)], cosine)[0], "ANU".index(kind), group)
        others = [text for _, other, text in lines if other != fact and NEAR <= cosine(fact, text) < 0.62]
        if others:
            yield Row("crossed", beside(fact, others, cosine)[0], OTHER, group)


def of_dialogues(path: Path, cosine: Cosines) -> Iterator[Row]:
    """Rows of the facts that dialogues yield: a probe's new value beside its old one is a change, most else is not."""
    for line in path.read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        facts = _told(item["sessions"])
        changed = _changed(facts, item["probes"])
        for new, old in sorted(changed):
            yield Row("changed", beside(facts[new], [facts[old]], cosine)[0], CHANGE, item["id"])
        for new, fact in enumerate(facts):
            near = sorted((cosine(fact, facts[old]), old) for old in range(new) if (new, old) not in changed)
            for similarity, old in near[-BESIDE:]:
                if NEAR <= similarity < ALIKE:
                    yield Row("unchanged", beside(fact, [facts[old]], cosine)[0], OTHER, item["id"])
                    if "User" in fact and "User" in facts[old]:
                        told, before = _of(fact, new), _of(facts[old], new)
                        yield Row("unchanged", beside(told, [before], cosine)[0], OTHER, item["id"])


def _of(text: str, number: int) -> str:
    """The statement about somebody of a name: where several people speak, names make all their facts look alike."""
    return text.replace("User", NAMES[number % len(NAMES)])


def _told(sessions: list[list[dict[str, str]]]) -> list[str]:
    facts: list[str] = []
    before: list[Message] = []
    for number, session in enumerate(sessions):
        start = FIRST_SESSION + timedelta(days=3 * number)
        stamped = [{**message, "timestamp": iso(start + timedelta(minutes=at))} for at, message in enumerate(session)]
        messages = read_messages(stamped)
        read_of = read_facts(messages, now=start, context=before[-24:])
        facts += [fact.text for fact in read_of.facts if not fact.forget]
        before += messages
    return facts


def _changed(facts: list[str], probes: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """Positions of a new value's fact and of the older value's, by the words that each probe wants and does not."""
    found: set[tuple[int, int]] = set()
    low = [fact.lower() for fact in facts]
    for probe in probes:
        wanted = [word.lower() for word in probe["must_retrieve"]]
        stale = [word.lower() for word in probe["must_not"]]
        if probe["kind"] == "deletion" or not wanted or not stale:
            continue
        for new, text in enumerate(low):
            if not all(word in text for word in wanted) or any(word in text for word in stale):
                continue
            olds = (old for old in range(new) if any(word in low[old] for word in stale))
            found.update((new, old) for old in olds if not all(word in low[old] for word in wanted))
    return found


__all__ = ["CHANGE", "OTHER", "SAME", "WEIGHTS", "Cosines", "Row", "beside", "of_dialogues", "of_items", "of_pairs"]
