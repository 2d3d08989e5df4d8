"""HTTP statuses of errors, and the JSON shape of an error in each dialect.

    error                                        facts   explicit   team
    ScopeError                                    400       401      400
    other InvalidInputError                       400       400      422
    a request that its schema refuses             422       400      422
    AuthenticationError                           401       401      401    with WWW-Authenticate
    ForbiddenError, ReadOnlyError                 403       403      403
    NotFoundError, a route that there is not      404       404      404
    PromotionRequiredError, a wrong method        405       405      405
    ConflictError                                 409       409      409
    TooLargeError                                 413       413      413
    MediaTypeError                                415       415      415
    MisdirectedError                              421       421      421
    BusyError                                     429       429      429    with Retry-After
    NoGraphError, UnsupportedError                501       501      501
    LLMError, EmbeddingError, RerankerError       502       502      502
    UpstreamError                                 502       502      502
    NoUpstreamError                               503       503      503
    store, ledger or graph that is down, closed   503       503      503
    anything else                                 500       500      500

`facts` is the dialect of /v1/memories and of mem0, `explicit` of /v1/memory, `team` of team memory; `openai` has the
statuses of `explicit`, but 400 without a scope, and OpenAI's shape beside FastAPI's `detail`. The message of a 5xx
names the part that failed; addresses and vendors' messages go to the log only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from perdure.domain import errors
from perdure.domain.clock import iso
from perdure.domain.errors import KEPT, FilterError, InvalidInputError, PerdureError, ScopeError

Dialect = Literal["facts", "explicit", "team", "openai"]  # the error shape of a route
INVALID: Mapping[Dialect, int] = {"facts": 400, "explicit": 400, "team": 422, "openai": 400}
"""The status of a wrong value."""
UNREADABLE: Mapping[Dialect, int] = {"facts": 422, "explicit": 400, "team": 422, "openai": 400}
"""The status of a request that fails schema validation."""

_TEAM_ROUTES = ("/v1/promotions", "/v1/audit", "/v1/system-prompt", "/v1/healthz")
_TEAM_NAMES = ("/v1/memory/upsert", "/v1/memory/search")
_MODEL_ROUTES = ("/v1/chat/completions", "/v1/responses", "/chat/completions", "/responses")
_DOWN = "cannot be used now; try again later"
_KEPT = "the vector store cannot be used now: the change is kept, and is made when it can be; do not make it again"


class TooLargeError(PerdureError):
    """The body of a request is larger than the server takes."""

    code = "too_large"


class MediaTypeError(PerdureError):
    """The Content-Type of a request is not one that the server reads."""

    code = "unsupported_media_type"


class MisdirectedError(PerdureError):
    """The Host of a request is not a name of this server."""

    code = "misdirected"


class BusyError(PerdureError):
    """A key or address exceeded its rate limit; `retry_after` is in seconds."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NoUpstreamError(PerdureError):
    """A model was requested, and no upstream server is configured."""

    code = "no_upstream"


class UnsupportedError(PerdureError):
    """A known route of another product that this server does not implement."""

    code = "not_implemented"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error as a caller sees it: HTTP status, code for programs, message for people."""

    status: int
    code: str
    message: str
    field: str | None = None
    headers: dict[str, str] = dataclasses.field(default_factory=dict)

    def body(self, dialect: Dialect, now: datetime) -> dict[str, Any]:
        """Return the error as JSON in a dialect."""
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
    """Return the dialect of a request by its path (no trailing slash), its method, and whether it names a team."""
    if any(path == route or path.startswith(f"{route}/") for route in _MODEL_ROUTES):
        return "openai"
    if path.startswith(_TEAM_ROUTES) or path in _TEAM_NAMES:
        return "team"
    if path == "/v1/memory" or path.startswith("/v1/memory/"):
        return "team" if for_team or method == "PATCH" else "explicit"
    return "team" if for_team and path.startswith("/v1/graph") else "facts"


def fault_of(error: Exception, dialect: Dialect) -> Fault:
    """Build the fault of an error; one that is not perdure's own reveals no detail."""
    if not isinstance(error, PerdureError):
        return Fault(status=500, code="internal_error", message="the server failed at this request; its log says how")
    if error.code == KEPT:
        return Fault(status=503, code=KEPT, message=_KEPT)
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
    if status >= 500:
        return "server_error"
    return {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}.get(
        status, "invalid_request_error"
    )


def _explicit_code(fault: Fault) -> str:
    if fault.code == ScopeError.code:
        return "MISSING_USER_ID"
    if fault.code in (InvalidInputError.code, FilterError.code):
        return f"INVALID_{fault.field}".upper() if fault.field else "INVALID_INPUT"
    if fault.status == 503:
        return "MEMORY_NOT_AVAILABLE"
    return fault.code.upper()


_SERVER_SIDE: tuple[tuple[type[PerdureError], int, str], ...] = (
    (errors.VectorStoreError, 503, f"the vector store {_DOWN}"),
    (errors.LedgerError, 503, f"the ledger {_DOWN}"),
    (errors.NoGraphError, 501, "this server has no graph: its settings name none (graph_store)"),
    (errors.GraphError, 503, f"the graph {_DOWN}"),
    (errors.ClosedError, 503, "the server is shutting down; try again later"),
    (errors.LLMError, 502, f"the language model {_DOWN}"),
    (errors.EmbeddingError, 502, f"the embedder {_DOWN}"),
    (errors.RerankerError, 502, f"the reranker {_DOWN}"),
    (errors.UpstreamError, 502, f"the model's server {_DOWN}"),
    (errors.ConfigError, 500, "the server's settings do not allow this; its log says what is wrong"),
)
_CLIENT_SIDE: tuple[tuple[type[PerdureError], int], ...] = (
    (errors.AuthenticationError, 401),
    (errors.ForbiddenError, 403),
    (errors.ReadOnlyError, 403),
    (errors.NotFoundError, 404),
    (errors.PromotionRequiredError, 405),
    (errors.ConflictError, 409),
    (TooLargeError, 413),
    (MediaTypeError, 415),
    (MisdirectedError, 421),
    (UnsupportedError, 501),
    (NoUpstreamError, 503),
)
