"""Living through a story: each message is added, each question searched, and each is timed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.frontends.cli.demo_story import Said, Session

if TYPE_CHECKING:
    from perdure.domain.event import AddResult, SearchResult
    from perdure.frontends.library.async_memory import AsyncMemory

T = TypeVar("T")

ANSWERS = 3
"""Memories that a question brings back."""


@dataclass(slots=True)
class Answer:
    """A question, what memory brought back for it, and how long that took in milliseconds."""

    question: str
    found: list[tuple[float, str]]
    milliseconds: float

    def dump(self) -> dict[str, Any]:
        """The answer as plain values."""
        found = [{"score": round(score, 4), "memory": memory} for score, memory in self.found]
        return {"ask": self.question, "ms": round(self.milliseconds, 2), "results": found}


@dataclass(slots=True)
class Chapter:
    """What became of one session."""

    title: str
    day: str
    kept: dict[str, str] = field(default_factory=dict)
    """Facts that are new, by the id of their memory."""
    corrected: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The text before the session and the one that stands after it, by the id of their memory."""
    forgotten: list[str] = field(default_factory=list)
    known: int = 0
    """Facts that were known already."""
    answers: list[Answer] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    """What each message took."""
    warnings: list[str] = field(default_factory=list)

    def dump(self) -> dict[str, Any]:
        """The chapter as plain values."""
        return {
            "session": self.title,
            "date": self.day,
            "messages": len(self.milliseconds),
            "ms": round(sum(self.milliseconds), 2),
            "kept": list(self.kept.values()),
            "corrected": [{"old": old, "new": new} for old, new in self.corrected.values()],
            "forgotten": list(self.forgotten),
            "known": self.known,
            "questions": [answer.dump() for answer in self.answers],
            "warnings": list(self.warnings),
        }


async def live(memory: AsyncMemory, sessions: Sequence[Session]) -> AsyncIterator[Chapter]:
    """Add and ask line by line, as a conversation would; a chapter for each session, as it ends."""
    for session in sessions:
        chapter = Chapter(session.title, session.day)
        for line in session.lines:
            if isinstance(line, Said):
                took, added = await _timed(memory.add([line.message], **line.scope))  # type: ignore[arg-type]  # owner fields
                chapter.milliseconds.append(took)
                _note(chapter, added)
            else:
                took, found = await _timed(memory.search(line.question, limit=ANSWERS, **line.scope))  # type: ignore[arg-type]  # owner fields
                chapter.answers.append(_answer(line.question, found, took))
        yield chapter


async def warm_up(memory: AsyncMemory) -> float:
    """Open the files and load the embedder, so that no message pays for it; how long that took in milliseconds."""
    began = time.perf_counter()
    await memory.search("hello", user_id="perdure demo", limit=1)
    return 1000 * (time.perf_counter() - began)


def summary(chapters: Sequence[Chapter], opening: float) -> dict[str, Any]:
    """The figures of the whole story; times in milliseconds."""
    adding = [took for chapter in chapters for took in chapter.milliseconds]
    asking = [answer.milliseconds for chapter in chapters for answer in chapter.answers]
    return {
        "sessions": len(chapters),
        "messages": len(adding),
        "kept": sum(len(chapter.kept) for chapter in chapters),
        "corrected": sum(len(chapter.corrected) for chapter in chapters),
        "forgotten": sum(len(chapter.forgotten) for chapter in chapters),
        "known": sum(chapter.known for chapter in chapters),
        "questions": len(asking),
        "ms_opening": round(opening, 1),
        "ms_per_message": round(median(adding), 2) if adding else None,
        "ms_slowest_message": round(max(adding), 2) if adding else None,
        "ms_per_question": round(median(asking), 2) if asking else None,
    }


async def _timed(work: Awaitable[T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = await work
    return 1000 * (time.perf_counter() - began), result


def _note(chapter: Chapter, added: AddResult) -> None:
    chapter.warnings += added.warnings
    for event in added.results:
        if event.event == "ADD":
            chapter.kept[event.id] = event.memory
        elif event.event == "DELETE":
            chapter.forgotten.append(event.memory)
            chapter.kept.pop(event.id, None)
        elif event.event == "NONE":
            chapter.known += 1
        elif event.id in chapter.kept and event.reason.startswith("refine"):
            chapter.kept[event.id] = event.memory  # a new fact made more exact is no correction
        else:
            chapter.kept.pop(event.id, None)
            before, _ = chapter.corrected.get(event.id, (event.old_memory or "", ""))
            chapter.corrected[event.id] = (before, event.memory)


def _answer(question: str, found: SearchResult, took: float) -> Answer:
    return Answer(question, [(item.score or 0.0, item.memory) for item in found.results], took)
