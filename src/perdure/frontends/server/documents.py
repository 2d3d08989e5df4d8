"""The OpenAPI document: what every route may answer beside its own, and how callers say who they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from perdure.frontends.faults import Dialect, dialect_of
from perdure.frontends.server.door import HEALTH_ROUTES

DESCRIPTION = """\
Long-term memory for agents and teams: facts that are kept, corrected and recalled, and what was believed when.

Send a key as `Authorization: Bearer`, `Authorization: Token` or `X-API-Key`. A request about a team's memory names the
team in `X-Team-Scope` and needs a token, or a key of that team. A trailing slash makes no difference."""

SCHEMES: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or the JWT of a team's member"},
    "token": {"type": "apiKey", "in": "header", "name": "Authorization", "description": "Token, a blank, an API key"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key"},
}
REFUSALS = {
    "400": "A value is wrong",
    "401": "No credentials, or ones that are not known here",
    "403": "These credentials may not do that",
    "404": "There is no such thing, or it is not this caller's",
    "405": "Only a promotion moves a truth level",
    "409": "The change would contradict a later one",
    "413": "The body is too large",
    "422": "The request is not as its schema says",
    "429": "Too many requests: Retry-After says when to come back",
    "500": "The server failed",
    "502": "A model that the server needs cannot be used now",
    "503": "The store, the ledger or the graph cannot be used now",
}
_TEXT = {"type": "string"}
SHAPES: dict[Dialect, dict[str, Any]] = {
    "facts": {
        "type": "object",
        "required": ["detail", "code"],
        "properties": {"detail": _TEXT, "error": _TEXT, "code": _TEXT, "field": _TEXT},
        "example": {"detail": "there is no memory with this id", "error": "...", "code": "not_found"},
    },
    "explicit": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message", "timestamp"],
                "properties": {"code": _TEXT, "message": _TEXT, "timestamp": _TEXT},
            }
        },
    },
    "team": {
        "type": "object",
        "required": ["detail"],
        "properties": {"detail": _TEXT},
        "example": {"detail": "Missing required field: item.truth_level"},
    },
    "openai": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type"],
                "properties": {
                    "message": _TEXT,
                    "type": _TEXT,
                    "param": {"type": ["string", "null"]},
                    "code": {"type": ["string", "null"]},
                },
            },
            "detail": _TEXT,
        },
    },
}
_NAMES: dict[Dialect, str] = {
    "facts": "Fault",
    "explicit": "ExplicitFault",
    "team": "TeamFault",
    "openai": "OpenAIFault",
}
_METHODS = ("get", "put", "post", "patch", "delete", "head", "options")


def describe(app: FastAPI) -> None:
    """Let the app's document say what the routes themselves do not."""
    made: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if not made:
            made.update(_document(app))
        return made

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
    parts = found.setdefault("components", {})
    parts["securitySchemes"] = SCHEMES
    parts.setdefault("schemas", {}).update({_NAMES[dialect]: shape for dialect, shape in SHAPES.items()})
    _each_operation(found, _complete)
    return found


def _each_operation(found: dict[str, Any], work: Callable[[str, str, dict[str, Any]], None]) -> None:
    for path, item in found.get("paths", {}).items():
        for method in _METHODS:
            if method in item:
                work(path, method, item[method])


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    if path in HEALTH_ROUTES:
        return
    operation["security"] = [{}, *({name: []} for name in SCHEMES)]
    shapes = sorted({dialect_of(path, method.upper(), for_team=for_team) for for_team in (False, True)})
    schemas = [{"$ref": f"#/components/schemas/{_NAMES[shape]}"} for shape in shapes]
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    for status, description in REFUSALS.items():
        known = operation["responses"].get(status)
        if known is None or status == "422":  # FastAPI's own 422 is not what is sent
            operation["responses"][status] = {
                "description": description,
                "content": {"application/json": {"schema": schema}},
            }
