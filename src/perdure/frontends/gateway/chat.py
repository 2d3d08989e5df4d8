"""POST /v1/chat/completions: any OpenAI client's chats, with memory."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Send

from perdure.backends.http.upstream import UpstreamAnswer
from perdure.domain.memory import MemoryItem
from perdure.engine.chat.conversation_step import (
    ConversationStep,
    answer_text,
    check_messages,
    hit_view,
    last_of_user,
    place,
    words,
)
from perdure.engine.chat.memory_reader import Recalled
from perdure.engine.chat.settings import Conversation
from perdure.engine.chat.turn_log import PendingTurn
from perdure.frontends.gateway.openapi import CHAT
from perdure.frontends.gateway.overrides import FIELDS, without_ours
from perdure.frontends.gateway.request_context import RequestContext, memory_headers, read_request_context
from perdure.frontends.gateway.sse import ChatStream, json_object
from perdure.frontends.gateway.streaming import Relay, downward, is_events, stream, whole

PATH = "/v1/chat/completions"
_OK = range(200, 300)
router = APIRouter(tags=["gateway"])


@router.post(PATH, summary="Chat with a model that remembers", openapi_extra=CHAT, response_class=Response)
async def chat_completions(request: Request) -> Response:
    """Forward OpenAI's chat completions with the recalled memories; the answer is returned unchanged."""
    context = await read_request_context(request)
    check_messages(context.body.get("messages"))
    return Relay(_Chat(context).serve)


