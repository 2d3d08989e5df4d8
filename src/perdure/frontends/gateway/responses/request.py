"""The common part of all Responses requests, with any model server: chain, memory and turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.types import Send

from perdure.backends.http.upstream import UpstreamAnswer
from perdure.domain.access import Caller
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.domain.session import Link
from perdure.engine.chat.conversation_step import forces_tool, lately, words
from perdure.engine.chat.memory_reader import Recalled, RecallRequest, shown_in
from perdure.engine.chat.settings import Conversation, Injection
from perdure.engine.chat.turn_log import PendingTurn
from perdure.frontends.gateway.gateway import Gateway, may_store
from perdure.frontends.gateway.request_context import SESSION_HEADER, RequestContext, memory_headers
from perdure.frontends.gateway.responses.chains import Chains, Kept, can_be_id, earlier_items, link_of, unknown_previous
from perdure.frontends.gateway.responses.items import (
    Item,
    ends_with_tool,
    holds_history,
    kind_of,
    last_words,
    messages_of,
    read_input,
)
from perdure.frontends.gateway.sse import Events
from perdure.frontends.gateway.streaming import RawHeaders, downward
from perdure.pipeline.prompting.context_block import ahead, before_words, system_block, user_and_team_block

# The position of memory in a Responses request.


def placed(body: Mapping[str, Any], recalled: Recalled, injection: Injection, max_tokens: int) -> dict[str, Any]:
    """Return the body with the recalled memories; equal input gives equal output.

    `system` uses the instructions: they hold for one request only, so memories do not accumulate in a chain on the
    model's server. The client's own instructions come first, unchanged, so that a server's prompt cache stays valid.
    The two other positions are with or before the user's last message, if there is one. A team's CANONICAL facts always
    go into the instructions. No other field and no other item is changed.
    """
    remembered = recalled.block_arguments(max_tokens)
    if injection == "system":
        return _instructed(body, system_block(recalled.hits, **remembered))
    block, team = user_and_team_block(recalled.hits, **remembered)
    return _instructed(_told(body, block, injection) if block else body, team)


def can_be_placed(body: Mapping[str, Any]) -> bool:
    """Whether memory can be placed into a body: not if its instructions or input have an unknown shape."""
    instructions, given = body.get("instructions"), body.get("input")
    if instructions is not None and not isinstance(instructions, str):
        return False
    return isinstance(given, str) or (isinstance(given, list) and all(isinstance(item, dict) for item in given))


def _instructed(body: Mapping[str, Any], block: str) -> dict[str, Any]:
    if not block:
        return dict(body)
    own = body.get("instructions")
    return {**body, "instructions": f"{own}\n\n{block}" if own else block}


def _told(body: Mapping[str, Any], block: str, injection: Injection) -> dict[str, Any]:
    given = body["input"]
    if isinstance(given, str) and injection == "prepend_user":
        return {**body, "input": before_words(block, given)}
    items = read_input(given)
    at = _last_of_user(items)
    if at is None:
        return dict(body)
    if injection == "user_message":
        return {**body, "input": [*items[:at], _message(block), *items[at:]]}
    return {**body, "input": [*items[:at], _before(items[at], block), *items[at + 1 :]]}


def _last_of_user(items: list[Item]) -> int | None:
    for at in reversed(range(len(items))):
        if kind_of(items[at]) == "message" and items[at].get("role") == "user":
            return at
    return None


def _message(text: str) -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _before(item: Item, block: str) -> Item:
    content = item.get("content")
    if isinstance(content, str):
        return {**item, "content": before_words(block, content)}
    if not isinstance(content, list):
        return item
    return {**item, "content": [{"type": "input_text", "text": ahead(block)}, *content]}


# Which responses and sessions a caller may see: those of the same user, in any conversation.


def reach(conversation: Conversation, caller: Caller, gateway: Gateway) -> Scope:
    """Return the scope in which the speaker of a conversation may look up ids.

    A user sees their own responses in every project and conversation. Callers without a user see those of the
    conversation, by its name; callers who may name any user need not name one.
    """
    given, own = conversation.scope.given(), caller.walls.given()
    if conversation.scope.user_id is not None or gateway.trust_client_user_id:
        given = {name: value for name, value in given.items() if name == "user_id" or name in own}
    return Scope(**given)


def reach_of(context: RequestContext, conversation: Conversation) -> Scope:
    """The same for a request."""
    return reach(conversation, context.caller, context.gateway)


_OK = range(200, 300)
CHAIN_SHARE = 0.5  # share of memory's time for reading a chain that the model's server holds itself


@dataclass(kw_only=True)
class ResponsesRequest:
    """One request, with everything known before the model is called."""

    context: RequestContext
    recalled: Recalled
    conversation: Conversation | None  # none without a user: then nothing is stored, and nothing can be continued
    chain: list[Kept] = field(default_factory=list)  # the responses that it continues, oldest first
    user: Message | None = None  # the user's last message
    tools: list[Message] = field(default_factory=list)  # tools' results since then
    goes_on: bool = False  # whether it only brings tools' results: the user's message is stored already
    is_named: bool = False  # whether the request itself names its session
    is_held: bool = False
    """Whether the client holds the history and sends it: its sessions are identified as a chat's are."""
    is_barred: bool = False  # whether it gets no memory

    @property
    def body(self) -> dict[str, Any]:
        """The request's body."""
        return self.context.body

    @property
    def previous_id(self) -> str | None:
        """The response that it continues."""
        given = self.body.get("previous_response_id")
        return given if isinstance(given, str) and given else None

    @property
    def earlier(self) -> list[Item]:
        """The items of the chain."""
        return earlier_items(self.chain)

    @property
    def keeps_response(self) -> bool:
        """Whether the response can be continued: `store` is true by default, as with OpenAI."""
        return self.conversation is not None and self.body.get("store") is not False and may_store(self.context.caller)

    def placed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a body with the recalled memories."""
        settings = self.context.gateway.settings
        if self.recalled.is_empty:
            return dict(body)
        return placed(body, self.recalled, settings.responses_injection, settings.injected_tokens)

    async def shortened(self, items: list[Item]) -> list[Item]:
        """Return the conversation's items without those that its state replaces; the same list without a state.

        Only a session that is older than the request can have a state.
        """
        has_none = self.conversation is None or self.is_barred or not (self.is_named or self.is_held or self.chain)
        if has_none or not all(isinstance(item, dict) for item in items):
            return items
        return await self.context.gateway.shortened(self.in_session(None), items, began=self.context.began)

    def note(self, body: bytes) -> None:
        """Record the memories in a body before the turn ends, because its answer may repeat them."""
        if self.conversation is not None:
            self.context.gateway.note(self.conversation, self.recalled, body)

    def turn(self, response_id: str | None = None) -> PendingTurn | None:
        """Return the turn to store; a session without a name is named after its chain's first response."""
        # Tools' results alone continue the turn of the user's message, which is stored already.
        user = self.user if not self.goes_on else Message("user", "") if self.tools else None
        if self.conversation is None or user is None or not self.context.stores or self.is_barred:
            return None
        conversation = self.in_session(response_id)
        return PendingTurn(conversation=conversation, user=user, tools=tuple(self.tools), grant=self.context.grant)

    def link(self, response: Mapping[str, Any], inputs: Sequence[Item], *, is_native: bool = False) -> Link:
        """Build the record of a response in its chain."""
        conversation = self.in_session(response["id"])
        return link_of(
            response,
            inputs,
            scope=conversation.scope,
            session=conversation.session,
            previous_id=self.previous_id,
            is_native=is_native,
        )

    def in_session(self, response_id: str | None) -> Conversation:
        """Return the conversation in the session of the response with this id."""
        assert self.conversation is not None, "who keeps something is somebody"
        if self.is_named or self.is_held:
            return self.conversation
        session = self.chain[-1].link.session if self.chain else self.previous_id or response_id
        return replace(self.conversation, session=session or self.conversation.session)


