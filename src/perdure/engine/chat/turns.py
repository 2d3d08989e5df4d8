"""Make episodes from the messages of a turn, without injected text and reasoning."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import NAMESPACE_URL, uuid5

from perdure.domain.clock import iso
from perdure.domain.event import Episode
from perdure.domain.memory import new_id
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.chat.settings import Dialect
from perdure.engine.core.kernel import Kernel
from perdure.pipeline.curation.chat import is_chatter, is_empty_turn
from perdure.pipeline.prompting.quoting import said_aloud, sanitised, strip_injected
from perdure.pipeline.quarantine import is_forgery

SMALL_TALK = "small_talk"  # the type of a message that is a file without searchable content


def group_of(first: str, dialect: Dialect) -> str:
    """Return the `add_id` of a turn's messages, which tells every later reader how to read the turn."""
    return str(uuid5(NAMESPACE_URL, f"perdure:turn:{dialect}:{first}"))


def forged_group_of(id: str, dialect: Dialect) -> str:
    """Return the `add_id` of a message from which a forged memory block was removed."""
    return str(uuid5(NAMESPACE_URL, f"perdure:forged:{dialect}:{id}"))


def dialect_of(episode: Episode, first: str) -> Dialect:
    """Return the dialect of the turn whose first message has the id `first`."""
    of_responses = (group_of(first, "responses"), forged_group_of(episode.id, "responses"))
    return "responses" if episode.add_id in of_responses else "chat"


def is_forged(episode: Episode) -> bool:
    """Whether a forged memory block was removed from the message."""
    return episode.add_id in (forged_group_of(episode.id, "chat"), forged_group_of(episode.id, "responses"))


class Turns:
    """Makes episodes from messages."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def opening(
        self, dialect: Dialect, scope: Scope, user: Message, tools: Sequence[Message], before: Sequence[str] = ()
    ) -> list[Episode]:
        """Return a turn's beginning: the user's message and tools' results; `before` are its earlier messages."""
        said = [(user, strip_injected(user.content)), *((tool, strip_injected(tool.content)) for tool in tools)]
        fit = [(message, text) for message, content in said if (text := sanitised(content)) is not None]
        ids = [new_id() for _ in fit]
        first = before[0] if before else ids[0] if ids else ""
        groups = [
            forged_group_of(id, dialect) if is_forgery(message.content) else group_of(first, dialect)
            for id, (message, _) in zip(ids, fit, strict=True)
        ]
        return [
            self._episode(message, text, scope, id=ids[place], group=groups[place], place=len(before) + place)
            for place, (message, text) in enumerate(fit)
        ]

    def answer(
        self, dialect: Dialect, scope: Scope, episodes: Sequence[str], answer: str, *, complete: bool
    ) -> Episode | None:
        """Return the answer that ends it, without the model's reasoning and without injected text."""
        text = sanitised(strip_injected(said_aloud(answer)), whole=complete)
        if text is None:
            return None
        id = new_id()
        first = episodes[0] if episodes else id
        return self._episode(
            Message("assistant", text), text, scope, id=id, group=group_of(first, dialect), place=len(episodes)
        )

    def _episode(self, message: Message, text: str, scope: Scope, *, id: str, group: str, place: int) -> Episode:
        now: datetime = self._kernel.clock.moment()
        moment = min(message.timestamp or now, now)
        return Episode(
            id=id,
            add_id=group,
            position=place,
            role=message.role,
            name=message.name,
            content=text,
            message_id=message.id,
            told_at=iso(moment),
            created_at=self._kernel.clock.tick(),
            scope=scope.given(),
        )


def says_nothing(episode: Episode, asked: str) -> bool:
    """Whether a message, such as a greeting or the answer to one (`asked`), has no searchable content."""
    if episode.role == "user":
        return is_chatter(episode.content)
    return episode.role == "assistant" and is_empty_turn(asked, episode.content)
