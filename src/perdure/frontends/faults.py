"""The one table from an error's class to an HTTP status, and the shape in which each dialect tells it (U19).

    error                                        facts   explicit   team
    ScopeError                                    400       401      400
    other InvalidInputError                       400       400      422
    a request that its schema refuses             422       400      422
    AuthenticationError                           401       401      401    with WWW-Authenticate
    ForbiddenError                                403       403      403
    NotFoundError, a route that there is not      404       404      404
    PromotionRequiredError, a wrong method        405       405      405
    ConflictError                                 409       409      409
    TooLargeError                                 413       413      413
    BusyError                                     429       429      429    with Retry-After
    NoGraphError, UnsupportedError                501       501      501
    LLMError, EmbeddingError, RerankerError       502       502      502
    UpstreamError                                 502       502      502
    NoUpstreamError                               503       503      503
    store, ledger or graph that is down, closed   503       503      503
    anything else                                 500       500      500

`facts` is 000's and mem0's, `explicit` 001's, `team` 004's; `openai` has the statuses of `explicit`, but 400 without a
scope, and OpenAI's shape beside FastAPI's `detail`. What a 5xx says names the part that failed and nothing of
its inside: addresses and vendors' words go to the log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from perdure.domain.clock import iso
from perdure.domain.errors import (
    AuthenticationError,
    ClosedError,
    ConfigError,
    ConflictError,
    EmbeddingError,
    FilterError,
    ForbiddenError,
    GraphError,
    InvalidInputError,
    LedgerError,
    LLMError,
    NoGraphError,
    NotFoundError,
    PerdureError,
    PromotionRequiredError,
    RerankerError,
    ScopeError,
    UpstreamError,
    VectorStoreError,
)

Dialect = Literal["facts", "explicit", "team", "openai"]
"""Whose error shape a route answers in."""

INVALID: Mapping[Dialect, int] = {"facts": 400, "explicit": 400, "team": 422, "openai": 400}
"""The status of a value that is wrong."""
UNREADABLE: Mapping[Dialect, int] = {"facts": 422, "explicit": 400, "team": 422, "openai": 400}
"""The status of a request that its schema refuses."""

_TEAM_ROUTES = ("/v1/promotions", "/v1/audit", "/v1/system-prompt", "/v1/healthz")
_TEAM_NAMES = ("/v1/memory/upsert", "/v1/memory/search")
_MODEL_ROUTES = ("/v1/chat/completions", "/v1/responses", "/chat/completions", "/responses")
_DOWN = "cannot be used now; try again later"


class TooLargeError(PerdureError):
    """The body of a request is larger than the server takes."""

    code = "too_large"


class BusyError(PerdureError):
    """One key or address asks more often than the server allows; `retry_after` is in seconds."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NoUpstreamError(PerdureError):
    """A model was asked for, and no setting says where its server is."""

    code = "no_upstream"


class UnsupportedError(PerdureError):
    """A route of another product's that this server knows of and does not serve."""

    code = "not_implemented"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a caller is told: a status, a word for programs, a sentence for people."""

    status: int
    code: str
    message: str
    field: str | None = None
    headers: dict[str, str] = dataclasses.field(default_factory=dict)

    def body(self, dialect: Dialect, now: datetime) -> dict[str, Any]:
        """The JSON of a dialect."""
        if dialect == "explicit":
            return {"error": {"code": _explicit_code(self), "message": self.message, "timestamp": iso(now)}}
        if dialect == "team":
            return {"detail": self.message}
        if dialect == "openai":
            told = {"message": self.message, "type": _openai_type(self.status), "param": self.field, "code": self.code}
            return {"error": told, "detail": self.message}
        named = {"field": self.field} if self.field else {}
        return {"detail": self.message, "error": self.message, "code": self.code, **named}


def dialect_of(path: str, method: str, *, for_team: bool) -> Dialect:
    """The dialect of a request: by its path without a trailing slash, its method, and whether it names a team."""
    if any(path == route or path.startswith(f"{route}/") for route in _MODEL_ROUTES):
        return "openai"
    if path.startswith(_TEAM_ROUTES) or path in _TEAM_NAMES:
        return "team"
    if path == "/v1/memory" or path.startswith("/v1/memory/"):
        return "team" if for_team or method == "PATCH" else "explicit"
    return "team" if for_team and path.startswith("/v1/graph") else "facts"


def fault_of(error: Exception, dialect: Dialect) -> Fault:
    """What is told of an error; of one that is not perdure's own nothing but that there was one."""
    if not isinstance(error, PerdureError):
        return Fault(status=500, code="internal_error", message="the server failed at this request; its log says how")
    for kind, status, told in _SERVER_SIDE:
        if isinstance(error, kind):
            # The part's own word: `rate_limit` or `authentication` of a model's service would seem to be the caller's.
            return Fault(status=status, code=type(error).code, message=told)
    if isinstance(error, InvalidInputError):
        missing_user = isinstance(error, ScopeError) and dialect == "explicit"
        scope = isinstance(error, ScopeError)
        status = 401 if missing_user else 400 if scope else INVALID[dialect]
        return Fault(status=status, code=error.code, message=error.message, field=error.field)
    if isinstance(error, BusyError):
        told_when = {"Retry-After": str(error.retry_after)}
        return Fault(status=429, code=error.code, message=error.message, headers=told_when)
    for kind, status in _CLIENT_SIDE:
        if isinstance(error, kind):
            asked = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
            return Fault(status=status, code=error.code, message=error.message, headers=asked)
    return Fault(status=500, code=error.code, message="the server failed at this request; its log says how")


def _openai_type(status: int) -> str:
    """OpenAI's word for the kind of an error."""
    if status >= 500:
        return "server_error"
    return {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}.get(
        status, "invalid_request_error"
    )


def _explicit_code(fault: Fault) -> str:
    """001's word, in capitals: MISSING_USER_ID, INVALID_LIMIT, NOT_FOUND, MEMORY_NOT_AVAILABLE (B20)."""
    if fault.code == ScopeError.code:
        return "MISSING_USER_ID"
    if fault.code in (InvalidInputError.code, FilterError.code):
        return f"INVALID_{fault.field}".upper() if fault.field else "INVALID_INPUT"
    if fault.status == 503:
        return "MEMORY_NOT_AVAILABLE"
    return fault.code.upper()


_SERVER_SIDE: tuple[tuple[type[PerdureError], int, str], ...] = (
    (VectorStoreError, 503, f"the vector store {_DOWN}"),
    (LedgerError, 503, f"the ledger {_DOWN}"),
    (NoGraphError, 501, "this server has no graph: its settings name none (graph_store)"),
    (GraphError, 503, f"the graph {_DOWN}"),
    (ClosedError, 503, "the server is shutting down; try again later"),
    (LLMError, 502, f"the language model {_DOWN}"),
    (EmbeddingError, 502, f"the embedder {_DOWN}"),
    (RerankerError, 502, f"the reranker {_DOWN}"),
    (UpstreamError, 502, f"the model's server {_DOWN}"),
    (ConfigError, 500, "the server's settings do not allow this; its log says what is wrong"),
)
_CLIENT_SIDE: tuple[tuple[type[PerdureError], int], ...] = (
    (AuthenticationError, 401),
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (PromotionRequiredError, 405),
    (ConflictError, 409),
    (TooLargeError, 413),
    (UnsupportedError, 501),
    (NoUpstreamError, 503),
)
