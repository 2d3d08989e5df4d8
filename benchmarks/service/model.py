"""A language model that reads nothing: it answers as OpenAI's service does, with the one fact of the message.

The load test runs it as a process of its own: python -m benchmarks.service.model PORT SECONDS
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

TOLD = re.compile(r"note \w+")


def app(delay: float) -> Starlette:
    """The service; each answer takes `delay` seconds, as a model's would."""

    async def chat(request: Request) -> JSONResponse:
        asked = json.dumps(await request.json())
        await asyncio.sleep(delay)
        found = TOLD.findall(asked)
        content = json.dumps({"facts": [f"User keeps {found[-1]}"] if found else []})
        message = {"role": "assistant", "content": content}
        return JSONResponse(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 0,
                "model": "scripted",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        )

    async def bare(request: Request) -> JSONResponse:
        return JSONResponse({"bytes": len(await request.body())})

    return Starlette(
        routes=[Route("/v1/chat/completions", chat, methods=["POST"]), Route("/bare", bare, methods=["POST"])]
    )


if __name__ == "__main__":
    uvicorn.run(app(float(sys.argv[2])), port=int(sys.argv[1]), log_level="warning")
