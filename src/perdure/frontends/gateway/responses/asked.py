"""What every request of the Responses API has, whatever the model's server speaks: its chain, memory and turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perdure.domain.message import Message
from perdure.engine.gateway.conversation import Conversation
from perdure.engine.gateway.recalling import Ask, Recalled
from perdure.frontends.gateway.asking import Asking
from perdure.frontends.gateway.gateway import Keeping as TurnKeeping
from perdure.frontends.gateway.gateway import may_store
from perdure.frontends.gateway.identity import SESSION_HEADER
from perdure.frontends.gateway.query import forces_tool, lately
from perdure.frontends.gateway.responses.chains import Chains, can_be_id, unknown_previous
from perdure.frontends.gateway.responses.items import (
    Item,
    ends_with_tool,
    holds_history,
    last_words,
    messages_of,
    read_input,
)
from perdure.frontends.gateway.responses.keeping import Kept, earlier_items
from perdure.frontends.gateway.responses.placing import can_be_placed, placed
from perdure.frontends.gateway.responses.whose import reach_of

CHAIN_SHARE = 0.5
"""Of the time that memory may take, what a chain may take to be read that the model's server has itself."""


@dataclass(kw_only=True)
class Asked:
    """One request, with all that is known of it before the model is asked."""

    asking: Asking
    recalled: Recalled
    conversation: Conversation | None
    """None where nobody's: then nothing is kept, and nothing can be gone on from."""
    chain: list[Kept] = field(default_factory=list)
    """The responses that it goes on from, oldest first."""
    user: Message | None = None
    """What the user said last."""
    tools: list[Message] = field(default_factory=list)
    """What tools said since."""
    goes_on: bool = False
    """Whether it only brings results of tools: what the user said was kept when it was said."""
    is_named: bool = False
    """Whether the request itself says which session it is of."""
    is_held: bool = False
    """Whether the client holds what was said and sends it along: its sessions are known as a chat's are (B16)."""
    is_barred: bool = False
    """Whether it has no memory at all."""

    @property
    def body(self) -> dict[str, Any]:
        """The request's body."""
        return self.asking.body

    @property
    def previous_id(self) -> str | None:
        """The response that it goes on from."""
        given = self.body.get("previous_response_id")
        return given if isinstance(given, str) and given else None

    @property
    def earlier(self) -> list[Item]:
        """What was said in the chain."""
        return earlier_items(self.chain)

    @property
    def keeps_response(self) -> bool:
        """Whether the response may be gone on from: `store` is true by default, as OpenAI has it."""
        return self.conversation is not None and self.body.get("store") is not False and may_store(self.asking.caller)

    def placed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A body with what is remembered in it."""
        settings = self.asking.gateway.settings
        if self.recalled.is_empty:
            return dict(body)
        return placed(body, self.recalled, settings.responses_injection, settings.injected_tokens)

    async def shortened(self, items: list[Item]) -> list[Item]:
        """The items of the whole conversation without those that its state stands for; the same list where none does.

        Only a session that is older than the request can have a state.
        """
        has_none = self.conversation is None or self.is_barred or not (self.is_named or self.is_held or self.chain)
        if has_none or not all(isinstance(item, dict) for item in items):
            return items
        return await self.asking.gateway.shortened(self.in_session(None), items, began=self.asking.began)

    def note(self, body: bytes) -> None:
        """Remember what of memory stands in a body that went up, before the turn ends, whose answer may repeat it."""
        if self.conversation is not None:
            self.asking.gateway.note(self.conversation, self.recalled, body)

    def turn(self, response_id: str | None = None) -> TurnKeeping | None:
        """What is to be kept of the turn; a session that has no name is called after its chain's first response."""
        # Results of tools alone go on with the turn of the user's words, which were kept when they were said.
        user = self.user if not self.goes_on else Message("user", "") if self.tools else None
        if self.conversation is None or user is None or not self.asking.stores or self.is_barred:
            return None
        return self.asking.gateway.keeping(self.in_session(response_id), user, self.tools, loan=self.asking.loan)

    def in_session(self, response_id: str | None) -> Conversation:
        """The conversation, in the session that a response of this id is of."""
        assert self.conversation is not None, "who keeps something is somebody"
        if self.is_named or self.is_held:
            return self.conversation
        session = self.chain[-1].link.session if self.chain else self.previous_id or response_id
        return replace(self.conversation, session=session or self.conversation.session)


async def read_asked(asking: Asking, chains: Chains, *, needs_chain: bool) -> Asked:
    """Find the chain and what is remembered for a request.

    A chain that a model's server keeps itself is only read for what memory needs, and a failure to do so is given up;
    with `needs_chain` it is LedgerError. InvalidInputError where that server would go on from another's response.
    """
    barred = asking.barred()
    items, named = _items(asking.body), _server_conversation(asking.body)
    spoken = messages_of(items)
    first = next((message.content for message in spoken if message.role == "user"), "")
    conversation = None if asking.is_foreign else asking.conversation("responses", first, named)
    asked = Asked(
        asking=asking,
        recalled=barred or Recalled(status="missing", reason="user_id_missing"),
        conversation=conversation,
        is_barred=barred is not None,
    )
    if asked.previous_id is not None and not needs_chain and not asking.is_foreign:
        walls = reach_of(asking, conversation) if conversation is not None else None
        if await chains.is_anothers(asked.previous_id, walls, asking.time_left):
            raise unknown_previous(asked.previous_id)
    if conversation is None:
        return asked
    headers, overrides = asking.request.headers, asking.overrides
    asked.is_named = bool(headers.get(SESSION_HEADER) or overrides.memory_id or named)
    asked.is_held = asked.previous_id is None and (asking.body.get("store") is False or holds_history(items))
    if asked.previous_id is not None and (needs_chain or not barred):
        walls = reach_of(asking, conversation)
        if needs_chain:
            asked.chain = await chains.chain(asked.previous_id, walls)
        else:
            asked.chain = await chains.chain_in_time(asked.previous_id, walls, asking.time_left * CHAIN_SHARE)
    asked.user, before, asked.tools = last_words([*messages_of(asked.earlier), *spoken])
    asked.goes_on = ends_with_tool(items)
    if barred is None:
        asked.recalled = await _recall(asked, conversation, before)
    return asked


def _server_conversation(body: Mapping[str, Any]) -> str | None:
    """The id of the conversation that the model's server keeps, where the request names one."""
    given = body.get("conversation")
    given = given.get("id") if isinstance(given, dict) else given
    return given if isinstance(given, str) and can_be_id(given) else None


def _items(body: Mapping[str, Any]) -> Sequence[Item]:
    return read_input(body["input"]) if can_be_placed({"input": body.get("input")}) else ()


async def _recall(asked: Asked, conversation: Conversation, before: list[Message]) -> Recalled:
    if not can_be_placed(asked.body):
        return Recalled(status="unavailable", reason="injection_error")
    overrides = asked.asking.overrides
    return await asked.asking.gateway.recall(
        Ask(
            conversation=conversation,
            query=asked.user.content if asked.user is not None else "",
            history=lately(reversed(before)),
            requires_tool=forces_tool(asked.body) or asked.goes_on,
            limit=overrides.limit,
            threshold=overrides.threshold,
            recency_weight=overrides.recency_weight,
            types=overrides.types,
        ),
        within=asked.asking.time_left,
    )
