"""Every route of mem0's dialects, a module for each of their resources."""

from __future__ import annotations

from fastapi import APIRouter

from perdure.frontends.server.mem0 import (
    batch,
    entities,
    events,
    exports,
    feedback,
    memories,
    open_server,
    ping,
    project,
    unsupported_routes,
)

router = APIRouter()
# `absent` comes before `entities`, whose names may hold slashes.
for each in (ping, unsupported_routes, memories, events, entities, batch, feedback, exports, project, open_server):
    router.include_router(each.router)
