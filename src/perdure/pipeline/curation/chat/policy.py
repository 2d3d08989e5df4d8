"""What a curator is given to read: how much of a conversation, whose words, and how many facts at most (U9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.fact import Fact
from perdure.domain.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionPolicy:
    """How a front end reads conversations; None means without a bound."""

    window_turns: int | None = None
    """The last so many turns are read; a turn is a user's message and what follows it."""
    roles: frozenset[str] | None = None
    """Whose messages may give facts. Others are read as context: what is confirmed of them counts."""
    latest_only: bool = False
    """Only the latest message of these roles gives facts (002 §4.1)."""
    max_facts: int | None = None
    every_n_turns: int = 1
    """Extraction runs once in so many turns (001 §6)."""
    typed: bool = False
    """Whether facts are asked to be told apart as semantic, procedural or episodic (V35)."""


FACT_API = ExtractionPolicy()
"""Spec 000: the whole conversation, any number of facts."""
ROUTER = ExtractionPolicy(window_turns=15, every_n_turns=10, typed=True)
"""Spec 001: every ten turns the last fifteen (V32, V33)."""
PROXY = ExtractionPolicy(roles=frozenset({"user"}), latest_only=True, max_facts=3)
"""Spec 002: the latest user message, at most three facts (K39, K40)."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages are read for facts, and the ones before them that lend context; both in order."""

    positions: tuple[int, ...]
    """Positions, in the list given, of the messages that give facts."""
    context: tuple[int, ...]


def select(messages: Sequence[Message], policy: ExtractionPolicy) -> Selection:
    """The messages of a conversation that a policy reads for facts, and those that stand before them as context."""
    start = _window_start(messages, policy.window_turns)
    chosen = [
        position
        for position in range(start, len(messages))
        if policy.roles is None or messages[position].role in policy.roles
    ]
    if policy.latest_only:
        chosen = chosen[-1:]
    first = chosen[0] if chosen else len(messages)
    return Selection(tuple(chosen), tuple(range(first)))


def is_due(turn: int, policy: ExtractionPolicy) -> bool:
    """Whether extraction runs after this turn, counted from 1: at 10, 20, 30 for `every_n_turns` of 10 (V32)."""
    return turn > 0 and turn % policy.every_n_turns == 0


def limit(facts: Sequence[Fact], policy: ExtractionPolicy) -> list[Fact]:
    """The facts that a policy keeps: the surest ones where there are too many, in the order in which they were read."""
    if policy.max_facts is None or len(facts) <= policy.max_facts:
        return list(facts)
    surest = sorted(range(len(facts)), key=lambda place: (-facts[place].confidence, place))[: policy.max_facts]
    return [facts[place] for place in sorted(surest)]


def _window_start(messages: Sequence[Message], turns: int | None) -> int:
    if turns is None:
        return 0
    starts = [position for position, message in enumerate(messages) if message.role == "user"]
    return starts[-turns] if len(starts) > turns else 0
