"""mem0's feedback: what a reader thinks of a memory, in its metadata, where a search can filter by it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from perdure.frontends.server.dependencies import WriteAccess
from perdure.frontends.server.mem0.bodies import FeedbackForm
from perdure.frontends.server.schemas.responses import FeedbackResult, described

router = APIRouter(tags=["mem0"])


@router.post("/v1/feedback", response_model=described(FeedbackResult), summary="Say what a memory is worth (mem0)")
async def feedback(form: FeedbackForm, personal: WriteAccess) -> dict[str, Any]:
    """Judge a memory: POSITIVE, NEGATIVE or VERY_NEGATIVE moves its importance; null takes the judgement back."""
    item = await personal.memory.feedback(form.memory_id, form.feedback, reason=form.feedback_reason)
    return {"id": item.id, "feedback": item.metadata.get("feedback"), "feedback_reason": form.feedback_reason}
