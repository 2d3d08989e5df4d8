"""OpenAPI descriptions of the gateway's routes: OpenAI's fields pass through, the memory fields are described."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

_ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}
_SHARE: dict[str, Any] = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_MEMORY_FIELDS: dict[str, Any] = {
    "user": {
        "type": ["string", "null"],
        "maxLength": 1024,
        "description": "Whose memory it is, where neither credentials nor x-authz-user-id say it",
    },
    "memory_id": {"type": ["string", "null"], "maxLength": 1024, "description": "Which conversation this is"},
    "memory_top_k": {"type": ["integer", "null"], "maximum": 100, "description": "Memories at most; 0 recalls none"},
    "memory_recency_weight": {**_SHARE, "description": "How much newer memories come before older ones"},
    "memory_score_threshold": {**_SHARE, "description": "The score that a memory must have"},
    "memory_config": {
        "type": ["object", "null"],
        "description": "Memory settings of this request",
        "additionalProperties": False,
        "properties": {
            "enabled": {"type": ["boolean", "null"]},
            "memory_types": {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}},
            "retrieval_limit": {"type": ["integer", "null"], "maximum": 100},
            "similarity_threshold": _SHARE,
            "auto_store": {"type": ["boolean", "null"]},
        },
    },
    "memory_context": {
        "type": ["object", "null"],
        "description": "Whose memory it is, as `user` says it, and of which project",
        "properties": {
            "user_id": {"type": ["string", "null"], "maxLength": 1024},
            "project_id": {"type": ["string", "null"], "maxLength": 1024},
        },
    },
}
"""The memory fields of every request to a model; only `user` is forwarded."""
_TOLD = {
    "x-memory-status": {
        "description": "What became of memory",
        "schema": {
            "type": "string",
            "enum": ["used", "missing", "ignored", "disabled", "policy_blocked", "unavailable"],
        },
        "example": "used",
    },
    "x-memory-reason": {"description": "Why", "schema": {"type": "string"}, "example": "injected"},
}


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
    """Build the schema of an answer; further fields are allowed."""
    return {**model.model_json_schema(), "additionalProperties": True}


def passed_on(
    properties: dict[str, Any],
    required: list[str],
    *,
    asked: dict[str, Any],
    answered: dict[str, Any],
    model: type[BaseModel],
) -> dict[str, Any]:
    """Build the `openapi_extra` of a route that forwards a JSON object; `asked` and `answered` are examples."""
    schema = {**_ANY, "required": required, "properties": {**properties, **_MEMORY_FIELDS}}
    events = {"text/event-stream": {"schema": {"description": "Events, each with JSON as its data"}}}
    answers = {"application/json": {"schema": _answer_schema(model), "example": answered}, **events}
    errors = {"application/json": {"schema": _ANY}, **events}
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema, "example": asked}}},
        "responses": {
            "200": {
                "description": "The model's answer, as it came, but for what is said here",
                "headers": _TOLD,
                "content": answers,
            },
            "default": {"description": "The model's server's own error, as it came", "content": errors},
        },
    }


CHAT = passed_on(
    {
        "model": {"type": "string"},
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {**_ANY, "required": ["role"], "properties": {"role": {"type": "string"}}},
        },
        "stream": {"type": "boolean"},
    },
    ["messages"],
    asked={
        "model": "gpt-4o-mini",
        "messages": [{"role": "user", "content": "What is my cat called?"}],
        "user": "ana",
        "memory_top_k": 3,
    },
    answered={
        "id": "chatcmpl-123",
        "object": "chat.completion",
        "created": 1773567000,
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Luna."}, "finish_reason": "stop"}],
        "memory_hits": [
            {
                "role": "memory",
                "content": "User's cat is called Luna",
                "created_at": "2026-03-15T09:30:00.000000+00:00",
                "score": 0.71,
            }
        ],
    },
    model=ChatCompletion,
)
_RESPONSE: dict[str, Any] = {
    "id": "resp_5a537f9c24e8a1d24f0c9a3be1d05c7e",
    "object": "response",
    "status": "completed",
    "model": "gpt-4o-mini",
    "output": [
        {
            "type": "message",
            "id": "msg_7f9c24e8a1d24f0c",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Luna.", "annotations": []}],
        }
    ],
}
RESPONSE = passed_on(
    {
        "model": {"type": "string"},
        "input": {"type": ["string", "array"], "description": "Text, or OpenAI's items"},
        "instructions": {"type": ["string", "null"]},
        "previous_response_id": {"type": ["string", "null"]},
        "store": {"type": ["boolean", "null"]},
        "stream": {"type": ["boolean", "null"]},
    },
    [],
    asked={
        "model": "gpt-4o-mini",
        "input": "What is my cat called?",
        "memory_config": {"retrieval_limit": 3},
        "memory_context": {"user_id": "ana"},
    },
    answered=_RESPONSE,
    model=ModelResponse,
)


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
ITEMS = _answered(
    "The items of the request",
    {
        "object": "list",
        "data": [
            {
                "type": "message",
                "id": "msg_1f0c9a3be1d05c7e",
                "role": "user",
                "content": [{"type": "input_text", "text": "What is my cat called?"}],
            }
        ],
        "first_id": "msg_1f0c9a3be1d05c7e",
        "last_id": "msg_1f0c9a3be1d05c7e",
        "has_more": False,
    },
    InputItems,
)