class _Chat:
    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._gateway = context.gateway
        self._messages: list[dict[str, Any]] = context.body["messages"]
        self._is_stream = context.body.get("stream") is True
        self._turn: PendingTurn | None = None
        self._conversation: Conversation | None = None
        self._recalled: Recalled | None = None
        self._sent = b""
        self._asked = context.gateway.cache.now if context.gateway.cache is not None else 0
        self._include_hits = False
        """Whether the answer lists memories, if only an empty list; not if the request opted out."""

    async def serve(self, send: Send) -> None:
        """Recall, call the model, and forward its answer; the turn is stored in the background."""
        context = self._context
        at = last_of_user(self._messages)
        recalled = context.barred("" if at is None else words(self._messages[at].get("content")))
        self._include_hits = recalled is None
        conversation = self._conversation = None if recalled else context.conversation("chat", self._first())
        key = None if self._is_stream else self._cache_key(conversation)
        if key is not None and await self._from_cache(send, key):
            return
        if conversation is not None:
            step, overrides = ConversationStep(conversation, self._messages, context.body), context.overrides
            recalled = await step.recall(
                partial(self._gateway.recall, within=context.time_left),
                limit=overrides.limit,
                threshold=overrides.threshold,
                recency_weight=overrides.recency_weight,
                types=overrides.types,
            )
            self._turn = step.pending(context.grant) if context.stores else None
        elif recalled is None:
            recalled = Recalled(status="missing", reason="user_id_missing")
        if self._is_stream and self._turn is not None:
            self._gateway.turns.enqueue_user(self._turn)
        await self._ask(send, recalled, key)

    async def _ask(self, send: Send, recalled: Recalled, key: str | None) -> None:
        self._recalled = recalled
        answer: UpstreamAnswer | None = None
        reader = ChatStream()
        try:
            self._sent = await self._body(recalled)
            answer = await self._context.send(PATH, self._sent)
            if answer.status not in _OK:
                self._turn = None  # a stream's user message is stored already
            if is_events(answer):
                headers = downward(answer.headers) + memory_headers(recalled)
                await stream(send, answer, headers, reader.feed, lambda: self._end(reader.end(), complete=True))
            else:
                data = await answer.read()
                self._end(answer_text(json_object(data)), complete=True)
                await self._whole(send, answer, data, recalled, key)
        except Exception:  # unreachable, or broken off before anything was sent: there is no answer to store
            self._turn = None
            raise
        finally:
            if answer is not None:
                answer.close()
            # The client disconnected, which cancels this, or the answer broke off: store what arrived.
            self._end(reader.end(), complete=False)

    def _end(self, text: str, *, complete: bool) -> None:
        """Store the answer, once, after the fingerprints of what it may repeat."""
        noted, self._sent = self._sent, b""
        if noted and self._conversation is not None and self._recalled is not None:
            self._gateway.note(self._conversation, self._recalled, noted)
        turn, self._turn = self._turn, None
        if turn is not None:
            self._gateway.turns.enqueue_answer(turn, text, complete=complete)

    async def _whole(
        self, send: Send, answer: UpstreamAnswer, data: bytes, recalled: Recalled, key: str | None
    ) -> None:
        is_good = answer.status in _OK
        told = data
        if is_good and self._include_hits and answer.header("content-encoding") in (None, "identity"):
            told = with_hits(data, recalled.hits)
        headers = downward(answer.headers, is_changed=told is not data)
        if told is not data:
            headers.append((b"content-length", str(len(told)).encode()))
        if key is not None and is_good and self._gateway.cache is not None:
            shown = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
            kept = json.dumps([answer.status, shown]).encode() + b"\n" + told
            self._gateway.cache.put(key, kept, self._asked)
        await whole(send, answer.status, headers + memory_headers(recalled), told)

    def _first(self) -> str:
        """Return the text of the user's first message, which identifies a conversation without a name."""
        return next((words(each.get("content")) for each in self._messages if each.get("role") == "user"), "")

    async def _body(self, recalled: Recalled) -> bytes:
        """Return the request body for upstream: the client's own bytes if nothing changes."""
        body, messages = self._context.body, self._messages
        if self._conversation is not None:
            messages = await self._gateway.shortened(self._conversation, messages, began=self._context.began)
        if recalled.is_empty and messages is self._messages and not FIELDS & body.keys():
            return self._context.raw
        changed = {**without_ours(body), "messages": messages}
        if not recalled.is_empty:
            settings = self._gateway.settings
            changed["messages"] = place(messages, recalled, settings.chat_injection, settings.injected_tokens)
        return json.dumps(changed, separators=(",", ":")).encode()

    def _cache_key(self, conversation: Conversation | None) -> str | None:
        """Return the cache key of identical requests of one caller and user; None without a cache."""
        if self._gateway.cache is None:
            return None
        context = self._context
        headers = sorted(
            (name, value)
            for name, value in context.request.headers.items()
            if name in ("authorization", "x-api-key", "api-key", "cookie", "openai-organization", "openai-project")
            or (name.startswith("x-") and name not in ("x-request-id", "x-stainless-retry-count"))
        )
        whose = sorted(conversation.scope.given().items()) if conversation else None
        query = context.request.url.query
        shared = [context.caller.name, context.is_foreign, whose, query, headers]
        return hashlib.sha256(json.dumps(shared).encode() + b"\n" + context.raw).hexdigest()

    async def _from_cache(self, send: Send, key: str) -> bool:
        """Send the cached answer of an identical request; return whether there was one."""
        cache = self._gateway.cache
        found = cache.get(key) if cache is not None else None
        self._gateway.counting.looked(is_hit=found is not None)
        if found is None:
            return False
        head, _, body = found.partition(b"\n")
        status, shown = json.loads(head)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in shown]
        await whole(send, status, headers + memory_headers(Recalled(status="ignored", reason="cache_hit")), body)
        return True


def with_hits(data: bytes, hits: tuple[MemoryItem, ...]) -> bytes:
    """Insert `memory_hits` as the last key of a JSON object; other bytes, and other JSON, stay unchanged."""
    body = data.rstrip()
    if json_object(body) is None:
        return data
    before = body[:-1].rstrip()
    comma = b"" if before.endswith(b"{") else b","
    return (
        before
        + comma
        + b'"memory_hits":'
        + json.dumps([hit_view(hit) for hit in hits], separators=(",", ":")).encode()
        + b"}"
    )
