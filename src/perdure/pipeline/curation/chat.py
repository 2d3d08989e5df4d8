"""Decide which turns of a chat are read for facts, what a new memory does to the nearest one, and write a session's
memory without a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.domain.message import Message
from perdure.domain.text.pattern import Pattern
from perdure.pipeline.curation.rules.slots import read_slots
from perdure.pipeline.lexicon import lines, words


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionPolicy:
    """How a front end reads conversations; None means without a bound."""

    window_turns: int | None = None  # the last so many turns are read; a turn is a user's message and what follows it
    roles: frozenset[str] | None = None
    """Whose messages may give facts. Others are read as context: what is confirmed of them counts."""
    latest_only: bool = False  # only the latest message of these roles gives facts
    max_facts: int | None = None
    every_n_turns: int = 1  # extraction runs once in so many turns
    typed: bool = False  # whether facts are asked to be told apart as semantic, procedural or episodic


FACT_API = ExtractionPolicy()  # spec 000: the whole conversation, any number of facts
ROUTER = ExtractionPolicy(window_turns=15, every_n_turns=10, typed=True)  # spec 001: every ten turns the last fifteen
PROXY = ExtractionPolicy(roles=frozenset({"user"}), latest_only=True, max_facts=3)
"""Spec 002: the latest user message, at most three facts."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages are read for facts, and the ones before them that lend context; both in order."""

    positions: tuple[int, ...]  # positions, in the list given, of the messages that give facts
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
    """Whether extraction runs after this turn, counted from 1: at 10, 20, 30 for `every_n_turns` of 10."""
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


# --- Refusals


def is_refusal(answer: str) -> bool:
    """Whether an answer begins by saying that it cannot be given."""
    return _refusals().match(answer.strip().replace("’", "'").lower()) is not None


@cache
def _refusals() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{entry})" for entry in lines("refusals.txt")))


# --- Empty turns and chatter

# Drift: whether two turns are about different things.

LEAST_WORDS = 3  # words that carry a topic which a message must have: "and in May?" goes on with what was talked about


def has_drifted(before: NDArray[np.float32], now: NDArray[np.float32], threshold: float) -> bool:
    """Whether the cosine of two turns' vectors is below the threshold; vectors of zeros tell nothing."""
    norm = float(np.linalg.norm(before) * np.linalg.norm(now))
    return norm > 0 and float(before @ now) / norm < threshold


def tells_a_topic(text: str) -> bool:
    """Whether a message has words enough of its own to be compared by."""
    stop = words("recall_stopwords.txt")
    return sum(1 for word in text.casefold().split() if word.strip(".,;:!?") not in stop) >= LEAST_WORDS


LEAST_LENGTH = 30  # characters below which a question and its answer, taken together, say too little
CHATTER_LENGTH = 120
"""Characters up to which a message may be chatter and nothing else; what is longer is looked at by whoever reads it."""

_END = Pattern(r"[\s.!?,;:…)(~'\"👍🙏🙂😀🎉❤️]+\Z")
_SPACE = Pattern(r"\s+")
_MARKS = Pattern(r"[!,.?]+")


def is_empty_turn(user: str, answer: str) -> bool:
    """Whether a turn is not worth being found: too short, chatter on the user's side, or a refusal on the other."""
    if len(user.strip()) + len(answer.strip()) < LEAST_LENGTH:
        return True
    return is_chatter(user) or is_refusal(answer)


def is_chatter(text: str) -> bool:
    """Whether a message is a greeting, thanks, goodbye or a bare yes, no or fine, and nothing else; an empty one is."""
    plain = _END.sub("", _SPACE.sub(" ", text.replace("’", "'")).strip().lower())
    if len(plain) > CHATTER_LENGTH:
        return False
    pieces = (piece.strip() for piece in _MARKS.split(plain))
    return all(_is_social(piece) for piece in pieces if piece)


def _is_social(piece: str) -> bool:
    return any(pattern.fullmatch(piece) for pattern in _social())


@cache
def _social() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(entry) for entry in lines("social.txt"))


# --- Task prompts of chat programs: titles, tags and follow-ups that no user asked for

OPENING = 8_000  # characters in which such a prompt says what it wants, before it quotes anything
_ENDING = 20_000  # characters at its end in which the last thing that it quotes closes

