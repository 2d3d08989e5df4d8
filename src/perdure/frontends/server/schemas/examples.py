"""Example answers for the OpenAPI document."""

from __future__ import annotations

from typing import Any

_ID = "0b6f2c1e-9a4d-4a53-8f0e-2f1c7f6f3a10"
_EVENT_ID = "5d0f7c52-6c0b-4a8e-9f0a-8d6c5f0b1e77"
_TIME = "2026-03-01T09:30:00.000000+00:00"

MEMORY: dict[str, Any] = {
    "id": _ID,
    "memory": "User moved to Lisbon",
    "hash": "006b4d0e0997afbee911adc8dae0daa5",
    "metadata": {"categories": ["home"]},
    "created_at": _TIME,
    "updated_at": _TIME,
    "user_id": "alice",
    "agent_id": None,
    "app_id": None,
    "run_id": None,
    "session_id": None,
    "categories": ["home"],
    "expiration_date": None,
}
"""One memory, with the fields that every dialect has."""
ADDED: dict[str, Any] = {
    "results": [
        {
            "event": "ADD",
            "id": _ID,
            "memory": "User moved to Lisbon",
            "old_memory": None,
            "new_memory": "User moved to Lisbon",
            "event_id": _EVENT_ID,
        }
    ]
}
"""The answer to an `add`."""
FOUND: dict[str, Any] = {"results": [{**MEMORY, "score": 0.82, "similarity": 0.61}], "coverage": 0.9, "held_back": 0}
"""The answer to a search."""
LISTED: dict[str, Any] = {"results": [MEMORY], "next_cursor": None}
"""A page of a list."""
PAGE: dict[str, Any] = {"count": 1, "next": None, "previous": None, "results": [MEMORY]}
"""A page of a list as mem0 numbers them."""
HISTORY: list[dict[str, Any]] = [
    {
        "id": _EVENT_ID,
        "memory_id": _ID,
        "event": "ADD",
        "old_value": None,
        "new_value": "User moved to Lisbon",
        "timestamp": _TIME,
        "is_deleted": False,
    }
]
"""The history of a memory."""
_BUDGET = {**MEMORY, "memory": "Hawaii budget is $12,000 (updated from initial $10,000)"}
_BUDGETS = [{**MEMORY, "memory": f"Budget for Hawaii is {amount}"} for amount in ("$10,000", "$12,000")]
CONSOLIDATED: dict[str, Any] = {
    "results": [{"memory": _BUDGET, "removed": _BUDGETS, "by": "rules", "dry_run": False}],
}
"""What several memories became."""
REFLECTED: dict[str, Any] = {
    "results": [
        {
            "id": _ID,
            "content": "User frequently deployed to staging (3 times)",
            "pattern": "count",
            "count": 3,
            "memory_ids": [_EVENT_ID],
        }
    ],
    "added": 1,
    "updated": 0,
    "removed": 0,
    "by": "rules",
}
"""What memories show together."""


def example_response(example: object) -> dict[int | str, dict[str, Any]]:
    """What a route that succeeds answers with."""
    return {200: {"content": {"application/json": {"example": example}}}}
