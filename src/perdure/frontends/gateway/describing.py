"""How the gateway's routes stand in the OpenAPI document: OpenAI's shapes are OpenAI's, and ours are told."""

from __future__ import annotations

from typing import Any

_ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}
_MEMORY_FIELDS: dict[str, Any] = {
    "memory_id": {"type": ["string", "null"], "maxLength": 1024, "description": "Which conversation this is"},
    "memory_top_k": {"type": ["integer", "null"], "maximum": 100, "description": "Memories at most; 0 recalls none"},
    "memory_recency_weight": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    "memory_score_threshold": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
}


def passed_on(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """The `openapi_extra` of a route that takes a JSON object and passes it on."""
    schema = {**_ANY, "required": required, "properties": properties}
    answers = {
        "application/json": {"schema": _ANY},
        "text/event-stream": {"schema": {"description": "Events, each with JSON as its data"}},
    }
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "200": {"description": "The model's answer, as it came", "content": answers},
            "default": {"description": "The model's server's own error, as it came", "content": answers},
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
        **_MEMORY_FIELDS,
    },
    ["messages"],
)
