"""Gateway: what every route that speaks to a model works with."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

from prometheus_client import CollectorRegistry

from perdure.backends.caches.memory import MemoryCache
from perdure.backends.upstreams.http import HttpUpstream
from perdure.domain.access import Caller
from perdure.domain.message import Message
from perdure.engine.engine import Engine
from perdure.engine.gateway.borrowing import Loan
from perdure.engine.gateway.compressing import Compressing
from perdure.engine.gateway.conversation import Conversation
from perdure.engine.gateway.echoing import injected, standing_in
from perdure.engine.gateway.recalling import Ask, Recalled, Recalling
from perdure.engine.gateway.remembering import Remembering, Turn
from perdure.engine.gateway.settings import GatewaySettings
from perdure.engine.soft import given_up
from perdure.frontends.faults import NoUpstreamError
from perdure.frontends.gateway.counting import Counting
from perdure.frontends.gateway.tasks import Tasks

T = TypeVar("T")

MODEL_ROUTES = ("/v1/chat/completions", "/v1/responses", "/chat/completions", "/responses")
"""The routes that have memory, for clients whose base URL has no /v1 too; what stands below them is theirs as well."""

_ENCODED = 3
"""Times that a path may be encoded and is still known."""

logger = logging.getLogger("perdure.gateway")


class Gateway:
    """The model's server, the memory's two sides, and the work between them; on `app.state.gateway`."""

    def __init__(
        self,
        engine: Engine,
        settings: GatewaySettings,
        *,
        trust_client_user_id: bool,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.trust_client_user_id = trust_client_user_id
        """Whether the user that a request's body names is believed."""
        self.recalling = Recalling(engine, settings)
        self.remembering = Remembering(engine, settings)
        self.compressing = Compressing(engine, settings)
        self.counting = Counting(registry)
        self.cache = MemoryCache(MemoryCache.Settings()) if settings.response_cache_seconds else None
        """Answers to the very same requests (V30); None where none is given twice."""
        self._tasks = Tasks()
        self._upstream = _upstream(settings)
        self._own: frozenset[str] = frozenset()

    @property
    def passes(self) -> bool:
        """Whether what is not ours is passed on to the model's server: where there is one."""
        return self._upstream is not None

    @property
    def upstream(self) -> HttpUpstream:
        """The model's server; NoUpstreamError where no setting names one."""
        if self._upstream is None:
            raise NoUpstreamError(
                "no model's server is set: gateway.upstream.base_url in perdure.toml, PERDURE_GATEWAY__UPSTREAM__"
                "BASE_URL, or `perdure proxy --openai-base-url`"
            )
        return self._upstream

    # ------------------------------------------------------------------ what is ours
    def keep_own(self, paths: Sequence[str]) -> None:
        """Take the templates of this server's own routes: nothing at or below them is ever passed on (U25)."""
        fixed = {path.partition("{")[0].rstrip("/") for path in paths}
        self._own = frozenset(path for path in fixed if path and not path.startswith(MODEL_ROUTES))

    def takes(self, path: str) -> bool:
        """Whether a request goes to the model's server, with memory or without."""
        if not path.startswith("/") or self.is_own(path):
            return False
        # In another spelling a model's route would pass without what is looked at there.
        return is_model_route(path) or (self.passes and not is_model_route("/" + "/".join(_plain(path))))

    def is_own(self, path: str) -> bool:
        """Whether a path is this server's, or below one that is, in whichever of its spellings."""
        spellings = (path.split("/")[1:], _plain(path))
        return any(
            "/" + "/".join(parts[:count]) in self._own for parts in spellings for count in range(1, len(parts) + 1)
        )

    # ------------------------------------------------------------------ memory
    async def recall(self, ask: Ask) -> Recalled:
        """What is remembered for a request."""
        with self.counting.recalling() as told:
            recalled = await self.recalling(ask)
            told(recalled.status, recalled.reason, len(recalled.hits))
        return recalled

    async def shortened(
        self, conversation: Conversation, messages: list[dict[str, Any]], *, began: float
    ) -> list[dict[str, Any]]:
        """A request's messages without those that its state stands for; the very same list where none does (V83).

        `began` is when the request came, by the monotonic clock: what recall took of the time that memory may take is
        gone.
        """
        return await self.compressing(conversation, messages, within=began + self.settings.recall_seconds)

    def note(self, conversation: Conversation, recalled: Recalled, body: bytes) -> None:
        """Remember what of this was put into a body, so that no echo of it is learned; what is kept after it waits."""
        if not recalled.is_empty:
            items, summary = standing_in(body, recalled)
            self.later(injected(self.engine.kernel, conversation.scope, items, summary), line_of(conversation))

    def keeping(
        self, conversation: Conversation, user: Message, tools: Sequence[Message] = (), *, loan: Loan | None = None
    ) -> Keeping:
        """What is to be kept of one request's turn; `loan` is what its own model may read it by."""
        return Keeping(self, self._tasks, conversation, user, tools, loan=loan)

    def later(self, work: Coroutine[Any, Any, T], line: str) -> asyncio.Task[T]:
        """Do some work that no answer waits for, after what was begun before it in its line."""
        return self._tasks.spawn(work, line)

    async def written(self) -> None:
        """Wait until what was said by now is kept, for who asks for it."""
        await self._tasks.so_far()

    # ------------------------------------------------------------------ life
    async def start(self) -> None:
        """Begin to work on what is due."""
        if self.settings.enabled:
            if self.passes:
                self.later(self.recalling.warm(), "warm")
            await self.remembering.start()
            await self.compressing.start()

    async def close(self) -> None:
        """Finish what is under way, and close every connection to the model's server."""
        await self._tasks.finish()
        await self.recalling.close()
        if self.settings.enabled:
            await self.remembering.close()
            await self.compressing.close()
        if self._upstream is not None:
            await self._upstream.close()

    @property
    def under_way(self) -> int:
        """Tasks that nobody waits for and that are not done."""
        return len(self._tasks)


