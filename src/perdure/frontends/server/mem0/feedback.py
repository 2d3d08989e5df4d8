"""mem0's feedback: what a reader thinks of a memory, kept in its metadata, where a search can filter by it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from perdure.domain.errors import InvalidInputError
from perdure.domain.text import shown
from perdure.frontends.server.mem0 import calls
from perdure.frontends.server.mem0.forms import FeedbackForm, UpdateForm
from perdure.frontends.server.personal import Writing

router = APIRouter(tags=["mem0"])

KINDS = ("POSITIVE", "NEGATIVE", "VERY_NEGATIVE")


@router.post("/v1/feedback", summary="Say what a memory is worth (mem0)")
async def feedback(form: FeedbackForm, personal: Writing) -> dict[str, Any]:
    """Keep a judgement of a memory as `feedback` and `feedback_reason` of its metadata; null takes it back."""
    kind = None if form.feedback is None else form.feedback.upper()
    if kind is not None and kind not in KINDS:
        raise InvalidInputError(
            f"feedback must be one of {', '.join(KINDS)}, not {shown(form.feedback)}",
            field="feedback",
            value=form.feedback,
        )
    told = {"feedback": kind, "feedback_reason": form.feedback_reason}
    item = await calls.update(personal, form.memory_id, UpdateForm(metadata=told))
    return {"id": item.id, **told}
