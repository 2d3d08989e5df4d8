"""The model's server over HTTP; answers are passed on unchanged and as they arrive.

Two clients do it alike: aiohttp where it is installed (the extra `fast`), else httpcore2, which MCP's SDK brings too.
Neither has cookies, redirects or a proxy from the environment, and each repeats only a request that HTTP allows to be
repeated, on a connection that was closed meanwhile.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from urllib.parse import unquote

from perdure.backends.blocking import is_cancelled
from perdure.backends.registry import missing_driver
from perdure.domain.errors import InvalidInputError, UpstreamError

Headers = list[tuple[str, str]]  # names and values as they come and go, in order; a name may stand there twice
Body = bytes | AsyncIterator[bytes] | None
LARGE = 256 * 1024  # bytes of a body above which it is sent in pieces, so that other requests are not held up by it
KEPT_SECONDS = 15.0
"""For which an idle connection is kept: most servers keep theirs for longer, and one they close is noticed."""


class UpstreamAnswer(ABC):
    """One answer: its head, and a body to be read; `close` breaks it off."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.headers: Headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]

    def header(self, name: str) -> str | None:
        """Return the first header of a name, or None."""
        return next((value for told, value in self.headers if told.lower() == name.lower()), None)

    @abstractmethod
    async def read(self) -> bytes:
        """Return the whole body; UpstreamError if it breaks off."""

    @abstractmethod
    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; UpstreamError if it breaks off."""

    @abstractmethod
    def close(self) -> None:
        """Release it; a connection with unread body is closed at once."""


class UpstreamClient(ABC):
    """What opens connections and sends requests; it is made before there is an event loop."""

    @abstractmethod
    def __init__(self, connect_seconds: float, silent_seconds: float) -> None: ...

    @abstractmethod
    async def send(self, method: str, address: str, headers: Headers, body: Body) -> UpstreamAnswer:
        """Send a request with these headers and its server's Host; UpstreamError if no head of an answer comes."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections; a later request opens new ones."""


def client_class() -> type[UpstreamClient]:
    """Return the faster of the clients that are installed; DependencyError if none is."""
    # By their names, as drivers are: both stand on this module.
    for module, name in (("upstream_aiohttp", "AiohttpClient"), ("upstream_httpcore", "HttpcoreClient")):
        try:
            found: type[UpstreamClient] = getattr(import_module(f"perdure.backends.http.{module}"), name)
        except ImportError as error:
            missing = error
        else:
            return found
    raise missing_driver("server", missing) from missing


class HttpUpstream:
    """An OpenAI-compatible server; connections are pooled, and opened with the first request."""

    def __init__(
        self, base_url: str, *, api_key: str | None, connect_seconds: float = 10.0, silent_seconds: float = 600.0
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._client = client_class()(connect_seconds, silent_seconds)

    @property
    def authorization(self) -> str | None:
        """Return the Authorization value for the configured key, or None."""
        return f"Bearer {self._api_key}" if self._api_key else None

    def address(self, path: str, query: str = "") -> str:
        """Return the URL of a path, still encoded, below the base, with `v1` named once.

        InvalidInputError for a path with `.` or `..`, which could leave the base, and for one without a leading slash,
        which could lead to another server (`@elsewhere`).
        """
        if not path.startswith("/"):
            raise InvalidInputError("the path must begin with a slash", field="path", value=None)
        if any(unquote(part) in (".", "..") for part in path.split("/")):
            raise InvalidInputError("the path must not hold . or .. as a part", field="path", value=None)
        if self.base_url.endswith("/v1") and (path == "/v1" or path.startswith("/v1/")):
            path = path.removeprefix("/v1")
        return f"{self.base_url}{path}{'?' if query else ''}{query}"

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        headers: Headers | Mapping[str, str],
        body: bytes | AsyncIterator[bytes] | None = None,
    ) -> UpstreamAnswer:
        """Send a request, and return when the head of the answer is there, whatever its status.

        `headers` are sent unchanged, with the server's own Host. UpstreamError if it is unreachable or silent for too
        long. Cancellation closes the connection.
        """
        pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
        return await self._client.send(method, self.address(path, query), pairs, body)

    async def close(self) -> None:
        """Close all connections; a later request opens new ones."""
        await self._client.close()


@contextmanager
def failures(*kinds: type[Exception]) -> Iterator[None]:
    """Map a client's errors to UpstreamError; their messages may hold addresses and go only to the log."""
    known: tuple[type[Exception], ...] = (*kinds, TimeoutError, OSError, ValueError)
    try:
        yield
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise UpstreamError("the model's server was not asked to the end: the connection was given up") from error
    except known as error:
        raise UpstreamError(f"the model's server cannot be reached, or broke off: {type(error).__name__}") from error
