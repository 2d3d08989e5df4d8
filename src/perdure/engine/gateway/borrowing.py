"""Borrowing: the model that a turn was put to also reads it for facts, with the key of the turn's own request (U24).

A loan lives in this process's memory alone: in no ledger, job, log line, error or metric. A key reads what came with it
and nothing else, so that nobody's words are sent, or paid for, by another's.
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
from perdure.backends.llms.base import LLM
from perdure.backends.service import NO_KEY
from perdure.domain.errors import ConfigError, DependencyError
from perdure.engine.build import reader_by
from perdure.engine.config import LLMConfig
from perdure.engine.curator import Curator
from perdure.engine.engine import Engine
from perdure.engine.gateway.extraction import PATIENCE
from perdure.engine.gateway.settings import GatewaySettings
from perdure.engine.soft import given_up, kept_from_failing

logger = logging.getLogger("perdure")

MOST_LOANS = 1_000
"""Sessions whose loans are held; of more the one that was lent least recently goes."""
SECONDS = 3_600.0
"""For which a loan is held after the last turn that came with it."""
MOST_MODELS = 32
"""Loans whose connections are held open: each has certificates of its own, which weigh a megabyte or so."""

_NOT_HERE = "turns are read by the rules: the key that came with them is not here (any more)"
_NOT_ASKABLE = "turns are read by the rules: the model or the key that came with them is not one that can be asked with"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """What a request went to its model with, which memory may ask the same model with; it shows no key."""

    model: str
    base_url: str
    """Address of the server's OpenAI-compatible API, whose /chat/completions is asked."""
    key: SecretStr | None
    """None where the request went up without one."""

    def is_alike(self, other: Loan) -> bool:
        """Whether the same asks at the same place, be it another model."""
        return (self.base_url, self.key) == (other.base_url, other.key)


@dataclass(slots=True)
class _Asked:
    """The model of a loan, which may be that of many sessions; it is not closed before its readers are done."""

    llm: LLM
    curator: Curator
    readers: int = 0
    is_over: bool = False


@dataclass(slots=True)
class _Lent:
    """A session's loan, and the turns that came with it."""

    loan: Loan
    first: int
    last: int
    until: float
    """By the event loop's clock."""

    def takes(self, turn: int, loan: Loan) -> bool:
        """Whether a turn of this loan joins those that are held: every turn between came with the same one."""
        return self.loan.is_alike(loan) and self.first - 1 <= turn <= self.last + 1


class Borrowing:
    """The loans of one process, and the readers that are made of them; nothing here raises."""

    def __init__(self, engine: Engine, settings: GatewaySettings) -> None:
        self._config = config = engine.kernel.config
        self.is_on = settings.extract_with_upstream and config.llm is None and config.extraction_llm is None
        """Whether anything is borrowed: not where a model of the configuration reads."""
        self._lent: OrderedDict[Hashable, _Lent] = OrderedDict()
        self._models: OrderedDict[Loan, _Asked] = OrderedDict()
        self._said: set[str] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------ loans
    def lend(self, session: Hashable, turn: int, loan: Loan | None) -> None:
        """Take the loan that a turn came with; a turn that came with none is the rules' to read."""
        if loan is None or not self.is_on:
            if turn in self.turns(session):  # the session was erased, and its turns are counted anew
                self._drop(session)
            return
        until = asyncio.get_running_loop().time() + SECONDS
        lent = self._lent.get(session)
        if lent is None or not lent.takes(turn, loan):
            self._drop(session)
            lent = self._lent[session] = _Lent(loan, turn, turn, until)
        before, lent.loan, lent.until = lent.loan, loan, until
        lent.first, lent.last = min(lent.first, turn), max(lent.last, turn)
        self._lent.move_to_end(session)
        self._close_unless_lent(before)
        if len(self._lent) > MOST_LOANS:
            self._drop(next(iter(self._lent)))
        self._watch()

    def turns(self, session: Hashable) -> range:
        """The turns of a session that its loan came with; none where there is no loan."""
        lent = self._lent.get(session)
        return range(0) if lent is None else range(lent.first, lent.last + 1)

    def _watch(self) -> None:
        """Have loans dropped as soon as they are too old; the first is the oldest."""
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
            self._close_unless_lent(lent.loan)

    def _close_unless_lent(self, loan: Loan) -> None:
        if loan in self._models and all(lent.loan != loan for lent in self._lent.values()):
            self._over(loan)

    def _over(self, loan: Loan) -> None:
        """Close the model of a loan, at once or when its last reader is done."""
        asked = self._models.pop(loan)
        asked.is_over = True
        if not asked.readers:
            task = asyncio.get_running_loop().create_task(_closed(asked.llm))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    # ------------------------------------------------------------------ readers
    @asynccontextmanager
    async def reader(self, session: Hashable, turn: int) -> AsyncGenerator[Curator | None]:
        """Who reads a turn with its loan; None where the configuration's reader does, which is said once."""
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

    def _asked(self, session: Hashable, turn: int) -> _Asked | None:
        lent = self._lent.get(session)
        if lent is None or turn not in self.turns(session):
            self._say(_NOT_HERE)
            return None
        loan = lent.loan
        if loan not in self._models:
            try:
                self._models[loan] = self._made(loan)
            except DependencyError as error:  # it names the package and the pip line
                self._say(f"turns are read by the rules: {error.message}")
                return None
            except ConfigError:  # it names what is wrong, which a client made up: not for the log
                self._say(_NOT_ASKABLE)
                return None
        self._models.move_to_end(loan)
        if len(self._models) > MOST_MODELS:
            self._over(next(iter(self._models)))
        return self._models[loan]

    def _made(self, loan: Loan) -> _Asked:
        named = LLMConfig(
            provider="openai", config={"model": loan.model, "base_url": loan.base_url, "timeout": PATIENCE}
        )
        # What is left out would be taken from the environment: the server's own key, and who pays for it.
        key = loan.key.get_secret_value() if loan.key is not None else NO_KEY
        llm: LLM = registry.build("llms", named.provider, {**named.config, "api_key": key, "account": "none"})
        return _Asked(llm, reader_by(self._config, named, llm))

    def _say(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            logger.warning(what)

    async def close(self) -> None:
        """Give every loan back, and close what was made of them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session in tuple(self._lent):
            self._drop(session)
        while self._closing:
            await asyncio.wait(set(self._closing))


async def _closed(llm: LLM) -> None:
    what = "a borrowed model was not closed"
    with kept_from_failing(what, []), given_up(what):
        await llm.close()