class Exchange(ABC):
    """One request on its way to the model's server and back; its turn is stored in the background."""

    def __init__(self, asked: ResponsesRequest, chains: Chains) -> None:
        self._asked = asked
        self._chains = chains
        self._events = Events()
        self._turn: PendingTurn | None = None
        self._sent = b""
        self._answer: UpstreamAnswer | None = None
        self._failed = False

    async def serve(self, send: Send) -> None:
        """Call the model and send its answer to the client; InvalidInputError for what the model's API cannot express.

        If the client disconnects, which cancels this, then what arrived is stored.
        """
        ended = False
        try:
            self._sent = await self._body()
            await self._exchange(send)
            ended = True
        except Exception:  # unreachable, or broken off before anything was sent: there is no answer to store
            self._failed = True
            raise
        finally:
            if self._answer is not None:
                self._answer.close()
            if not self._failed:
                self._end(ended)

    async def _ask(self, path: str) -> UpstreamAnswer:
        """Send the body; nothing is stored of an answer that is an error."""
        self._answer = await self._asked.context.send(path, self._sent)
        self._failed = self._answer.status not in _OK
        return self._answer

    def _forwarded(self, answer: UpstreamAnswer) -> RawHeaders:
        return downward(answer.headers) + memory_headers(self._asked.recalled)

    @abstractmethod
    async def _body(self) -> bytes:
        """Return the request body for the model's server."""

    @abstractmethod
    async def _exchange(self, send: Send) -> None:
        """Ask the model's server, and send its answer to the client."""

    @abstractmethod
    def _end(self, ended: bool) -> None:
        """Store the turn, once; `ended` if the answer is complete."""


