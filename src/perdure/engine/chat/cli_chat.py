"""A conversation with a model that remembers: recall before each answer, learn after it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from perdure.backends import registry
from perdure.backends.llms.base import LLM
from perdure.domain.errors import ConfigError
from perdure.domain.event import AddResult
from perdure.domain.memory import MemoryItem
from perdure.domain.message import Message
from perdure.domain.scope import Scope
from perdure.engine.aio.calls import degrade
from perdure.engine.chat.conversation_step import ConversationStep
from perdure.engine.chat.memory_reader import Recalled, RecallRequest
from perdure.engine.chat.settings import Conversation
from perdure.engine.config.config import MemoryConfig
from perdure.engine.engine import Engine
from perdure.engine.requests import Addition, Query
from perdure.pipeline.curation.llm.parsing import without_thoughts
from perdure.pipeline.prompting.context_block import render
from perdure.pipeline.prompts import load
from perdure.pipeline.retrieval.presets import PRESETS

RECALLED = 8  # memories for each answer: about as many as a system prompt can hold without losing focus
LEAST_SCORE = 0.3  # below this score a memory is hardly related to the message; a fair match scores 0.5
MEMORY_TOKENS = 800  # tokens of the system prompt that memories may take
MOST_WAITING = 60  # last waiting messages that one call reads; older ones wait for `perdure doctor --repair`
WINDOW = 30  # earlier messages of this session shown to the model; older ones are available as memories


class Chat:
    """One session: for each turn `recall`, then `answer`, then `learn`; `finish` at its end.

    If memory fails, the answer is not affected, and there is a warning. If the model fails, LLMError is raised; the
    user's message is learned all the same.
    """

    def __init__(self, engine: Engine, llm: LLM, scope: Scope, *, system: str | None = None, every: int = 1) -> None:
        """`every` is the number of turns that are read for facts together, in one call of a model."""
        self.warnings: list[str] = []
        self._every = every
        self._unread = 0
        self._engine = engine
        self._llm = llm
        self._conversation = Conversation(scope=scope.require_owner(), session="", dialect="chat")
        self._step = ConversationStep(self._conversation, ())
        self._system = system or load("chat")
        self._messages: list[Message] = []

    async def recall(self, text: str) -> Sequence[MemoryItem]:
        """Take the user's message; return the relevant memories, best first."""
        self._step = ConversationStep(self._conversation, [{"role": "user", "content": text}])
        recalled = await self._step.recall(self._search, limit=RECALLED, threshold=LEAST_SCORE)
        self._messages = [*self._messages, Message("user", text)][-WINDOW:]
        return recalled.hits

    async def _search(self, ask: RecallRequest) -> Recalled:
        query = Query(
            text=ask.query,
            scope=self._conversation.scope,
            limit=RECALLED,
            threshold=ask.threshold,
            preset=PRESETS[self._engine.kernel.config.preset],
            trusted=True,
        )
        with degrade("nothing was recalled", self.warnings):
            found = await self._engine.read.search(query)
            return Recalled(status="used", reason="injected", hits=tuple(found.results))
        return Recalled(status="unavailable", reason="retrieval_error")

    async def answer(self) -> AsyncGenerator[str, None]:
        """Yield the model's answer in pieces; after a failure or a stop, the pieces so far count as said."""
        block = render(self._step.recalled.hits, max_tokens=MEMORY_TOKENS)
        system = f"{self._system}\n\n{block}" if block else self._system
        pieces: list[str] = []
        try:
            async with aclosing(self._llm.stream(system, self._messages)) as stream:
                async for piece in stream:
                    pieces.append(piece)
                    yield piece
        finally:
            said = without_thoughts("".join(pieces)).strip()
            if said:
                self._messages = [*self._messages, Message("assistant", said)]

    async def learn(self) -> AddResult:
        """Store the turn, and read it: the user's message, and what the answer confirms of it.

        Where several turns are read together, those before the last of them are only stored, and searched by their
        words.
        """
        said = [position for position, message in enumerate(self._messages) if message.role == "user"][-1]
        result = AddResult([])
        with degrade("the turn was not remembered", self.warnings):
            result = await self._engine.write.add(
                Addition(messages=self._messages[said:], scope=self._conversation.scope, later=self._every > 1)
            )
        self.warnings += result.warnings
        self._unread += self._every > 1 and result.waiting > 0
        return await self.finish() if self._unread >= self._every > 1 else result

    async def finish(self) -> AddResult:
        """Read what waits in the scope of the conversation; what cannot be read goes on waiting, in the ledger."""
        result, self._unread = AddResult([]), 0
        ledger, scope = self._engine.kernel.ledger, self._conversation.scope
        if self._every == 1 or ledger is None:
            return result
        with degrade("the turns wait to be read", self.warnings):
            found = await ledger.pending_episodes(scope)
            waiting = [episode for episode in found if Scope(**episode.scope) == scope]
            if waiting:
                result = await self._engine.write.extract_pending(waiting[-MOST_WAITING:], scope, actor="add")
        self.warnings += result.warnings
        return result


def open_model(config: MemoryConfig, model: str | None) -> LLM:
    """Open the model of the chat: `PROVIDER/MODEL`, or MODEL of the configured provider, or the configured one.

    Another model of the configured provider uses its settings. ConfigError if there is none.
    """
    configured = config.llm
    if model is None:
        if configured is None:
            raise ConfigError(
                "there is no language model to talk to: name one, as in --model ollama/llama3.2, or set [llm] in"
                " perdure.toml",
                field="llm",
            )
        llm: LLM = registry.build("llms", configured.provider, configured.config)
        return llm
    provider, slash, name = model.partition("/")
    known = slash and provider in registry.providers("llms")
    if not known:
        if configured is None:
            listed = ", ".join(registry.providers("llms"))
            raise ConfigError(
                f"{model!r} names no provider: write PROVIDER/MODEL, with one of {listed}", field="model", value=model
            )
        provider, name = configured.provider, model
    settings = dict(configured.config) if configured is not None and configured.provider == provider else {}
    llm = registry.build("llms", provider, {**settings, "model": name})
    return llm
