"""What is told in each scene, and what was remembered before: one invented person, moving from Lisbon to Porto."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact in the forms that different pipelines ask for: a statement, and a relation between two things.

    `said` is the sentence in which the user tells it; `replaces` the text of the memory that it makes untrue.
    """

    text: str
    said: str
    subject: str
    relation: str
    object: str
    replaces: str = ""


def _read(name: str) -> tuple[Fact, ...]:
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    return tuple(Fact(**json.loads(line)) for line in lines)


TOLD = _read("told.jsonl")
"""In the order in which they are told: a scene with n facts tells the first n."""

KNOWN = _read("known.jsonl")
"""Memories near what is told: the same person's earlier life, some of it out of date now."""

WARM_UP = Fact("User collects old maps", "I collect old maps.", "User", "COLLECTS", "old maps")
"""Told before the measurement by somebody else, so that no import and no first connection is measured."""


SHORT_REPLY = "Thanks for telling me! I'll keep that in mind for next time."
LONG_REPLY = Path(__file__).with_name("long_reply.txt").read_text(encoding="utf-8").strip()
"""As long as assistants like to be."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One `add` of two messages that tell so many facts, to a memory that holds so many."""

    name: str
    facts: int
    known: int
    reply: str = SHORT_REPLY

    @property
    def expected(self) -> list[str]:
        """What must be among the memories afterwards, whatever else is."""
        told = TOLD[: self.facts]
        replaced = {fact.replaces for fact in told}
        return [fact.text for fact in (*KNOWN[: self.known], *told) if fact.text not in replaced]

    def task(self) -> dict[str, Any]:
        """What a driver is told, as JSON."""
        told = TOLD[: self.facts]
        said = " ".join(fact.said for fact in told)
        return {
            "messages": [
                {"role": "user", "content": f"Hi! Some news about me. {said}"},
                {"role": "assistant", "content": self.reply},
            ],
            "facts": [asdict(fact) for fact in told],
            "known": [asdict(fact) for fact in KNOWN[: self.known]],
            "warm_up": asdict(WARM_UP),
        }


SCENES = (
    Scene("3 facts, empty memory", 3, 0),
    Scene("3 facts, 20 near memories", 3, 20),
    Scene("3 facts and a long reply, 20 near memories", 3, 20, LONG_REPLY),
    Scene("1 fact, 20 near memories", 1, 20),
    Scene("5 facts, 20 near memories", 5, 20),
    Scene("15 facts, 20 near memories", 15, 20),
)
