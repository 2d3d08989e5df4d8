"""POST /v1/chat/completions: any OpenAI client's chats, with memory (002 §1.1, §4.1; K7, K35 to K38)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Send

from perdure.backends.upstreams.http import UpstreamAnswer
from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import MemoryItem
from perdure.engine.gateway.conversation import Conversation
from perdure.engine.gateway.recalling import Ask, Recalled
from perdure.frontends.gateway.asking import Asking, memory_headers, read_asking
from perdure.frontends.gateway.describing import CHAT
from perdure.frontends.gateway.gateway import Keeping
from perdure.frontends.gateway.headers import downward
from perdure.frontends.gateway.overrides import FIELDS, without_ours
from perdure.frontends.gateway.placing import TOOLS, last_of_user, place, said, turn_of, words
from perdure.frontends.gateway.query import forces_tool, lately
from perdure.frontends.gateway.relay import Relay, stream, whole
from perdure.frontends.gateway.sse import ChatStream, first_choice

PATH = "/v1/chat/completions"
_OK = range(200, 300)

router = APIRouter(tags=["gateway"])


@router.post(PATH, summary="Chat with a model that remembers", openapi_extra=CHAT, response_class=Response)
async def chat_completions(request: Request) -> Response:
    """OpenAI's chat completions, passed on with what is remembered; the answer comes back as it is."""
    asking = await read_asking(request)
    _check(asking.body)
    return Relay(_Chat(asking).serve)