class Keeping:
    """One turn on its way into memory: nothing here is waited for, and what is said in a scope is kept in order."""

    def __init__(
        self,
        gateway: Gateway,
        tasks: Tasks,
        conversation: Conversation,
        user: Message,
        tools: Sequence[Message],
        *,
        loan: Loan | None,
    ) -> None:
        self._remembering = gateway.remembering
        self._tasks = tasks
        self._conversation = conversation
        self._user, self._tools = user, tuple(tools)
        self._loan = loan
        self._line = line_of(conversation)
        self._begun: asyncio.Task[Turn] | None = None
        self._ended: asyncio.Task[Turn | None] | None = None

    def begin(self) -> None:
        """Keep the user's words now (K37)."""
        begun = self._remembering.begin(self._conversation, self._user, self._tools)
        self._begun = self._tasks.spawn(begun, self._line)

    async def episodes(self) -> tuple[str, ...]:
        """The ids under which the user's words are kept, as soon as they are; none where that was not begun."""
        return (await asyncio.shield(self._begun)).episodes if self._begun is not None else ()

    def end(self, answer: str, *, complete: bool = True) -> None:
        """Keep the answer, and the user's words before it unless they are kept (K38)."""
        self._ended = self._tasks.spawn(self._end(answer, complete), self._line)

    async def ended(self) -> Turn | None:
        """The turn as soon as its answer is kept; None where it is not."""
        return await asyncio.shield(self._ended) if self._ended is not None else None

    async def _end(self, answer: str, complete: bool) -> Turn | None:
        turn: Turn | None = None
        with given_up("a turn is not remembered"):
            if self._begun is not None:
                turn = await self._begun
            else:
                turn = await self._remembering.begin(self._conversation, self._user, self._tools)
            await self._remembering.end(turn, answer, complete=complete, loan=self._loan)
        return turn


def line_of(conversation: Conversation) -> str:
    """The line of what is kept of a conversation: what is said behind the same walls is kept in order."""
    return str(sorted(conversation.scope.given().items()))


def is_model_route(path: str) -> bool:
    """Whether a path is of the routes that have memory."""
    return any(path == route or path.startswith(f"{route}/") for route in MODEL_ROUTES)


def _plain(path: str) -> list[str]:
    """The names of a path as the most lenient server would read it: one misspelt is still not the model's to see."""
    for _ in range(_ENCODED):
        path = unquote(path)
    names: list[str] = []
    for part in path.replace("\\", "/").lower().split("/"):
        name = part.partition(";")[0]
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names


def may_store(caller: Caller) -> bool:
    """Whether what a caller says is kept: not of one who may only read."""
    return caller.role != "reader"


def _upstream(settings: GatewaySettings) -> HttpUpstream | None:
    chosen = settings.upstream
    if chosen.base_url is None:
        return None
    key = chosen.api_key.get_secret_value() if chosen.api_key else os.environ.get("OPENAI_API_KEY", "").strip()
    return HttpUpstream(
        chosen.base_url,
        api_key=key or None,
        connect_seconds=chosen.connect_seconds,
        silent_seconds=chosen.silent_seconds,
    )