_TASK = Pattern(r"\s*#{1,6}[ \t]*\**[ \t]*(?:your[ \t]+)?task\b", re.IGNORECASE)
_HEADING = Pattern(r"^[ \t]*#{1,6}[ \t]*\**[ \t]*(?P<title>[A-Za-z][^\n*:]{0,60})", re.MULTILINE)
_JSON = Pattern(r"\bJSON\b|\{\s*\"\w+\"\s*:", re.IGNORECASE)
_CHAT = Pattern(r"chat|conversation|messages|transcript|dialogue|history", re.IGNORECASE)
_CLOSING = Pattern(r"</(?P<tag>[A-Za-z][\w-]{0,40})>[ \t]*(?:\n[ \t]*(?:#{1,6}[^\n]{0,60})?)*\Z")


def is_client_task(text: str) -> bool:
    """Whether a user's message is a chat program's own errand, by its build and not by its wording.

    Such a prompt is laid out in headed sections, of which the first is its task and another its output; and it ends
    with the material that it quotes between tags: the chat, or anything where the answer is to be JSON. Titles, tags,
    follow-ups, search queries, completions and descriptions of images are asked for so. A prompt of the same layout
    that ends with a question of the user's own, as with retrieved documents, is none.
    """
    if _TASK.match(text) is None:
        return False
    closing, opening = _CLOSING.search(text[-_ENDING:].rstrip()), text[:OPENING]
    if closing is None or f"<{closing['tag']}>" not in opening:
        return False
    titles = [found["title"].strip().lower() for found in _HEADING.finditer(opening)]
    if not any(title.startswith("output") for title in titles[1:]):
        return False
    return _CHAT.search(closing["tag"]) is not None or _JSON.search(opening) is not None


# --- The memory of a whole session, written without a model

SESSION_FACTS: Final = 6  # facts that a session without a model is told by
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def day_of(moment: datetime) -> str:
    """The day as the memory names it: "29 December 2024"."""
    day = moment.astimezone(UTC).date()
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def session_text(facts: Sequence[str], began: datetime) -> str | None:
    """The memory without a model: what the user told on that day; None where that was nothing."""
    if not facts:
        return None
    *others, last = [_inside(fact) for fact in facts[:SESSION_FACTS]]
    listed = f"{'; '.join(others)}; and {last}" if others else last
    return f"On {day_of(began)}, user told: {listed}."


def _inside(fact: str) -> str:
    """A fact as a part of a sentence."""
    line = " ".join(fact.split()).rstrip(".")
    return f"u{line[1:]}" if line.startswith(("User ", "User's ", "User’s ")) else line


# Similarity bands of 001 §4: what a new memory does to the nearest one of its user and type.

DUPLICATE = 0.9  # raw cosine above which the nearest memory is updated, if it speaks of the same subject and attribute
GRAY = 0.7  # raw cosine from which a near memory is kept beside the new one and named in the rule

Agreement = Callable[[Fact, Neighbour], bool]
"""Whether a fact and a memory speak of one attribute of one subject (`curation.rules.reconciliation.same_matter`)."""


def decide_by_bands(fact: Fact, neighbours: Sequence[Neighbour], agree: Agreement) -> Decision:
    """UPDATE of the nearest memory above `DUPLICATE` that speaks of the same matter, else ADD.

    `neighbours` are memories of the same user and type: that filter is the caller's. Near-equal sentences can state
    different facts ("visited Rome in 2021", "in 2023"), so nearness alone never overwrites. A cosine of exactly
    `DUPLICATE` makes a new memory; a neighbour without a cosine counts as far away.
    """
    ranked = sorted(neighbours, key=lambda memory: -_cosine(memory))
    slots = read_slots(fact.text)
    for memory in ranked:
        if _cosine(memory) <= DUPLICATE:
            break
        if agree(fact, memory):
            return Decision(
                event="UPDATE",
                text=fact.text,
                target=memory.item.id,
                rule="bands.duplicate",
                confidence=min(1.0, _cosine(memory)),
                slots=slots,
            )
    best = _cosine(ranked[0]) if ranked else -1.0
    rule = "bands.near-equal" if best > DUPLICATE else "bands.gray" if best >= GRAY else "bands.new"
    return Decision(event="ADD", text=fact.text, rule=rule, slots=slots)


def _cosine(memory: Neighbour) -> float:
    return -1.0 if memory.similarity is None else memory.similarity
