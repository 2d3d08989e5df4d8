"""mem0's feedback: what a reader thinks of a memory, in its metadata, where a search can filter by it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from perdure.frontends.server.mem0.forms import FeedbackForm
from perdure.frontends.server.personal import Writing

router = APIRouter(tags=["mem0"])


@router.post("/v1/feedback", summary="Say what a memory is worth (mem0)")
async def feedback(form: FeedbackForm, personal: Writing) -> dict[str, Any]:
    """Judge a memory: POSITIVE, NEGATIVE or VERY_NEGATIVE moves its importance; null takes the judgement back."""
    item = await personal.memory.feedback(form.memory_id, form.feedback, reason=form.feedback_reason)
    return {"id": item.id, "feedback": item.metadata.get("feedback"), "feedback_reason": form.feedback_reason}
