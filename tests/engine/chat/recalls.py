"""What tests of the gateway's read side stand on: conversations, what they ask, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perdure import Memory, Message, Scope
from perdure.engine.chat.memory_reader import MemoryReader, Recalled, RecallRequest
from perdure.engine.chat.settings import GLOBAL, Conversation, GatewaySettings
from perdure.frontends.library.portal import PORTAL

ANA = Conversation(scope=Scope(user_id="ana"), session="s", dialect="chat")
"""A chat of a user's, without a name."""
TRIP = Conversation(
    scope=Scope(user_id="ana", run_id="trip"), shared=Scope(user_id="ana", run_id=GLOBAL), session="s", dialect="chat"
)
"""One with a name, beside which stands what is shared by all of hers."""


def responses(conversation: Conversation) -> Conversation:
    """The same in 001's dialect."""
    return replace(conversation, dialect="responses")


def recalling(memory: Memory, **settings: Any) -> MemoryReader:
    """A recall that no busy machine makes give up, unless a test says when it should."""
    patient = {} if "recall_seconds" in settings else {"recall_seconds": 60.0}
    return MemoryReader(memory._memory._engine, GatewaySettings(**settings).model_copy(update=patient))


def ask(recall: MemoryReader, query: str, conversation: Conversation = ANA, **more: Any) -> Recalled:
    """One look; `history` may be texts of the user's."""
    history = tuple(each if isinstance(each, Message) else Message("user", each) for each in more.pop("history", ()))
    return PORTAL.call(recall(RecallRequest(conversation=conversation, query=query, history=history, **more)))


def recalled(memory: Memory, query: str, conversation: Conversation = ANA, **more: Any) -> Recalled:
    """One look with the settings that there are by default."""
    return ask(recalling(memory), query, conversation, **more)


def texts(told: Recalled) -> list[str]:
    return [item.memory for item in told.hits]


def keep(memory: Memory, *facts: str, **scope: Any) -> None:
    """Facts as they are."""
    for fact in facts:
        memory.add(fact, infer=False, **(scope or {"user_id": "ana"}))


def change_row(memory: Memory, text: str, **payload: Any) -> None:
    """Change the row of a memory behind the engine's back, as another version of perdure may have written it."""
    kernel = memory._memory._engine.kernel

    async def change() -> None:
        page = await kernel.store.list(kernel.collection, None, with_vectors=True)
        rows = [row for row in page.points if row.payload["memory"] == text]
        assert rows, f"there is no {text!r}"
        await kernel.store.apply(
            kernel.collection, [replace(row, payload={**row.payload, **payload}) for row in rows], []
        )

    PORTAL.call(change())