class _Chat:
    """One chat request on its way."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._gateway = asking.gateway
        self._messages: list[dict[str, Any]] = asking.body["messages"]
        self._is_stream = asking.body.get("stream") is True
        self._keeping: Keeping | None = None
        self._conversation: Conversation | None = None
        self._recalled: Recalled | None = None
        self._sent = b""
        self._asked = asking.gateway.cache.now if asking.gateway.cache is not None else 0
        self._tells = False
        """Whether the answer tells of memories, be it of none (A5): not where it was asked for without."""

    async def serve(self, send: Send) -> None:
        """Recall, ask the model, and send its answer on; what is said is kept beside that."""
        asking = self._asking
        recalled = asking.barred()
        self._tells = recalled is None
        conversation = self._conversation = None if recalled else asking.conversation("chat", self._first())
        key = None if self._is_stream else self._cache_key(conversation)
        if key is not None and await self._from_cache(send, key):
            return
        if conversation is not None:
            recalled = await self._recall(conversation)
            self._keeping = self._kept(conversation)
        elif recalled is None:
            recalled = Recalled(status="missing", reason="user_id_missing")
        if self._is_stream and self._keeping is not None:
            self._keeping.begin()
        await self._ask(send, recalled, key)

    async def _ask(self, send: Send, recalled: Recalled, key: str | None) -> None:
        self._recalled = recalled
        answer: UpstreamAnswer | None = None
        reader = ChatStream()
        try:
            self._sent = await self._body(recalled)
            answer = await self._asking.send(PATH, self._sent)
            if answer.status not in _OK:
                self._keeping = None  # a stream's user turn has begun, and stays so (K37)
            if _is_events(answer):
                headers = downward(answer.headers) + memory_headers(recalled)
                await stream(send, answer, headers, reader.feed, lambda: self._end(reader.end(), complete=True))
            else:
                data = await answer.read()
                self._end(_said_in(data), complete=True)
                await self._whole(send, answer, data, recalled, key)
        except Exception:  # not reached, or broken off before anything was sent: there is no answer to keep
            self._keeping = None
            raise
        finally:
            if answer is not None:
                answer.close()
            # The client has left, which cancels this, or the answer broke off: what was said so far is kept.
            self._end(reader.end(), complete=False)

    def _end(self, text: str, *, complete: bool) -> None:
        """Keep the answer, once, after what it may repeat of memory."""
        noted, self._sent = self._sent, b""
        if noted and self._conversation is not None and self._recalled is not None:
            self._gateway.note(self._conversation, self._recalled, noted)
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.end(text, complete=complete)

    async def _whole(
        self, send: Send, answer: UpstreamAnswer, data: bytes, recalled: Recalled, key: str | None
    ) -> None:
        is_good = answer.status in _OK
        told = data
        if is_good and self._tells and answer.header("content-encoding") in (None, "identity"):
            told = with_hits(data, recalled.hits)
        headers = downward(answer.headers, is_changed=told is not data)
        if told is not data:
            headers.append((b"content-length", str(len(told)).encode()))
        if key is not None and is_good and self._gateway.cache is not None:
            shown = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
            kept = json.dumps([answer.status, shown]).encode() + b"\n" + told
            self._gateway.cache.put(key, kept, self._asked)
        await whole(send, answer.status, headers + memory_headers(recalled), told)

    # ------------------------------------------------------------------ memory
    async def _recall(self, conversation: Conversation) -> Recalled:
        at = last_of_user(self._messages)
        before = () if at is None else lately(said(each) for each in reversed(self._messages[:at]))
        overrides = self._asking.overrides
        return await self._gateway.recall(
            Ask(
                conversation=conversation,
                query="" if at is None else words(self._messages[at].get("content")),
                history=before,
                requires_tool=self._requires_tool(),
                limit=overrides.limit,
                threshold=overrides.threshold,
                recency_weight=overrides.recency_weight,
                types=overrides.types,
            ),
            within=self._asking.time_left,
        )

    def _requires_tool(self) -> bool:
        """Whether a tool answers: one is forced, or its result stands last (V13)."""
        return forces_tool(self._asking.body) or self._messages[-1].get("role") in TOOLS

    def _kept(self, conversation: Conversation) -> Keeping | None:
        """What is to be kept of it; None where nothing is."""
        turn = turn_of(self._messages) if self._asking.stores else None
        return None if turn is None else self._gateway.keeping(conversation, *turn, loan=self._asking.loan)

    def _first(self) -> str:
        """The text of the user's first message, by which a conversation without a name is known again."""
        return next((words(each.get("content")) for each in self._messages if each.get("role") == "user"), "")

    async def _body(self, recalled: Recalled) -> bytes:
        """What goes upstream: the client's own bytes where nothing is changed in them (V29)."""
        body, messages = self._asking.body, self._messages
        if self._conversation is not None:
            messages = await self._gateway.shortened(self._conversation, messages, began=self._asking.began)
        if recalled.is_empty and messages is self._messages and not FIELDS & body.keys():
            return self._asking.raw
        changed = {**without_ours(body), "messages": messages}
        if not recalled.is_empty:
            settings = self._gateway.settings
            changed["messages"] = place(messages, recalled, settings.chat_injection, settings.injected_tokens)
        return json.dumps(changed, separators=(",", ":")).encode()

    # ------------------------------------------------------------------ the response cache
    def _cache_key(self, conversation: Conversation | None) -> str | None:
        """What the very same request of the same caller and user has in common; None where nothing is kept."""
        if self._gateway.cache is None:
            return None
        asking = self._asking
        headers = sorted(
            (name, value)
            for name, value in asking.request.headers.items()
            if name in ("authorization", "x-api-key", "api-key", "cookie", "openai-organization", "openai-project")
            or (name.startswith("x-") and name not in ("x-request-id", "x-stainless-retry-count"))
        )
        whose = sorted(conversation.scope.given().items()) if conversation else None
        query = asking.request.url.query
        shared = [asking.caller.name, asking.is_foreign, whose, query, headers]
        return hashlib.sha256(json.dumps(shared).encode() + b"\n" + asking.raw).hexdigest()

    async def _from_cache(self, send: Send, key: str) -> bool:
        """Give the answer that the same request had (V30); whether there was one."""
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
    """A JSON object with `memory_hits` as its last key (A5), its other bytes as they were; all of it for other JSON."""
    body = data.rstrip()
    try:
        is_object = isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return data
    if not is_object:
        return data
    told = [{"role": hit.role, "content": hit.memory, "created_at": hit.created_at, "score": hit.score} for hit in hits]
    before = body[:-1].rstrip()
    comma = b"" if before.endswith(b"{") else b","
    return before + comma + b'"memory_hits":' + json.dumps(told, separators=(",", ":")).encode() + b"}"


def _check(body: dict[str, Any]) -> None:
    """InvalidInputError for what is no chat; whatever a message holds passes, for the model's server to judge."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidInputError("messages must be a list of one message at least", field="messages")
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InvalidInputError(f"messages[{at}] must be an object with a role", field=f"messages[{at}]")


def _is_events(answer: UpstreamAnswer) -> bool:
    return (answer.header("content-type") or "").lower().startswith("text/event-stream")


def _said_in(data: bytes) -> str:
    """The assistant's text in a whole completion; "" where there is none."""
    try:
        choice = first_choice(json.loads(data))
    except (ValueError, RecursionError):
        return ""
    message = choice.get("message") if choice is not None else None
    return words(message.get("content")) if isinstance(message, dict) else ""
