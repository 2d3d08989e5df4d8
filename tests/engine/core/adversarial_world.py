"""What the state machine holds a memory against: a curator that stores what is said, and a model of what stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perdure import Scope
from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.engine.write.curator import Judgement, Reading, ReadRequest, Renewed


class PlainCurator:
    """Every message is a fact; one of the form key=value updates the memory of its key with the smallest id."""

    one_at_a_time = True
    asks_again = False

    async def read(self, request: ReadRequest) -> Reading:
        return Reading([Fact(text=each.content, sources=(place,)) for place, each in enumerate(request.messages)])

    async def judge(self, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]], **_: Any) -> Judgement:
        decided = []
        for fact, near in zip(facts, neighbours, strict=True):
            same = sorted(each.item.id for each in near if key_of(each.item.memory) == key_of(fact.text))
            event: Any = "UPDATE" if same else "ADD"
            decided.append([Decision(event=event, text=fact.text, target=same[0] if same else None, rule="plain")])
        return Judgement(decided)

    async def renewed(self, *_: Any) -> Renewed:
        return Renewed()


def key_of(text: str) -> str:
    return text.partition("=")[0]


# ------------------------------------------------------------------ the model


@dataclass(frozen=True)
class State:
    """How a memory stands: what undo and rollback bring back."""

    id: str
    text: str
    valid_from: datetime
    sure: bool
    expires_at: datetime | None
    valid_to: datetime | None


@dataclass
class Span:
    """A text as it was told, from one moment on until another."""

    state: State
    told: datetime
    untold: datetime | None = None

    def seen(self, moment: datetime, *, include_past: bool) -> bool:
        told = self.told <= moment and (self.untold is None or moment < self.untold)
        return told and (include_past or is_valid(self.state, moment))


def is_valid(state: State, moment: datetime) -> bool:
    ends = [end for end in (state.valid_to, state.expires_at) if end is not None]
    return all(moment < end for end in ends)


@dataclass
class Happened:
    """One event of a line's history."""

    id: str
    event: str
    at: datetime
    before: State | None
    after: State | None
    undoes: str | None = None


@dataclass
class Line:
    """One memory, or the line of memories that superseded each other."""

    home: Scope
    spans: list[Span] = field(default_factory=list)
    events: list[Happened] = field(default_factory=list)
    erased: bool = False

    @property
    def now(self) -> State | None:
        last = self.spans[-1] if self.spans else None
        return last.state if last is not None and last.untold is None else None

    def happen(
        self, after: State | None, told: datetime, event: str, at: datetime, event_id: str, undoes: str | None = None
    ) -> None:
        before = self.now
        if before is not None:
            last = self.spans[-1]
            last.untold = max(told, last.told)
        if after is not None:
            self.spans.append(Span(after, told))
        self.events.append(Happened(event_id, event, at, before, after, undoes))

    def standing_after(self, place: int) -> list[Happened]:
        """Later events that count: an event and the one that took it back cancel each other."""
        later = list(self.events[place + 1 :])
        while True:
            by_id = {each.id: each for each in later}
            undo = next((each for each in reversed(later) if each.undoes in by_id), None)
            if undo is None:
                return later
            later = [each for each in later if each is not undo and each.id != undo.undoes]
