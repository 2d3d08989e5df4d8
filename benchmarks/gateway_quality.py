"""How much of what the gateway keeps is right, and of what it injects bears on the message (spec 001 §12, V64).

    python benchmarks/gateway_quality.py [--dialect chat|responses] [--show]

Fifty labelled conversations (benchmarks/gateway/conversations.txt) go through the gateway's own write side, session by
session, and their questions through its read side, each conversation as a user of its own. A memory is right where a
label's words all stand in it; an injected one bears on a question where it is right by one of the question's labels.
Spec 001 asks that the majority is. The same questions are asked of the `plain` preset, the bare cosine, for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.build import build
from perdure.engine.chat.memory_reader import MemoryReader, RecallRequest
from perdure.engine.chat.memory_writer import MemoryWriter
from perdure.engine.chat.settings import Conversation, Dialect
from perdure.engine.chat.turn_log import PendingTurn
from perdure.engine.config.config import MemoryConfig
from perdure.engine.engine import Engine
from perdure.engine.requests import Query
from perdure.pipeline.retrieval.presets import PLAIN

DATA = Path(__file__).parent / "gateway" / "conversations.txt"
LIMIT = 5
"""Memories for a question (V25)."""


@dataclass
class Labelled:
    """One conversation: its sessions as (user, answer), the facts worth keeping, and questions with what they want."""

    name: str
    sessions: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    facts: list[list[re.Pattern[str]]] = field(default_factory=list)
    questions: list[tuple[str, set[int]]] = field(default_factory=list)

    def facts_of(self, text: str) -> set[int]:
        """The labels, from 1 on, that a text is right by."""
        return {
            number for number, patterns in enumerate(self.facts, 1) if all(pattern.search(text) for pattern in patterns)
        }


def read(text: str) -> Iterator[Labelled]:
    for block in re.split(r"^= ", text, flags=re.MULTILINE)[1:]:
        name, *lines = block.strip().splitlines()
        found = Labelled(name)
        for line in lines:
            mark, _, rest = line.partition(" ")
            if mark == "U:":
                found.sessions[-1].append((rest, ""))
            elif mark == "A:":
                found.sessions[-1][-1] = (found.sessions[-1][-1][0], rest)
            elif mark == "--":
                found.sessions.append([])
            elif mark == "F:":
                found.facts.append([_pattern(part.strip()) for part in rest.split(",  ")[0].split(", ")])
            elif mark == "Q:":
                asked, _, wanted = rest.partition(" => ")
                found.questions.append((asked, {int(number) for number in wanted.split(",")}))
        yield found


def _pattern(alternatives: str) -> re.Pattern[str]:
    either = "|".join(re.escape(each) for each in alternatives.split("/"))
    return re.compile(rf"(?<![\w])(?:{either})", re.IGNORECASE)


@dataclass
class Score:
    kept: int = 0
    right: int = 0
    labels: int = 0
    found: int = 0
    injected: int = 0
    bearing: int = 0
    questions: int = 0
    mostly: int = 0
    answered: int = 0

    def row(self, name: str) -> str:
        shares = (
            (self.right, self.kept),
            (self.found, self.labels),
            (self.bearing, self.injected),
            (self.mostly, self.questions),
            (self.answered, self.questions),
        )
        return f"{name:28}" + "".join(f"{part / max(1, whole):>11.3f}" for part, whole in shares)


async def measured(
    dialect: Dialect, conversations: Iterable[Labelled], *, show: bool = False, threshold: float | None = None
) -> tuple[Score, Score]:
    """Hold the conversations and ask their questions: how the gateway did, and how the bare cosine would have."""
    with tempfile.TemporaryDirectory() as folder:
        config = MemoryConfig(path=Path(folder))
        engine = build(config)
        remembering, recalling = MemoryWriter(engine, config.gateway), MemoryReader(engine, config.gateway)
        gate, plain = Score(), Score()
        for each in conversations:
            scope = Scope(user_id=each.name)
            for number, turns in enumerate(each.sessions):
                talk = Conversation(scope=scope, session=f"{each.name}-{number}", dialect=dialect)
                for said, answer in turns:
                    turn = PendingTurn(conversation=talk, user=Message("user", said))
                    await remembering.turns.keep_answer(turn, answer)
                await remembering.end_session(talk.session, scope)
            await _judge_kept(engine, each, scope, gate, show)
            for asked, wanted in each.questions:
                talk = Conversation(scope=scope, session=f"{each.name}-asking", dialect=dialect)
                hits = (
                    await recalling(RecallRequest(conversation=talk, query=asked, limit=LIMIT, threshold=threshold))
                ).hits
                _judge_injected(each, asked, wanted, hits, gate, show=show)
                query = Query(text=asked, scope=scope, limit=LIMIT, preset=PLAIN, related=False)
                _judge_injected(each, asked, wanted, (await engine.read.search(query)).results, plain, show=False)
        await remembering.close()
        await engine.close()
    plain.kept, plain.right, plain.labels, plain.found = gate.kept, gate.right, gate.labels, gate.found
    return gate, plain


async def run(dialect: Dialect, show: bool, threshold: float | None) -> None:
    conversations = read(DATA.read_text(encoding="utf-8"))
    gate, plain = await measured(dialect, conversations, show=show, threshold=threshold)
    counts = f"{gate.labels} labels, {gate.kept} memories, {gate.questions} questions"
    print(f"{dialect}: {counts}, at most {LIMIT} memories each")
    heads = ("kept right", "labels", "bearing", "mostly", "answered")
    print(f"{'':28}" + "".join(f"{head:>11}" for head in heads))
    print(gate.row("gateway"))
    print(plain.row("plain cosine"))


async def _judge_kept(engine: Engine, each: Labelled, scope: Scope, score: Score, show: bool) -> None:
    page = await engine.read.get_all(scope, limit=500, filters=None, cursor=None, as_of=None, include_past=False)
    facts = [item for item in page.results if item.source != "session"]
    held: set[int] = set()
    for item in facts:
        labels = each.facts_of(item.memory)
        held |= labels
        if show and not labels:
            print(f"  {each.name}: unlabelled: {item.memory}")
    if show:
        for number in sorted(set(range(1, len(each.facts) + 1)) - held):
            print(f"  {each.name}: not kept: {', '.join(p.pattern[8:] for p in each.facts[number - 1])}")
    score.kept += len(facts)
    score.right += sum(bool(each.facts_of(item.memory)) for item in facts)
    score.labels += len(each.facts)
    score.found += len(held)


def _judge_injected(
    each: Labelled,
    asked: str,
    wanted: set[int],
    hits: tuple[MemoryItem, ...] | list[MemoryItem],
    score: Score,
    *,
    show: bool,
) -> None:
    bearing = [bool(each.facts_of(item.memory) & wanted) for item in hits]
    score.questions += 1
    score.injected += len(hits)
    score.bearing += sum(bearing)
    score.mostly += bool(hits) and sum(bearing) * 2 > len(hits)
    score.answered += any(bearing)
    if show and not any(bearing):
        print(f"  {each.name}: {asked!r} got {[item.memory for item in hits]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialect", choices=("chat", "responses"), action="append", help="by default both")
    parser.add_argument("--show", action="store_true", help="print what was kept without a label, and what was missed")
    parser.add_argument("--threshold", type=float, help="least score; by default the dialect's own")
    given = parser.parse_args()
    for dialect in given.dialect or ("chat", "responses"):
        asyncio.run(run(dialect, given.show, given.threshold))


if __name__ == "__main__":
    main()
