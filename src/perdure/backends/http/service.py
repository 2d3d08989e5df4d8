"""Clients of remote services: settings, keys, one client per event loop, retries, time limits, error mapping."""

from __future__ import annotations

import asyncio
import importlib
import math
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from perdure.backends.blocking import run_blocking
from perdure.backends.registry import missing_driver
from perdure.domain.errors import ConfigError, EmbeddingError, LLMError, PerdureError, RerankerError

if TYPE_CHECKING:
    import httpx2

C = TypeVar("C")
T = TypeVar("T")

# One client for each event loop: a connection belongs to the loop that opened it.


class LoopClients(Generic[C]):
    """One client per event loop, created on first use.

    A loop that shuts down normally (asyncio.run) closes its client first.
    """

    def __init__(self, closed: Callable[[C], Awaitable[None]]) -> None:
        """`closed` closes a client's connections."""
        self._closed = closed
        self._guard = threading.Lock()
        self._kept: dict[asyncio.AbstractEventLoop, tuple[C, AsyncGenerator[C, None]]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def of_this_loop(self, make: Callable[[], Awaitable[C]]) -> C:
        """Return the running loop's client, created if needed."""
        loop = asyncio.get_running_loop()
        if kept := self._kept.get(loop):
            return kept[0]
        client = await make()
        with self._guard:
            for dead in [other for other in self._kept if other.is_closed()]:
                del self._kept[dead]
            kept = self._kept.setdefault(loop, (client, self._closing_with_the_loop(client)))
        if kept[0] is client:
            await anext(kept[1])  # from now on the loop knows of it
        else:  # another task was faster
            await self._closed(client)
        return kept[0]

    async def close(self) -> None:
        """Close the clients of all running event loops."""
        with self._guard:
            kept, self._kept = self._kept, {}
        here = asyncio.get_running_loop()
        for loop, (_, keeper) in kept.items():
            if loop is here:
                await keeper.aclose()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_ended(keeper), loop))

    async def _closing_with_the_loop(self, client: C) -> AsyncGenerator[C, None]:
        """Keeps the client open until the loop shuts down its asynchronous generators."""
        try:
            yield client
        finally:
            await self._closed(client)


async def _ended(keeper: AsyncGenerator[C, None]) -> None:
    await keeper.aclose()


# Retries after transient failures; the only layer of them, for the vendors' clients are told to make none.

TRANSIENT = frozenset({"rate_limit", "server", "connection"})
"""Codes of transient errors. A timeout is not among them: the caller has waited long enough."""
LONGEST_WAIT = 60.0  # seconds between two attempts at most; a service that asks for more is not asked again