async def read_responses_request(context: RequestContext, chains: Chains, *, needs_chain: bool) -> ResponsesRequest:
    """Look up the chain and the memories for a request.

    A chain that a model's server holds is read only for memory, and a failure is ignored; with `needs_chain` it is
    LedgerError. InvalidInputError if that server would continue another caller's response.
    """
    items, named = _items(context.body), _server_conversation(context.body)
    spoken = messages_of(items)
    by_user = [message.content for message in spoken if message.role == "user"]
    first, last = (by_user[0], by_user[-1]) if by_user else ("", "")
    barred = context.barred(last)
    conversation = None if context.is_foreign else context.conversation("responses", first, named)
    asked = ResponsesRequest(
        context=context,
        recalled=barred or Recalled(status="missing", reason="user_id_missing"),
        conversation=conversation,
        is_barred=barred is not None,
    )
    if asked.previous_id is not None and not needs_chain and not context.is_foreign:
        walls = reach_of(context, conversation) if conversation is not None else None
        if await chains.is_anothers(asked.previous_id, walls, context.time_left):
            raise unknown_previous(asked.previous_id)
    if conversation is None:
        return asked
    headers, overrides = context.request.headers, context.overrides
    asked.is_named = bool(headers.get(SESSION_HEADER) or overrides.memory_id or named)
    asked.is_held = asked.previous_id is None and (context.body.get("store") is False or holds_history(items))
    if asked.previous_id is not None and (needs_chain or not barred):
        walls = reach_of(context, conversation)
        if needs_chain:
            asked.chain = await chains.chain(asked.previous_id, walls)
        else:
            asked.chain = await chains.chain_in_time(asked.previous_id, walls, context.time_left * CHAIN_SHARE)
    asked.user, before, asked.tools = last_words([*messages_of(asked.earlier), *spoken])
    asked.goes_on = ends_with_tool(items)
    if barred is None:
        asked.recalled = await _recall(asked, conversation, before)
    return asked


def _server_conversation(body: Mapping[str, Any]) -> str | None:
    """Return the id of the model server's conversation, if the request names one."""
    given = body.get("conversation")
    given = given.get("id") if isinstance(given, dict) else given
    return given if isinstance(given, str) and can_be_id(given) else None


def _items(body: Mapping[str, Any]) -> Sequence[Item]:
    return read_input(body["input"]) if can_be_placed({"input": body.get("input")}) else ()


def _shown(body: Mapping[str, Any]) -> list[str]:
    own = body.get("instructions")
    return [*([own] if isinstance(own, str) else []), *(words(item.get("content")) for item in _items(body))]


async def _recall(asked: ResponsesRequest, conversation: Conversation, before: list[Message]) -> Recalled:
    if not can_be_placed(asked.body):
        return Recalled(status="unavailable", reason="injection_error")
    overrides = asked.context.overrides
    return await asked.context.gateway.recall(
        RecallRequest(
            conversation=conversation,
            query=asked.user.content if asked.user is not None else "",
            history=lately(reversed(before)),
            requires_tool=forces_tool(asked.body) or asked.goes_on,
            limit=overrides.limit,
            threshold=overrides.threshold,
            recency_weight=overrides.recency_weight,
            types=overrides.types,
            shown=shown_in(_shown(asked.context.body)),
        ),
        within=asked.context.time_left,
    )
