"""Error responses, in the JSON shape of the route's dialect."""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.domain.clock import system_clock
from perdure.domain.errors import PerdureError
from perdure.frontends.faults import UNREADABLE, Dialect, Fault, dialect_of, fault_of
from perdure.frontends.server.auth.api_keys import TEAM_HEADER

logger = logging.getLogger("perdure.server")
_HTTP_CODES = {
    400: "invalid_input",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "too_large",
}
_HTTP_MESSAGES = {404: "there is no such route", 405: "this route does not take this method"}
_MOST_PROBLEMS = 5  # validation problems of one request that the message names


def dialect(scope: Scope) -> Dialect:
    """Return the dialect of a request; for a forwarded one, that of the model's server."""
    told: Dialect | None = scope.get("state", {}).get("dialect")
    if told is not None:
        return told
    return dialect_of(scope["path"], scope["method"], for_team=TEAM_HEADER in Headers(scope=scope))


def error_response(error: Exception, scope: Scope) -> Response:
    """Build the response for an error; errors of the server itself are logged."""
    shape = dialect(scope)
    fault = _fault(error, shape)
    scope.setdefault("state", {})["fault"] = fault.code
    if fault.status >= 500:
        _log(error)
    body = json.dumps(fault.body(shape, system_clock()))
    return Response(body, fault.status, headers=fault.headers, media_type="application/json")


async def send_error(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with an error."""
    await error_response(error, scope)(scope, receive, send)


async def handle_error(request: Request, error: Exception) -> Response:
    """Handle an error that a route raised."""
    return error_response(error, request.scope)


def _fault(error: Exception, shape: Dialect) -> Fault:
    if isinstance(error, RequestValidationError):
        problems = error.errors()
        told = "; ".join(_all_told(problems[:_MOST_PROBLEMS]))
        field = _field(problems[0]) if problems else ""
        return Fault(status=UNREADABLE[shape], code="invalid_input", message=told, field=field or None)
    if isinstance(error, HTTPException):
        code = _HTTP_CODES.get(error.status_code, "http_error")
        message = _HTTP_MESSAGES.get(error.status_code, str(error.detail))
        return Fault(status=error.status_code, code=code, message=message, headers=dict(error.headers or {}))
    return fault_of(error, shape)


_KINDS = {
    "string_type": "text",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
"""What a value must be, by the type of pydantic's problem with it."""
_CHOICE = re.compile(r"(?:str|int|float|bool|bytes|date|datetime|dict|list|tuple|set)(?:\[.*\])?", re.DOTALL)
"""How pydantic names one of the types that a field may have."""


def _all_told(problems: Sequence[Any]) -> list[str]:
    """Describe problems; those with the types that one field may have as one."""
    told: dict[str, list[str]] = {}
    for problem in problems:
        place, kind = _place(problem["loc"]) or "the body", _KINDS.get(problem["type"])
        if kind is None:
            told.setdefault(_told(problem), [])
        else:
            kinds = told.setdefault(place, [])
            kinds += [kind] if kind not in kinds else []
    return [f"{place} must be {' or '.join(kinds)}" if kinds else place for place, kinds in told.items()]


def _told(problem: dict[str, Any]) -> str:
    """Describe one validation problem without its value, which may be personal."""
    place = _place(problem["loc"])
    if problem["type"] == "missing":
        return f"Missing required field: {place}" if place else "Missing required body"
    if problem["type"] == "extra_forbidden":
        return f"{place} is not known here"
    if problem["type"] == "json_invalid":
        at, why = problem["loc"][-1], problem.get("ctx", {}).get("error", "")
        told = f": {why}, at character {at + 1}" if isinstance(at, int) and why else ""
        return f"the body is not valid JSON{told}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def _field(problem: dict[str, Any]) -> str:
    """Return the name of what is wrong: the body itself, where it is no JSON and has no fields."""
    return "body" if problem["type"] == "json_invalid" else _place(problem["loc"])


def _place(location: tuple[str | int, ...]) -> str:
    """Name a field; the part that names one of its possible types is no field."""
    parts = [str(part) for number, part in enumerate(location) if number < 2 or not _CHOICE.fullmatch(str(part))]
    return ".".join(parts[1:])


def _log(error: Exception) -> None:
    """Log a server error: the message of perdure's own errors; of others only class and place, never the text."""
    if isinstance(error, PerdureError):
        logger.error("%s: %s", type(error).__name__, error.message)
        return
    frames = traceback.extract_tb(error.__traceback__)
    trail = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames[-8:]))
    logger.error("%s at %s", type(error).__name__, trail)
