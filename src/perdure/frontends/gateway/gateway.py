"""Gateway: what every route that speaks to a model works with."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

from prometheus_client import CollectorRegistry

from perdure.backends.upstreams.http import HttpUpstream
from perdure.domain.access import Caller
from perdure.domain.message import Message
from perdure.engine.engine import Engine
from perdure.engine.gateway.borrowing import Loan
from perdure.engine.gateway.compressing import Compressing
from perdure.engine.gateway.conversation import Conversation
from perdure.engine.gateway.echoing import marks_of, standing_in
from perdure.engine.gateway.recalling import Ask, Recalled, Recalling
from perdure.engine.gateway.remembering import Remembering
from perdure.engine.gateway.saying import Turn, Utterance
from perdure.engine.gateway.settings import GatewaySettings
from perdure.engine.soft import kept_from_failing
from perdure.frontends.faults import NoUpstreamError
from perdure.frontends.gateway.again import AnswersAgain
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
        self.remembering = Remembering(engine, settings, way=self.recalling.way)
        self.compressing = Compressing(engine, settings, self.remembering.injects)
        self.counting = Counting(registry)
        self.counting.watches(waiting=lambda: self.remembering.waiting, indexed=lambda: engine.read.index_bytes)
        seconds = settings.response_cache_seconds
        self.cache = AnswersAgain(seconds, lambda: engine.read.erasures) if seconds else None
        """Answers to the very same requests (V30); None where none is given twice."""
        self._tasks = Tasks(self.recalling.way)
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
    async def recall(self, ask: Ask, *, within: float) -> Recalled:
        """What is remembered for a request, in so many seconds at most.

        Where much that was said waits to be kept, the request waits too, for the rest of that time.
        """
        until = time.monotonic() + within
        with self.counting.recalling() as told:
            recalled = await self.recalling(ask, within=within)
            await self.remembering.room(until - time.monotonic())
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
            with kept_from_failing("what was injected is not noted: an echo of it may be read as something said", []):
                items, summary = standing_in(body, recalled)
                self.remembering.injects(conversation.scope, marks_of(items, summary))

    def keeping(
        self, conversation: Conversation, user: Message, tools: Sequence[Message] = (), *, loan: Loan | None = None
    ) -> Keeping:
        """What is to be kept of one request's turn; `loan` is what its own model may read it by."""
        return Keeping(self, conversation, user, tools, loan=loan)

    def later(self, work: Coroutine[Any, Any, T], line: str) -> asyncio.Task[T]:
        """Do some work that no answer waits for, after what was begun before it in its line."""
        return self._tasks.spawn(work, line)

    async def written(self) -> None:
        """Wait until what was said by now is kept, for who asks for it."""
        await self.remembering.written()
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
        """Work that nobody waits for and that is not done."""
        return len(self._tasks) + self.remembering.waiting


class Keeping:
    """One turn on its way into memory: no answer waits for it, and what is said is kept in the order of saying.

    Where so much waits that a request found no room in time, its turn is not kept, which is logged and counted.
    """

    def __init__(
        self,
        gateway: Gateway,
        conversation: Conversation,
        user: Message,
        tools: Sequence[Message],
        *,
        loan: Loan | None,
    ) -> None:
        self._remembering, self._counting = gateway.remembering, gateway.counting
        self._conversation = conversation
        self._user, self._tools = user, tuple(tools)
        self._loan = loan
        self._begun: Utterance | None = None
        self._ended: Utterance | None = None
        self._is_refused = False

    def begin(self) -> None:
        """Keep the user's words now (K37)."""
        if self._is_taken():
            self._begun = self._counted(self._remembering.opens(self._conversation, self._user, self._tools))

    async def episodes(self) -> tuple[str, ...]:
        """The ids under which the user's words are kept, as soon as they are; none where that was not begun."""
        turn = await _turn_of(self._begun)
        return turn.episodes if turn is not None else ()

    def end(self, answer: str, *, complete: bool = True, asks: bool = False) -> None:
        """Keep the answer, and the user's words before it unless they are kept (K38); whether it `asks` for tools."""
        if self._begun is not None:
            said = self._remembering.answers(self._begun, answer, complete=complete, asks=asks, loan=self._loan)
            self._ended = self._counted(said)
        elif not self._is_refused and self._is_taken():
            said = self._remembering.says(
                self._conversation, self._user, answer, self._tools, complete=complete, asks=asks, loan=self._loan
            )
            self._ended = self._counted(said)

    async def ended(self) -> Turn | None:
        """The turn as soon as its answer is kept; None where it is not."""
        return await _turn_of(self._ended)

    def _is_taken(self) -> bool:
        self._is_refused = self._remembering.is_full
        if self._is_refused:
            logger.warning("a turn is not kept: %d others wait for the ledger", self._remembering.waiting)
            self._counting.unkept("no_room")
        return not self._is_refused

    def _counted(self, said: Utterance) -> Utterance:
        said.done.add_done_callback(lambda _: None if said.is_kept else self._counting.unkept("failed"))
        return said


async def _turn_of(said: Utterance | None) -> Turn | None:
    if said is None:
        return None
    await asyncio.shield(said.done)
    return said.of


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
