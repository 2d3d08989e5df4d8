"""The way to Chroma: a server behind an address, or the engine in this process on a folder; what its failures mean."""

from __future__ import annotations

from importlib.util import find_spec
from json import JSONDecodeError

import httpx
from chromadb.api import ServerAPI
from chromadb.api.fastapi import FastAPI
from chromadb.config import Settings, System
from chromadb.errors import (
    AuthorizationError,
    ChromaAuthError,
    ChromaError,
    InternalError,
    NotFoundError,
    QuotaError,
    RateLimitError,
)

from perdure.backends.vector_stores._document_engine import Failure
from perdure.domain.errors import DependencyError

_LONGEST_MESSAGE = 300


def open_server(host: str, port: int, *, ssl: bool, headers: dict[str, str], timeout: float) -> System:
    """A client of a server; asks it nothing yet."""
    system = System(
        Settings(
            _env_file=None,  # else Chroma reads the .env of the working folder, and refuses what it does not know there
            anonymized_telemetry=False,
            chroma_api_impl="chromadb.api.fastapi.FastAPI",
            chroma_server_host=host,
            chroma_server_http_port=port,
            chroma_server_ssl_enabled=ssl,
            chroma_server_headers=headers,
        )
    )
    api = system.instance(ServerAPI)  # type: ignore[type-abstract]  # Chroma finds its implementation by it
    assert isinstance(api, FastAPI)
    # Chroma's client waits for ever and tells no status; it has no setting for either.
    api._session.timeout = httpx.Timeout(timeout)
    api._session.event_hooks = {"response": [_tell_status]}
    system.start()
    return system


def open_folder(folder: str) -> System:
    """The engine on a folder, in this process."""
    if find_spec("chromadb.is_thin_client") is not None:  # a module of chromadb-client alone
        raise DependencyError(
            "a chroma store with a path needs the whole package chromadb, and only chromadb-client is installed: "
            'pip install "perdure[chroma]"'
        )
    system = System(
        Settings(
            _env_file=None,
            anonymized_telemetry=False,
            chroma_api_impl="chromadb.api.rust.RustBindingsAPI",
            is_persistent=True,
            persist_directory=folder,
        )
    )
    system.instance(ServerAPI)  # type: ignore[type-abstract]  # as above
    system.start()
    return system


def close(system: System) -> None:
    """Let go of the client's connections, or of the engine."""
    api = system.instance(ServerAPI)  # type: ignore[type-abstract]  # Chroma finds its implementation by it
    if isinstance(api, FastAPI):
        api._session.close()  # stopping it leaves its connections open
    system.stop()


def _tell_status(response: httpx.Response) -> None:
    if response.status_code in (401, 403, 408, 413, 429) or response.status_code >= 500:
        response.read()
        raise httpx.HTTPStatusError("", request=response.request, response=response)


def failure(error: Exception, place: str, timeout: float) -> Failure | None:
    """What an exception of Chroma or its client means; None for one that is not theirs."""
    if isinstance(error, httpx.HTTPStatusError):
        return _of_status(error.response, place)
    if isinstance(error, httpx.TimeoutException):
        return Failure(f"no answer from {place} within {timeout:g} s: try again, or raise timeout", passing=True)
    if isinstance(error, httpx.TransportError):
        return Failure(
            f"cannot reach {place} ({error or type(error).__name__}): start it (`chroma run`), or set host and port "
            "(CHROMA_HOST, CHROMA_PORT), or path to need no server",
            passing=True,
        )
    if isinstance(error, httpx.HTTPError | httpx.InvalidURL):
        return Failure(f"{place} cannot be asked: {_short(str(error))}")
    if isinstance(error, JSONDecodeError):
        return Failure(f"what answers at {place} is no Chroma server with API v2: check host, port and ssl")
    if isinstance(error, ChromaError):
        return _of_chroma(error, place)
    if type(error) is Exception:  # Chroma's client raises it for an answer that it does not know
        return Failure(f"{place} answered: {_short(str(error))}")
    return None


def _of_status(response: httpx.Response, place: str) -> Failure:
    status, said = response.status_code, _short(response.text)
    if status in (401, 403):
        return Failure(f"{place} refused the key (status {status}): check api_key and token_header, or CHROMA_API_KEY")
    if status == 413:
        return Failure(f"a row is larger than {place} takes: raise max_payload_size_bytes of the server")
    return Failure(f"{place} answered with status {status}: {said}", passing=True)


def _of_chroma(error: ChromaError, place: str) -> Failure:
    said = _short(str(error))
    if isinstance(error, ChromaAuthError | AuthorizationError):
        return Failure(f"{place} refused the key: check api_key and token_header, or CHROMA_API_KEY")
    if isinstance(error, RateLimitError | QuotaError):
        return Failure(f"{place} has had enough for now: {said}", passing=isinstance(error, RateLimitError))
    if isinstance(error, NotFoundError):
        return Failure(f"{place} misses something: {said}")
    return Failure(f"{place} failed: {said}", passing=isinstance(error, InternalError) and "locked" in said)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"
