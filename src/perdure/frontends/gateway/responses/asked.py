"""What every request of the Responses API has, whatever the model's server speaks: its chain, memory and turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perdure.domain.errors import PerdureError
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.gateway.conversation import Conversation
from perdure.engine.gateway.recalling import Ask, Recalled
from perdure.frontends.gateway.asking import Asking
from perdure.frontends.gateway.gateway import Keeping as TurnKeeping
from perdure.frontends.gateway.gateway import may_store
from perdure.frontends.gateway.identity import SESSION_HEADER
from perdure.frontends.gateway.responses.chains import Chains, unknown_previous
from perdure.frontends.gateway.responses.items import Item, ends_with_tool, last_words, messages_of, read_input
from perdure.frontends.gateway.responses.keeping import Kept, earlier_items
from perdure.frontends.gateway.responses.placing import can_be_placed, placed
from perdure.frontends.gateway.responses.whose import reach_of

HISTORY = 20
"""Messages before the last that memory is shown."""


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

        Only a session that the request names or goes on from can have a state.
        """
        has_none = self.conversation is None or self._is_barred or not (self.is_named or self.chain)
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
        if self.conversation is None or user is None or not self.asking.stores or self._is_barred:
            return None
        return self.asking.gateway.keeping(self.in_session(response_id), user, self.tools, loan=self.asking.loan)

    def in_session(self, response_id: str | None) -> Conversation:
        """The conversation, in the session that a response of this id is of."""
        assert self.conversation is not None, "who keeps something is somebody"
        if self.is_named:
            return self.conversation
        session = self.chain[-1].link.session if self.chain else self.previous_id or response_id
        return replace(self.conversation, session=session or self.conversation.session)

    @property
    def _is_barred(self) -> bool:
        return self.recalled.status in ("disabled", "policy_blocked")


async def read_asked(asking: Asking, chains: Chains, *, needs_chain: bool) -> Asked:
    """Find the chain and what is remembered for a request.

    A chain that a model's server keeps itself is only read for what memory needs, and a failure to do so is given up;
    with `needs_chain` it is LedgerError. InvalidInputError where that server would go on from another's response.
    """
    barred = asking.barred()
    conversation = None if asking.is_foreign else asking.conversation("responses", "")
    asked = Asked(
        asking=asking,
        recalled=barred or Recalled(status="missing", reason="user_id_missing"),
        conversation=conversation,
    )
    if asked.previous_id is not None and not needs_chain and not asking.is_foreign:
        walls = reach_of(asking, conversation) if conversation is not None else None
        if await chains.is_anothers(asked.previous_id, walls):
            raise unknown_previous(asked.previous_id)
    if conversation is None:
        return asked
    headers, overrides = asking.request.headers, asking.overrides
    asked.is_named = bool(headers.get(SESSION_HEADER) or overrides.memory_id)
    if asked.previous_id is not None and (needs_chain or not barred):
        asked.chain = await _chain(chains, asked.previous_id, reach_of(asking, conversation), needs_chain)
    items = _items(asking.body)
    asked.user, before, asked.tools = last_words(messages_of([*asked.earlier, *items]))
    asked.goes_on = ends_with_tool(items)
    if barred is None:
        asked.recalled = await _recall(asked, conversation, before)
    return asked


async def _chain(chains: Chains, previous_id: str, walls: Scope, needs_chain: bool) -> list[Kept]:
    try:
        return await chains.chain(previous_id, walls)
    except PerdureError:
        if needs_chain:
            raise
        return []


def _items(body: Mapping[str, Any]) -> Sequence[Item]:
    return read_input(body["input"]) if can_be_placed({"input": body.get("input")}) else ()


async def _recall(asked: Asked, conversation: Conversation, before: list[Message]) -> Recalled:
    if not can_be_placed(asked.body):
        return Recalled(status="unavailable", reason="injection_error")
    choice, overrides = asked.body.get("tool_choice"), asked.asking.overrides
    return await asked.asking.gateway.recall(
        Ask(
            conversation=conversation,
            query=asked.user.content if asked.user is not None else "",
            history=tuple(before[-HISTORY:]),
            requires_tool=choice == "required" or isinstance(choice, dict) or asked.goes_on,
            limit=overrides.limit,
            threshold=overrides.threshold,
            recency_weight=overrides.recency_weight,
            types=overrides.types,
        )
    )
