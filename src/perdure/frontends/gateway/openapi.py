"""OpenAPI descriptions of the gateway's routes: OpenAI's fields pass through, the memory fields are described."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from pydantic import BaseModel

_ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}
_TEXTS: dict[str, Any] = json.loads(files(__package__).joinpath("openapi.json").read_bytes())
_MEMORY_FIELDS = _TEXTS["memory_fields"]  # those of every request to a model; only `user` is forwarded


class ChatCompletion(BaseModel):
    """The model's answer, with the recalled memories."""

    id: str | None = None
    object: str | None = None
    model: str | None = None
    choices: list[dict[str, Any]] = []
    usage: dict[str, Any] | None = None
    memory_hits: list[dict[str, Any]] = []


class ModelResponse(BaseModel):
    """The model's answer, or the stored one."""

    id: str | None = None
    object: str | None = None
    status: str | None = None
    output: list[dict[str, Any]] = []


class ResponseDeleted(BaseModel):
    """Confirms that a response is deleted."""

    id: str
    object: str
    deleted: bool


class InputItems(BaseModel):
    """The input of a response."""

    object: str
    data: list[dict[str, Any]]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False


def _answer_schema(model: type[BaseModel]) -> dict[str, Any]:
    return {**model.model_json_schema(), "additionalProperties": True}


def passed_on(name: str, required: list[str], model: type[BaseModel]) -> dict[str, Any]:
    """Build the `openapi_extra` of a route that forwards a JSON object; `name` has its fields and examples."""
    texts = _TEXTS[name]
    schema = {**_ANY, "required": required, "properties": {**texts["properties"], **_MEMORY_FIELDS}}
    events = {"text/event-stream": {"schema": {"description": "Events, each with JSON as its data"}}}
    answers = {"application/json": {"schema": _answer_schema(model), "example": texts["answered"]}, **events}
    errors = {"application/json": {"schema": _ANY}, **events}
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": texts["asked"]}},
        },
        "responses": {
            "200": {
                "description": "The model's answer, as it came, but for what is said here",
                "headers": _TEXTS["headers"],
                "content": answers,
            },
            "default": {"description": "The model's server's own error, as it came", "content": errors},
        },
    }


CHAT = passed_on("chat", ["messages"], ChatCompletion)
RESPONSE = passed_on("response", [], ModelResponse)
_RESPONSE: dict[str, Any] = _TEXTS["response"]["answered"]


def _answered(description: str, example: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Build the `openapi_extra` of a route that answers with an object of OpenAI's."""
    content = {"application/json": {"schema": _answer_schema(model), "example": example}}
    return {
        "responses": {
            "200": {"description": description, "content": content},
            "default": {"description": "The model's server's own error, as it came"},
        }
    }


GIVEN = _answered("The response, as it was given", _RESPONSE, ModelResponse)
LET_GO = _answered("It is gone", {"id": _RESPONSE["id"], "object": "response", "deleted": True}, ResponseDeleted)
ITEMS = _answered("The items of the request", _TEXTS["items"], InputItems)
