"""mem0's batches: many memories changed or removed by one request; its DELETE has a body."""

from __future__ import annotations

from fastapi import APIRouter

from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import check_metadata
from perdure.engine.arguments import read_text
from perdure.frontends.server.dependencies import PersonalMemory, WriteAccess
from perdure.frontends.server.mem0.bodies import BatchForm
from perdure.frontends.server.routes import operations
from perdure.frontends.server.schemas.memories import UpdateForm
from perdure.frontends.server.schemas.responses import Message, described

router = APIRouter(tags=["mem0"])


@router.put("/v1/batch", response_model=described(Message), summary="Change many memories (mem0)")
async def update(form: BatchForm, personal: WriteAccess) -> dict[str, str]:
    """Change each of them; where one does not exist, or its change is wrong, none is changed."""
    for place, entry in enumerate(form.memories):
        if entry.text is None and entry.metadata is None:
            raise InvalidInputError(f"memories[{place}] has no text and no metadata", field=f"memories[{place}].text")
        if entry.text is not None:
            read_text(entry.text, f"memories[{place}].text")
        check_metadata(entry.metadata)
    await _ids(form, personal)
    for entry in form.memories:
        given = {name: value for name in ("text", "metadata") if (value := getattr(entry, name)) is not None}
        await operations.update(personal, entry.memory_id, UpdateForm(**given))
    return {"message": f"Successfully updated {len(form.memories)} memories"}


@router.delete("/v1/batch", response_model=described(Message), summary="Delete many memories (mem0)")
async def delete(form: BatchForm, personal: WriteAccess) -> dict[str, str]:
    """Remove each of them; where one does not exist, none is removed."""
    ids = await _ids(form, personal)
    for id in ids:
        await personal.memory.delete(id)
    return {"message": f"Successfully deleted {len(ids)} memories"}


async def _ids(form: BatchForm, personal: PersonalMemory) -> list[str]:
    """The ids of the memories, each once; NotFoundError where one does not stand inside of the walls."""
    return list(dict.fromkeys([(await personal.existing(entry.memory_id)).id for entry in form.memories]))
