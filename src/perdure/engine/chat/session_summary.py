"""Session summaries: write one episodic memory when a session has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import NAMESPACE_URL, uuid5

from perdure.backends.blocking import run_blocking
from perdure.backends.vector_stores.base import Vector
from perdure.domain.clock import read_moment
from perdure.domain.event import Episode
from perdure.domain.filter import Condition, Not, all_of, eq
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.domain.session import Session, SessionTurn
from perdure.engine.aio.calls import degrade
from perdure.engine.chat.extraction import answer_in_time
from perdure.engine.chat.rolling_summary import commit_summary
from perdure.engine.chat.turns import is_forged
from perdure.engine.core.access import visible
from perdure.engine.core.kernel import Kernel
from perdure.engine.core.lookup import SESSION
from perdure.pipeline.curation.chat import SESSION_FACTS, day_of, is_chatter, session_text
from perdure.pipeline.curation.llm.summary import session_by_model
from perdure.pipeline.quarantine import suspect

_AT_ONCE = 100  # episodes whose facts are looked up in one query
_LEAST_MESSAGES = 2
"""User messages, greetings aside, that a session without facts needs before a model is called for it."""


def sitting(turns: Sequence[SessionTurn], silence: timedelta) -> list[SessionTurn]:
    """Return the last turns of a session without a longer pause: it may have continued after an end."""
    kept: list[SessionTurn] = []
    for turn in reversed(turns):
        if kept and _moment(kept[-1].at) - _moment(turn.at) > silence:
            break
        kept.append(turn)
    return kept[::-1]


def session_summary_id(session_id: str, first_turn: int) -> str:
    """Return the id of the memory that describes a sitting: ending it twice makes one memory."""
    return str(uuid5(NAMESPACE_URL, f"perdure:session:{session_id}:{first_turn}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _SessionSummary:
    turns: Sequence[SessionTurn]
    text: str
    parts: Sequence[MemoryItem]
    episodes: Sequence[Episode]
    by_model: bool

    @property
    def made_of(self) -> tuple[str, ...]:
        """The sources with which it is erased: a model's text uses the messages too, not only facts."""
        said = tuple(episode.id for episode in self.episodes) if self.by_model else ()
        return (*(item.id for item in self.parts), *said)


class SessionSummaries:
    """Writes the episodic memories of sessions."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def tell(self, session: Session, turns: Sequence[SessionTurn]) -> None:
        """Write the memory of these turns, or rewrite it if more was said; none if nothing was worth one."""
        with degrade("the session is not told of"):
            facts = await self.facts(session.scope, turns)
            ledger = self._kernel.ledger
            ids = [id for turn in turns for id in turn.episodes]
            found = await ledger.get_episodes(ids) if ledger is not None and ids else []
            said = [each for each in found if not each.hidden and each.role in ("user", "assistant")]
            episodes = await run_blocking(_fit, said)  # many long messages take seconds, while requests come in
            if not turns or not episodes:
                return
            account = await self._account(turns, episodes, facts)
            if account is not None:
                embedded = await self._kernel.embedding.texts([account.text])
                await self._write(session.scope, account, embedded.vectors[0])

    async def find(self, session_id: str, turns: Sequence[SessionTurn]) -> MemoryItem | None:
        """Return the memory that describes these turns, or None."""
        if not turns:
            return None
        point = await self._kernel.store.get(self._kernel.collection, session_summary_id(session_id, turns[0].number))
        item = None if point is None else MemoryItem.from_payload(point.payload)
        return item if item is not None and item.state == LIVE else None

    async def facts(self, scope: Scope, turns: Sequence[SessionTurn]) -> list[MemoryItem]:
        """Return the current facts learned in these turns, oldest first, without those kept out of prompts."""
        kernel = self._kernel
        ids = [id for turn in turns for id in turn.episodes]
        found: dict[str, MemoryItem] = {}
        for start in range(0, len(ids), _AT_ONCE):
            some = Condition("sources", "in", tuple(ids[start : start + _AT_ONCE]))
            filters = all_of(some, Not(eq("source", SESSION)))
            within = visible(scope, now=kernel.clock.now(), filters=filters, include_past=True)
            page = await kernel.store.list(kernel.collection, within)
            found.update({point.id: MemoryItem.from_payload(point.payload) for point in page.points})
        trusted = [item for item in found.values() if item.quarantined is None and item.role == "memory"]
        return sorted(trusted, key=lambda item: (item.told_at, item.created_at, item.id))

    async def _account(
        self, turns: Sequence[SessionTurn], episodes: Sequence[Episode], facts: list[MemoryItem]
    ) -> _SessionSummary | None:
        """Return the text: by the model if there is one, by the rules if it fails; None if it is empty."""
        llm, began = self._kernel.extractor, _moment(turns[0].at)
        if llm is not None:
            said = [episode for episode in episodes if episode.role == "user" and not is_chatter(episode.content)]
            if not facts and len(said) < _LEAST_MESSAGES:
                return None
            with degrade("the session is told of by the rules"):
                messages = [Message(episode.role, episode.content) for episode in episodes]
                asked = session_by_model(llm, messages, [item.memory for item in facts], day_of(began))
                text = await answer_in_time(self._kernel.config, asked)
                if text is None:
                    return None
                return _SessionSummary(turns=turns, text=text, parts=facts, episodes=episodes, by_model=True)
        parts = facts[-SESSION_FACTS:]
        text = session_text([item.memory for item in parts], began)
        if text is None:
            return None
        return _SessionSummary(turns=turns, text=text, parts=parts, episodes=episodes, by_model=False)

    async def _write(self, scope: Scope, account: _SessionSummary, vector: Vector | None) -> None:
        kernel, turns, text = self._kernel, account.turns, account.text
        session_id, parts, episodes = turns[0].session_id, account.parts, account.episodes
        async with kernel.lock(scope):
            before = await self.find(session_id, turns)
            if (before is not None and before.memory == text) or not await self._stand(parts, episodes):
                return
            moment = kernel.clock.tick()
            told_at = max(turns[-1].at, before.told_at if before else "")
            id = session_summary_id(session_id, turns[0].number)
            made = before or MemoryItem.new(
                id, text, scope, moment, valid_from=turns[0].at, type="episodic", source=SESSION
            )
            after = made.with_text(
                text,
                updated_at=moment,
                told_at=told_at,
                version=made.version + (before is not None),
                sources=tuple(episode.id for episode in episodes),
                derived_from=account.made_of,
                quarantined=suspect(text, None),
            )
            await commit_summary(kernel, before, after, vector, at=moment, told_at=told_at, reason="session")

    async def _stand(self, parts: Sequence[MemoryItem], episodes: Sequence[Episode]) -> bool:
        """Whether no source was forgotten meanwhile, which must not come back in it."""
        kernel, ledger = self._kernel, self._kernel.ledger
        ids = {item.id for item in parts}
        rows = await kernel.store.get_many(kernel.collection, sorted(ids))
        told_of = {episode.id for episode in episodes}
        kept = await ledger.get_episodes(sorted(told_of)) if ledger is not None else []
        return {row.id for row in rows} == ids and {episode.id for episode in kept} == told_of


def _fit(episodes: Sequence[Episode]) -> list[Episode]:
    return [each for each in episodes if not is_forged(each) and suspect(each.content, each.role) is None]


def _moment(text: str) -> datetime:
    return read_moment(text) or datetime.now(UTC)
