"""What the tests of the gateway's write side stand on: conversations held with an engine, and what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

from perdure.backends.llms.scripted import ScriptedLLM
from perdure.domain.clock import Clock, iso, system_clock
from perdure.domain.filter import eq
from perdure.domain.memory import LIVE, MemoryItem
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.build import build
from perdure.engine.chat.caller_model import ModelGrant
from perdure.engine.chat.memory_writer import MemoryWriter
from perdure.engine.chat.settings import Conversation, Dialect, GatewaySettings
from perdure.engine.chat.turn_log import PendingTurn
from perdure.engine.config.config import read_config
from perdure.engine.engine import Engine

T = TypeVar("T")
ANN = Scope(user_id="ann")


def talk(session: str = "s1", dialect: Dialect = "chat", scope: Scope = ANN) -> Conversation:
    return Conversation(scope=scope, session=session, dialect=dialect)


def user(text: str) -> Message:
    return Message("user", text)


@dataclass(frozen=True)
class World:
    """An engine that listens."""

    engine: Engine
    remembering: MemoryWriter

    @property
    def llm(self) -> ScriptedLLM:
        return cast("ScriptedLLM", self.engine.kernel.extractor)

    async def begin(self, conversation: Conversation, message: Message, tools: Sequence[Message] = ()) -> PendingTurn:
        turn = PendingTurn(conversation=conversation, user=message, tools=tuple(tools))
        await self.remembering.turns.keep_user(turn)
        return turn

    async def end(self, turn: PendingTurn, answer: str, *, complete: bool = True) -> None:
        await self.remembering.turns.keep_answer(turn, answer, complete=complete)

    async def keep(
        self,
        conversation: Conversation,
        message: Message,
        answer: str,
        tools: Sequence[Message] = (),
        *,
        grant: ModelGrant | None = None,
    ) -> None:
        turn = PendingTurn(conversation=conversation, user=message, tools=tuple(tools), grant=grant)
        await self.remembering.turns.keep_answer(turn, answer)

    async def say(self, conversation: Conversation, texts: Iterable[str], answer: str = "I see.") -> None:
        for text in texts:
            await self.keep(conversation, user(text), answer)

    async def settle(self) -> None:
        """Wait until nothing is due any more but what failed and is tried again later."""
        ledger = self.engine.kernel.ledger
        await self.remembering._unkept.settled()
        if ledger is None:
            return
        async with asyncio.timeout(60):
            while True:
                before = await ledger.jobs.status([self.remembering._work._kind])
                due = await ledger.jobs.next_due([self.remembering._work._kind])
                after = await ledger.jobs.status([self.remembering._work._kind])
                soon = due is not None and due <= iso(datetime.now(UTC) + timedelta(seconds=0.5))
                if not (before.processing or after.processing or soon):
                    return
                await asyncio.sleep(0.005)

    async def rows(self, kind: str = "facts", scope: Scope = ANN) -> list[MemoryItem]:
        kernel = self.engine.kernel
        page = await kernel.store.list(kernel.collection, eq("kind", kind))
        items = [MemoryItem.from_payload(point.payload) for point in page.points]
        return [item for item in items if item.state == LIVE and scope.holds(item.scope)]

    async def facts(self, scope: Scope = ANN) -> list[str]:
        return [item.memory for item in await self.rows("facts", scope)]


@asynccontextmanager
async def world(
    folder: Path, settings: dict[str, Any] | None = None, clock: Clock = system_clock, **config: Any
) -> AsyncIterator[World]:
    config.setdefault("embedder", {"provider": "hashed"})
    engine = build(read_config({"path": str(folder), **config}), clock=clock)
    remembering = MemoryWriter(engine, GatewaySettings(**(settings or {})))
    await remembering.start()
    try:
        yield World(engine, remembering)
    finally:
        await remembering.close()
        await engine.close()


def run(work: Callable[[World], Awaitable[T]], folder: Path, **options: Any) -> T:
    async def whole() -> T:
        async with world(folder, **options) as opened:
            return await work(opened)

    return asyncio.run(whole())


def scripted(answers: Sequence[Any] = (), rules: Sequence[tuple[str, Any]] = (), **settings: Any) -> dict[str, Any]:
    """An llm that reads as it is told, and adds whatever it reads."""
    config = {"answers": list(answers), "rules": [{"match": match, "answer": answer} for match, answer in rules]}
    return {"provider": "scripted", "config": {**config, **settings}}


def facts(*texts: str, type: str = "semantic") -> dict[str, Any]:
    return {"facts": [{"text": text, "type": type} for text in texts]}


def read_calls(llm: ScriptedLLM) -> list[str]:
    """The conversations that the model was given to read for facts."""
    return [call.user_message for call in llm.calls if "You read a conversation" in call.system_prompt]
