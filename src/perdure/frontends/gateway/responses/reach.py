"""Whether the model's server has a Responses API: asked once, and remembered for as long as the process lives."""

from __future__ import annotations

import asyncio
import json
import logging

from perdure.backends.upstreams.http import Headers, HttpUpstream
from perdure.engine.gateway.settings import UpstreamSettings

PATH = "/v1/responses"
CHAT_PATH = "/v1/chat/completions"

logger = logging.getLogger("perdure.gateway")

_ABSENT = (404, 405, 501)
"""What servers say to a path that they have not."""
_UNDECIDED = (401, 403, 407, 408, 425, 429)
"""What is said before anybody looks at the path."""


class Reach:
    """Knows of one model's server whether it answers Responses requests, or has to be asked by chat."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self._known: bool | None = None if settings.responses == "auto" else settings.responses == "native"
        self._asking = asyncio.Lock()

    async def is_native(self, upstream: HttpUpstream, headers: Headers) -> bool:
        """Whether it has the API; `headers` are those of a request, whose credentials the question is asked with.

        The question is an empty request, which names no model and costs none: whatever has the path complains of what
        is missing. UpstreamError where nobody answers; an answer that decides nothing is asked for again next time.
        """
        if self._known is not None:
            return self._known
        async with self._asking:
            if self._known is None:
                return await self._ask(upstream, headers)
        return self._known

    async def _ask(self, upstream: HttpUpstream, headers: Headers) -> bool:
        kept = [(name, value) for name, value in headers if name.lower() not in ("content-type", "accept")]
        answer = await upstream.send("POST", PATH, headers=[*kept, ("content-type", "application/json")], body=b"{}")
        try:
            absent = answer.status in _ABSENT and not is_about_the_request(await answer.read())
        finally:
            answer.close()
        if answer.status in _UNDECIDED or (answer.status >= 500 and not absent):
            return True
        self._known = not absent
        if absent:
            logger.info("the model's server has no Responses API: requests are translated into chat")
        return self._known


def is_about_the_request(body: bytes) -> bool:
    """Whether an error speaks of what was asked for (a model that there is not), and not of the path."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return False
    error = told.get("error", told) if isinstance(told, dict) else None
    if not isinstance(error, dict):
        return False
    return bool(error.get("param")) or "model" in f"{error.get('code')} {error.get('message')}".lower()
