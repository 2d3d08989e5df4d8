"""Extract facts from turns with the model, and the API key, of the caller's own request.

Grants exist only in this process's memory: in no ledger, job, log line, error or metric. A key reads only the turns
that came with it, so that no caller's key sends, or pays for, another caller's words.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from perdure.backends import registry
from perdure.backends.http.service import NO_KEY
from perdure.backends.llms.base import LLM
from perdure.domain.errors import ConfigError, DependencyError
from perdure.engine.aio.calls import degrade, never_fail
from perdure.engine.build import reader_by
from perdure.engine.chat.extraction import PATIENCE
from perdure.engine.chat.settings import GatewaySettings
from perdure.engine.config.config import LLMConfig
from perdure.engine.engine import Engine
from perdure.engine.write.curator import Curator

logger = logging.getLogger("perdure")
MOST_GRANTS = 1_000  # sessions whose grants are held; beyond it the least recently used grant is dropped
CREDENTIAL_TTL_SECONDS = 3_600.0  # how long a caller's API key is kept after its last turn
MOST_MODELS = 32  # models whose connections are kept open: each has its own certificates, about a megabyte
_NOT_HERE = "turns are read by the rules: the key that came with them is not here (any more)"
_NOT_ASKABLE = "turns are read by the rules: the model or the key that came with them is not one that can be asked with"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGrant:
    """The model, server and API key of a request, for reading its turns; its `repr` shows no key."""

    model: str
    base_url: str  # address of the server's OpenAI-compatible API; its /chat/completions is called
    key: SecretStr | None  # none if the request had none

    def is_alike(self, other: ModelGrant) -> bool:
        """Whether it has the same caller and server, even if the model differs."""
        return (self.base_url, self.key) == (other.base_url, other.key)


@dataclass(slots=True)
class _GrantedModel:
    """The model of a grant, shared by sessions; it stays open until its readers are done."""

    llm: LLM
    curator: Curator
    readers: int = 0
    is_over: bool = False


@dataclass(slots=True)
class _SessionGrant:
    """A session's grant, and the range of turns that it may read."""

    grant: ModelGrant
    first: int
    last: int
    until: float  # by the event loop's clock

    def takes(self, turn: int, grant: ModelGrant) -> bool:
        """Whether a turn of this grant joins the range: every turn in between came with the same grant."""
        return self.grant.is_alike(grant) and self.first - 1 <= turn <= self.last + 1


class CallerModels:
    """The grants of one process and the curators built from them; nothing here raises."""

    def __init__(self, engine: Engine, settings: GatewaySettings) -> None:
        self._config = config = engine.kernel.config
        self.is_on = settings.extract_with_upstream and config.llm is None and config.extraction_llm is None
        """Whether grants are used at all: not if the configuration has a model for extraction."""
        self._lent: OrderedDict[Hashable, _SessionGrant] = OrderedDict()
        self._models: OrderedDict[ModelGrant, _GrantedModel] = OrderedDict()
        self._said: set[str] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def lend(self, session: Hashable, turn: int, grant: ModelGrant | None) -> None:
        """Store the grant of a turn; a turn without a grant is left to the rules."""
        if grant is None or not self.is_on:
            if turn in self.turns(session):  # the session was erased, and its turns are counted from 1 again
                self._drop(session)
            return
        until = asyncio.get_running_loop().time() + CREDENTIAL_TTL_SECONDS
        lent = self._lent.get(session)
        if lent is None or not lent.takes(turn, grant):
            self._drop(session)
            lent = self._lent[session] = _SessionGrant(grant, turn, turn, until)
        before, lent.grant, lent.until = lent.grant, grant, until
        lent.first, lent.last = min(lent.first, turn), max(lent.last, turn)
        self._lent.move_to_end(session)
        self._close_unless_lent(before)
        if len(self._lent) > MOST_GRANTS:
            self._drop(next(iter(self._lent)))
        self._watch()

    def turns(self, session: Hashable) -> range:
        """Return the turns that a session's grant covers; none if there is no grant."""
        lent = self._lent.get(session)
        return range(0) if lent is None else range(lent.first, lent.last + 1)

    def _watch(self) -> None:
        if self._timer is None and self._lent:
            until = next(iter(self._lent.values())).until
            self._timer = asyncio.get_running_loop().call_at(until, self._age)

    def _age(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for session in [each for each, lent in self._lent.items() if lent.until <= now]:
            self._drop(session)
        self._watch()

    def _drop(self, session: Hashable) -> None:
        lent = self._lent.pop(session, None)
        if lent is not None:
            self._close_unless_lent(lent.grant)

    def _close_unless_lent(self, grant: ModelGrant) -> None:
        if grant in self._models and all(lent.grant != grant for lent in self._lent.values()):
            self._over(grant)

    def _over(self, grant: ModelGrant) -> None:
        """Close the model of a grant, at once or when its last reader is done."""
        asked = self._models.pop(grant)
        asked.is_over = True
        if not asked.readers:
            task = asyncio.get_running_loop().create_task(_closed(asked.llm))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    @asynccontextmanager
    async def reader(self, session: Hashable, turn: int) -> AsyncGenerator[Curator | None]:
        """Yield the curator for a turn's grant; None, logged once, if the configured one must read it."""
        asked = self._asked(session, turn) if self.is_on else None
        if asked is None:
            yield None
            return
        asked.readers += 1
        try:
            yield asked.curator
        finally:
            asked.readers -= 1
            if asked.is_over and not asked.readers:
                await _closed(asked.llm)

    def _asked(self, session: Hashable, turn: int) -> _GrantedModel | None:
        lent = self._lent.get(session)
        if lent is None or turn not in self.turns(session):
            self._say(_NOT_HERE)
            return None
        grant = lent.grant
        if grant not in self._models:
            try:
                named = LLMConfig(
                    provider="openai", config={"model": grant.model, "base_url": grant.base_url, "timeout": PATIENCE}
                )
                # Missing values would come from the environment: the server's own key, and the account that pays.
                key = grant.key.get_secret_value() if grant.key is not None else NO_KEY
                llm: LLM = registry.build("llms", named.provider, {**named.config, "api_key": key, "account": "none"})
                self._models[grant] = _GrantedModel(llm, reader_by(self._config, named, llm))
            except DependencyError as error:  # it names the package and the pip line
                self._say(f"turns are read by the rules: {error.message}")
                return None
            except ConfigError:  # it names what is wrong, which a client made up: not for the log
                self._say(_NOT_ASKABLE)
                return None
        self._models.move_to_end(grant)
        if len(self._models) > MOST_MODELS:
            self._over(next(iter(self._models)))
        return self._models[grant]

    def _say(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            logger.warning(what)

    async def close(self) -> None:
        """Drop every grant and close the models."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session in tuple(self._lent):
            self._drop(session)
        while self._closing:
            await asyncio.wait(set(self._closing))


async def _closed(llm: LLM) -> None:
    what = "a borrowed model was not closed"
    with never_fail(what, []), degrade(what):
        await llm.close()