class RetryLater(Exception):
    """Carries a transient error out of a call, and the wait in seconds that the service asked for, if any."""

    def __init__(self, error: PerdureError, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after


async def with_retry(
    call: Callable[[], Awaitable[T]],
    *,
    retries: int = 3,
    base_delay: float = 1.0,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """Await a call, with up to `retries` more attempts after transient failures; others are raised at once.

    Transient is a RetryLater, or a PerdureError with a code in TRANSIENT. The wait before attempt n + 2 is base_delay *
    2**n seconds, at most LONGEST_WAIT, or what the service asks for. The PerdureError is raised after the last attempt,
    and if the service asks for more than LONGEST_WAIT. Cancellation passes through.
    """
    attempt = 0
    while True:
        try:
            return await call()
        except RetryLater as later:
            error, after = later.error, later.after
        except PerdureError as failure:
            error, after = failure, None
            if failure.code not in TRANSIENT:
                raise
        wait = min(base_delay * 2.0**attempt, LONGEST_WAIT) if after is None else after
        if attempt >= retries or wait > LONGEST_WAIT:
            raise error
        await sleep(wait)
        attempt += 1


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds of `Retry-After`, at least 0; None if it is missing or unreadable.

    A number of seconds or an HTTP date (RFC 9110 §10.2.3). `headers` must find "retry-after" in lower case.
    """
    text = (headers.get("retry-after") or "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return _until(text, now or datetime.now(UTC))
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000": in UTC, but from nowhere in particular
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


NO_KEY = "no-key"  # what is sent where no key is needed: the vendors' clients insist on sending one
_KEY_LIKE = re.compile(r"\b(?:sk|pk|sess|hf)[-_][\w*.-]{4,}|\bAIza[\w-]{8,}|(?i:bearer)\s+\S+")
_LONGEST_MESSAGE = 500
ServiceError = LLMError | EmbeddingError | RerankerError


def secret_from(*variables: str) -> SecretStr | None:
    """Return the first non-empty environment variable as a secret, or None."""
    value = text_from(*variables)
    return SecretStr(value) if value else None


def text_from(*variables: str) -> str | None:
    """Return the first non-empty environment variable, or None."""
    return next((value for name in variables if (value := os.environ.get(name, "").strip())), None)


def without_none(values: Any) -> Any:
    """Remove settings that are None, so that a key of None falls back to the environment too."""
    return {key: value for key, value in values.items() if value is not None} if isinstance(values, dict) else values


def is_address(text: str, schemes: Collection[str] = ("http", "https")) -> bool:
    """Whether a text is an address with one of these schemes and a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that there cannot be
        return False


class RemoteSettings(BaseModel):
    """Settings of something on the network: None means not given, and errors show no value."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        validate_default=True,  # a default may come from the environment
        hide_input_in_errors=True,  # it may be a key
    )

    @model_validator(mode="before")
    @classmethod
    def _none_means_left_out(cls, values: Any) -> Any:
        return without_none(values)


class ServiceSettings(RemoteSettings):
    """Settings that every remote provider has."""

    timeout: float = Field(default=60.0, gt=0, le=3600)
    """Seconds that one attempt may take."""
    retries: int = Field(default=3, ge=0, le=10)
    """Retries after a rate limit, or a failure of the server or the connection."""
    retry_delay: float = Field(default=1.0, ge=0, le=60)
    """Seconds before the second attempt; doubled before each further one, unless the service says how long."""

    @field_validator("base_url", check_fields=False)
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None and not is_address(value):
            raise ValueError("must be an address such as https://host/v1")
        return value

    @field_validator("api_key", check_fields=False)
    @classmethod
    def _fits_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        key = value.get_secret_value().strip() if value else ""
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ValueError("a key is printable ASCII without spaces")
        return SecretStr(key) if key else None


def host_of(address: str) -> str:
    """Return the host of an address in lower case."""
    return (urlsplit(address).hostname or "").lower()


def key_or_fail(key: SecretStr | None, *, needed: bool, section: str, variable: str, advice: str = "") -> str:
    """Return the key in clear; ConfigError with advice if it is needed and missing."""
    if key is not None:
        return key.get_secret_value()
    if needed:
        field = f"{section}.config.api_key"
        raise ConfigError(f"{field} is missing: give it there or in {variable}{advice}", field=field)
    return NO_KEY


def readable(text: str) -> str:
    """Replace lone surrogates, which no request can carry, with U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def code_of(status: int) -> str | None:
    """Return the error code of an HTTP status; None, the error class's own, for a wrong request."""
    if status in (401, 403):
        return "authentication"
    if status == 402:
        return "quota"
    if status == 429:
        return "rate_limit"
    if status == 408:
        return "timeout"
    return "server" if status == 409 or status >= 500 else None


def installed(module: str) -> bool:
    """Whether a module is installed, found without importing it (only its parent packages)."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


class RefusedError(Exception):
    """The service rejected a request: the error to raise, the parameter named, and the service's words."""

    def __init__(self, error: ServiceError, parameter: str, said: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.parameter = parameter
        self.said = said


class Service(ABC, Generic[C]):
    """Calls a vendor's client, imported on first use; one client per event loop.

    If the client of a language model is not installed, construction raises DependencyError.
    """

    sdk: ClassVar[str]
    """The module of the vendor's client."""

    def __init__(
        self,
        provider: str,
        settings: ServiceSettings,
        make: Callable[[Any], C],
        failure: type[LLMError] | type[EmbeddingError] | type[RerankerError],
        secret: str = NO_KEY,
    ) -> None:
        # An embedder that cannot work is done without (its port's `unavailable`); a model that was named is not.
        if failure is LLMError and not installed(self.sdk):
            raise missing_driver(provider, ModuleNotFoundError(name=self.sdk))
        self._provider = provider
        self._settings = settings
        self._make = make
        self._failure = failure
        self._secret = secret
        self._module: Any = None
        self._clients = LoopClients(self._closed)

    @abstractmethod
    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        """Map an error of the client to a RetryLater (`_of_status`, `_unreachable`), RefusedError or PerdureError."""

    @abstractmethod
    async def _closed(self, client: C) -> None:
        """Close the client's connections."""

    async def ask(self, request: Callable[[C], Awaitable[T]], *, asks_otherwise: bool = False) -> T:
        """Return the request's result, after retries; errors of the port, or DependencyError without the client.

        With `asks_otherwise`, a request that the service rejects is a RefusedError.
        """
        sdk = await self._sdk()
        client = await self._client(sdk)
        return await self._retried(sdk, lambda: request(client), asks_otherwise)

    async def stream(
        self, request: Callable[[C], Awaitable[AsyncIterator[T]]], *, asks_otherwise: bool = False
    ) -> AsyncGenerator[T, None]:
        """Yield the pieces of an answer as they arrive; retries happen only before the first piece.

        The time limit holds for each piece. An answer that breaks off is LLMError.
        """
        sdk = await self._sdk()
        client = await self._client(sdk)
        pieces = await self._retried(sdk, lambda: request(client), asks_otherwise)
        try:
            while True:
                try:
                    piece = await self._once(sdk, lambda: anext(pieces, _END), "the answer cannot be read")
                except RetryLater as broken_off:
                    problem = broken_off.error
                except RefusedError as refused:
                    problem = refused.error
                else:
                    if piece is _END:
                        return
                    yield piece  # type: ignore[misc]  # a sentinel ends the loop above
                    continue
                raise problem
        finally:
            close = getattr(pieces, "aclose", None) or getattr(pieces, "close", None)
            if close is not None:
                await close()

    async def close(self) -> None:
        """Close the clients of all running event loops."""
        await self._clients.close()

    def broken(self, what: str, code: str | None = None) -> ServiceError:
        """Return the error for an unusable answer, without anything that looks like a key."""
        return self._failure(f"{self._provider}: {self._clean(what)}", code=code)

    def _of_status(
        self, status: int, said: str, *, code: str | None, after: float | None = None, parameter: str = ""
    ) -> Exception:
        """Map an error status; `code` is from `code_of` or from the vendor's own words."""
        what = f"status {status}"
        if code == "authentication":
            what = f"the key was refused ({what})"
            said = said if status == 403 else ""  # services repeat a part of a wrong key in their text
        problem = self.broken(f"{what}: {said}" if said else what, code)
        if code in TRANSIENT:
            return RetryLater(problem, after)
        return RefusedError(problem, parameter, said) if code is None and status in (400, 413, 422) else problem

    def _unreachable(self, host: str, error: Exception) -> RetryLater:
        cause = type(error.__cause__ or error).__name__
        return RetryLater(self.broken(f"no connection to {host} ({cause})", "connection"))

    def _timed_out(self) -> ServiceError:
        return self.broken(f"no answer within {self._settings.timeout:g} s", "timeout")

    def _clean(self, text: str) -> str:
        if self._secret != NO_KEY:
            text = text.replace(self._secret, "***")
        return _KEY_LIKE.sub("***", text)[:_LONGEST_MESSAGE]

    async def _retried(self, sdk: Any, request: Callable[[], Awaitable[T]], asks_otherwise: bool) -> T:
        settings = self._settings
        try:
            return await with_retry(
                lambda: self._once(sdk, request), retries=settings.retries, base_delay=settings.retry_delay
            )
        except RefusedError as refused:
            if asks_otherwise:
                raise
            problem = refused.error
        raise problem

    async def _once(
        self, sdk: Any, request: Callable[[], Awaitable[T]], otherwise: str = "the request could not be made"
    ) -> T:
        try:
            async with asyncio.timeout(self._settings.timeout):
                return await request()
        except TimeoutError:
            problem: Exception = self._timed_out()
        except (LLMError, EmbeddingError, RerankerError, RetryLater, RefusedError):
            raise
        except Exception as error:
            meant = self._translated(sdk, error)
            if meant is None:
                if not isinstance(error, (OSError, UnicodeError, ValueError)):
                    raise
                meant = self.broken(f"{otherwise} ({type(error).__name__})")  # not the client's: Python's own
            problem = meant
        raise problem  # outside of the handler, so that the vendor's exception and its headers are not chained to it

    async def _sdk(self) -> Any:
        """Import the vendor's package in a thread on first use, because it takes a second."""
        if self._module is None:
            try:
                self._module = await run_blocking(importlib.import_module, self.sdk)
            except ImportError as error:
                raise missing_driver(self._provider, error) from error
        return self._module

    async def _client(self, sdk: Any) -> C:
        # Making one reads certificates, which takes a tenth of a second.
        return await self._clients.of_this_loop(lambda: run_blocking(self._make, sdk))


_END = object()


class HttpService(Service["httpx2.AsyncClient"]):
    """A service called by plain HTTP; a subclass maps its own status errors, then calls `super()`."""

    sdk: ClassVar[str] = "httpx2"

    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        if isinstance(error, sdk.TimeoutException):
            return self._timed_out()
        if isinstance(error, sdk.ConnectError):
            return self._unreachable(host_of(str(error.request.url)), error)
        if isinstance(error, sdk.TransportError):
            return RetryLater(self.broken(f"the connection broke ({type(error).__name__})", "connection"))
        return self.broken("the answer cannot be read") if isinstance(error, sdk.RequestError) else None

    async def _closed(self, client: httpx2.AsyncClient) -> None:
        await client.aclose()
