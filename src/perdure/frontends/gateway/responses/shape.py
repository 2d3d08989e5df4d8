"""The response object: what stands in it beside its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Outcome = Literal["in_progress", "completed", "incomplete", "failed"]
"""How far a response has come."""

_ECHOED: Mapping[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": None,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""Fields of the request that stand in its response too, and what they are where it did not give them."""

_INCOMPLETE: Mapping[str, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Chat's reasons to stop early, in the words of the Responses API."""


def empty_response(response_id: str, body: Mapping[str, Any], *, created_at: int) -> dict[str, Any]:
    """The response to a request before the model has said a word; memory that was injected is not in it."""
    given = {name: body[name] for name in _ECHOED if body.get(name) is not None}
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "status": "in_progress",
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": body.get("model") or "",
        "output": [],
        "usage": None,
        **_ECHOED,
        **given,
    }


def incomplete_details(finish_reason: object) -> dict[str, str] | None:
    """Why an answer is not whole, or None where it is."""
    reason = _INCOMPLETE.get(finish_reason) if isinstance(finish_reason, str) else None
    return {"reason": reason} if reason else None


def usage_of(usage: object) -> dict[str, Any] | None:
    """Chat's count of tokens in the words of the Responses API; None where there is none."""
    if not isinstance(usage, dict):
        return None
    read, written = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    prompt = usage.get("prompt_tokens_details")
    completion = usage.get("completion_tokens_details")
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": _inside(prompt, "cached_tokens"), "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": _inside(completion, "reasoning_tokens")},
        "total_tokens": _count(usage.get("total_tokens")) or read + written,
    }


def error_of(error: object) -> dict[str, str]:
    """An error that an upstream told in the middle of a stream, as a response tells it."""
    told = error if isinstance(error, dict) else {"message": error}
    limited = "rate_limit" in f"{told.get('code')} {told.get('type')}" or told.get("code") in (429, "429")
    message = told.get("message")
    return {
        "code": "rate_limit_exceeded" if limited else "server_error",
        "message": message if isinstance(message, str) and message else "The model's server failed.",
    }


def logprobs_of(logprobs: object) -> list[dict[str, Any]]:
    """Chat's log probabilities of a text's tokens, with the fields that the Responses API has always."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    tokens = [token for token in content if isinstance(token, dict)] if isinstance(content, list) else []
    return [
        {**_token(token), "top_logprobs": [_token(each) for each in token.get("top_logprobs") or ()]}
        for token in tokens
    ]


def _token(token: dict[str, Any]) -> dict[str, Any]:
    text = str(token.get("token", ""))
    octets = token.get("bytes") or list(text.encode("utf-8", "replace"))
    return {"token": text, "logprob": token.get("logprob") or 0.0, "bytes": octets}


def _inside(details: object, name: str) -> int:
    return _count(details.get(name)) if isinstance(details, dict) else 0


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
