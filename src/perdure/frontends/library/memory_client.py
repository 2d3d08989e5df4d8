"""MemoryClient: the memory proxy inside your own process: chats with a model that remembers."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal, Self, overload

from perdure.backends.http.upstream import HttpUpstream, UpstreamAnswer
from perdure.domain.errors import ConfigError, UpstreamError
from perdure.domain.event import AddResult
from perdure.domain.filter import parse_filter
from perdure.domain.scope import Scope
from perdure.engine import requests
from perdure.engine.chat.conversation_step import ConversationStep, answer_text, check_messages, hit_view
from perdure.engine.chat.memory_reader import MemoryReader, RecallRequest, injected, standing_in
from perdure.engine.chat.memory_writer import MemoryWriter
from perdure.engine.chat.settings import DEFAULT, GLOBAL, Conversation
from perdure.engine.chat.turn_log import PendingTurn
from perdure.engine.requests import Filters
from perdure.frontends.gateway.sse import DONE, ChatStream, Events, json_object
from perdure.frontends.library.closing import AsyncClosing
from perdure.frontends.library.memory import AsyncMemory
from perdure.frontends.library.memory_client_settings import client_config, embedder_settings
from perdure.frontends.library.portal import PORTAL

CHAT_MODEL = "gpt-4o-mini"  # the model of a chat without one
_PATH = "/v1/chat/completions"
ChatMessages = Sequence[Mapping[str, Any]]  # a chat in OpenAI's format, with any kind of message


class MemoryClient(AsyncClosing):
    """Chats with an OpenAI-compatible server, with a memory for each conversation; all of them read `global`.

    Every memory is a Markdown file below `memory_path/entries`, which you may read, edit and delete. Changes on disk
    become memory at the next opening, or at once if the folder is watched; `start_watcher` watches from the first call
    on. Changes are committed to a git repository there, unless `enable_git_versioning` is off. Constructing a client
    opens nothing; `async with`, or `start`, begins to watch, and resumes the work of an earlier process. Rules extract
    facts in the background. `embedding_model` is a model of the server, a folder with one, or `minilm`, which runs
    locally; an unknown model of the server needs `embedding_dimensions`. Its methods belong to one event loop, except
    `list_all`, which is for callers without `await`. All errors are PerdureError; if memory fails, the chat goes on
    without it.
    """

    def __init__(
        self,
        memory_path: str | os.PathLike[str] = "./memory_db",
        openai_base_url: str | None = None,
        *,
        embedding_base_url: str | None = None,
        embedding_model: str = "text-embedding-3-small",
        embedding_api_key: str | None = None,
        chat_api_key: str | None = None,
        embedding_dimensions: int | None = None,
        enable_summarization: bool = True,
        default_top_k: int = 5,
        max_entries: int = 500,
        mmr_lambda: float = 0.7,
        recency_weight: float = 0.2,
        score_threshold: float | None = None,
        start_watcher: bool = False,
        enable_git_versioning: bool = True,
    ) -> None:
        if not isinstance(openai_base_url, str) or not openai_base_url.strip():
            raise ConfigError(
                "openai_base_url must be the address of an OpenAI-compatible server, with its /v1",
                field="openai_base_url",
                value=openai_base_url,
            )
        config = client_config(
            memory_path=Path(memory_path),
            openai_base_url=openai_base_url,
            chat_api_key=chat_api_key,
            embedder=embedder_settings(
                embedding_model,
                embedding_base_url or openai_base_url,
                embedding_api_key or chat_api_key,
                embedding_dimensions,
            ),
            watch=requests.read_flag(start_watcher, "start_watcher"),
            git=requests.read_flag(enable_git_versioning, "enable_git_versioning"),
            gateway={
                "summaries": enable_summarization,
                "default_retrieval_limit": default_top_k,
                "max_entries": max_entries,
                "mmr_lambda": mmr_lambda,
                "recency_weight": recency_weight,
                "default_similarity_threshold": score_threshold,
            },
        )
        self.config = config
        self._memory = AsyncMemory(config)
        self._recalling = MemoryReader(self._memory._engine, config.gateway)
        self._remembering = MemoryWriter(self._memory._engine, config.gateway)
        key = config.gateway.upstream.api_key
        self._upstream = HttpUpstream(openai_base_url, api_key=key.get_secret_value() if key is not None else None)

    async def add(self, text: str, conversation_id: str = DEFAULT) -> AddResult:
        """Extract the facts of a text and reconcile them; no chat model is called."""
        return await self._memory.add(requests.read_text(text, "text"), run_id=_name(conversation_id))

    async def search(
        self,
        query: str,
        conversation_id: str = DEFAULT,
        *,
        top_k: int | None = None,
        recency_weight: float | None = None,
        score_threshold: float | None = None,
        filters: Filters | None = None,
        order: str = "score",
    ) -> list[dict[str, Any]]:
        """Return the memories that answer a query, each as `{role, content, created_at, score}`.

        They come best first; with `order="time"` the same ones come oldest first.
        """
        ask = RecallRequest(
            conversation=_conversation(conversation_id),
            query=requests.read_text(query, "query"),
            limit=None if top_k is None else requests.read_limit(top_k, "top_k"),
            order=requests.read_one_of(order, requests.ORDERS, "order"),
            **_checked(recency_weight, score_threshold, filters),
        )
        return [hit_view(item) for item in (await self._recalling.search(ask)).results]

    def list_all(self, conversation_id: str = DEFAULT, include_summary: bool = False) -> list[dict[str, Any]]:
        """Return the entries of a conversation, oldest first, each as `{id, content, role, created_at}`."""
        kinds = ("facts", "messages", *(("summaries",) if include_summary else ()))
        scope = Scope(run_id=_name(conversation_id))
        page = self._memory._engine.lookup.get_all(
            scope, limit=requests.MAX_LIMIT, filters=None, cursor=None, as_of=None, include_past=False, kinds=kinds
        )
        return [
            {"id": item.id, "content": item.memory, "role": item.role, "created_at": item.created_at}
            for item in PORTAL.call(page).results
        ]

    @overload
    async def chat(
        self,
        messages: ChatMessages,
        conversation_id: str = DEFAULT,
        model: str = CHAT_MODEL,
        stream: Literal[False] = False,
        **options: Any,
    ) -> dict[str, Any]: ...

    @overload
    async def chat(
        self,
        messages: ChatMessages,
        conversation_id: str = DEFAULT,
        model: str = CHAT_MODEL,
        *,
        stream: bool,
        **options: Any,
    ) -> dict[str, Any] | AsyncIterator[dict[str, Any]]: ...

    async def chat(
        self,
        messages: ChatMessages,
        conversation_id: str = DEFAULT,
        model: str = CHAT_MODEL,
        stream: bool = False,
        *,
        api_key: str | None = None,
        memory_top_k: int | None = None,
        recency_weight: float | None = None,
        score_threshold: float | None = None,
        filters: Filters | None = None,
        **fields: Any,
    ) -> dict[str, Any] | AsyncIterator[dict[str, Any]]:
        """Call the model with the recalled memories, and store the turn.

        Returns the completion with its `memory_hits`, or with `stream` an iterator over its chunks; close it
        (`aclosing`) if you stop early. `fields` are sent to the server as they are (temperature, tools, ...);
        `memory_top_k` 0 calls without memory. UpstreamError if the server cannot be reached or answers with an error:
        then nothing is stored, except the user's message of a stream.
        """
        found, conversation = check_messages(messages), _conversation(conversation_id)
        step = ConversationStep(conversation, found, fields)
        checked = _checked(recency_weight, score_threshold, filters)
        recalled = await step.recall(self._recalling, limit=memory_top_k, **checked)
        placed = step.placed(self.config.gateway)
        body = json.dumps({**fields, "model": model, "messages": placed, "stream": stream}).encode()
        turn = step.pending()
        if stream:
            return self._streamed(step, turn, body, api_key)
        answer = await self._ask(body, api_key)
        completion = _read(await answer.read())
        await self._note(step, body)
        if turn is not None:
            await self._remembering.turns.keep_answer(turn, answer_text(completion))
        return {**completion, "memory_hits": [hit_view(item) for item in recalled.hits]}

    async def _note(self, step: ConversationStep, body: bytes) -> None:
        """Record the memories in the prompt, so that a repetition of them is not learned."""
        items, summary = standing_in(body, step.recalled)
        await injected(self._memory._engine.kernel, step.conversation.scope, items, summary)

    async def _streamed(
        self, step: ConversationStep, turn: PendingTurn | None, body: bytes, api_key: str | None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the chunks of an answer; if it breaks off or is closed early, what arrived is stored."""
        if turn is not None:
            await self._remembering.turns.keep_user(turn)
        reader, complete = ChatStream(), False
        try:
            answer = await self._ask(body, api_key)
            try:
                async with aclosing(_chunks(answer, reader)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                complete = True
            finally:
                answer.close()
        finally:
            await self._note(step, body)
            if turn is not None and (complete or reader.text):
                await self._remembering.turns.keep_answer(turn, reader.text, complete=complete)

    async def _ask(self, body: bytes, api_key: str | None) -> UpstreamAnswer:
        headers = {"Content-Type": "application/json"}
        authorization = f"Bearer {api_key}" if api_key else self._upstream.authorization
        if authorization is not None:
            headers["Authorization"] = authorization
        answer = await self._upstream.send("POST", _PATH, headers=headers, body=body)
        if answer.status >= 300:
            answer.close()
            raise UpstreamError(f"the model's server answered {answer.status}", code=f"status_{answer.status}")
        return answer

    async def start(self) -> None:
        """Watch the files, and run due jobs, including those that an earlier process left."""
        if (vault := self._memory._engine.kernel.file_observer) is not None:
            vault.watch()
        await self._remembering.start()

    async def stop(self) -> None:
        """Close files and connections; the next process learns what is left. Stopping twice is no error."""
        await self._recalling.close()
        await self._remembering.close()
        await self._upstream.close()
        await self._memory.close()

    async def close(self) -> None:
        """The same as `stop`."""
        await self.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self


async def _chunks(answer: UpstreamAnswer, reader: ChatStream) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the events of a stream as objects, and pass each to the reader."""
    events = Events()
    async for piece in answer.chunks():
        reader.feed(piece)
        for data in events.feed(piece):
            if data.strip() != DONE:
                yield _read(data)
    reader.end()
    for data in events.end():
        if data.strip() != DONE:
            yield _read(data)


def _read(data: bytes | str) -> dict[str, Any]:
    value = json_object(data)
    if value is None:
        raise UpstreamError("the model's server answered with what is no JSON object", code="bad_answer")
    return value


def _name(conversation_id: object) -> str:
    return requests.read_text(conversation_id, "conversation_id")


def _conversation(conversation_id: object) -> Conversation:
    """Build the conversation, and the one that all share."""
    name = _name(conversation_id)
    return Conversation(scope=Scope(run_id=name), shared=Scope(run_id=GLOBAL), session=name, dialect="chat")


def _checked(weight: float | None, threshold: float | None, filters: Filters | None) -> dict[str, Any]:
    return {
        "recency_weight": None if weight is None else requests.read_share(weight, "recency_weight"),
        "threshold": None if threshold is None else requests.read_share(threshold, "score_threshold"),
        "filters": parse_filter(filters),
    }
