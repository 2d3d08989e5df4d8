"""Find the vector length of an unknown embedding model: from stored vectors, else by asking its server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from perdure.backends import registry
from perdure.backends.embedders.openai import MODELS
from perdure.backends.http.upstream import HttpUpstream
from perdure.domain.errors import ConfigError, UpstreamError
from perdure.domain.text.readable import shown
from perdure.frontends.library.memory_client_settings import is_served

PATIENCE = 120.0  # seconds that the server has to embed one word; it may have to load the model first


def length_of(folder: Path, model: str, base_url: str, api_key: str | None) -> int | None:
    """Return the vector length of a server's model; None if it is a well-known model, or runs locally.

    The folder's stored vectors are checked before the server is asked. ConfigError if neither helps.
    """
    if model in MODELS or not is_served(model):
        return None
    stored: int | None = registry.build("vector_stores", "markdown", {"path": folder}).stored_dimension("memories")
    return stored or asyncio.run(_asked(model, base_url, api_key))


async def _asked(model: str, base_url: str, api_key: str | None) -> int:
    upstream = HttpUpstream(base_url, api_key=api_key)
    headers = {"Content-Type": "application/json"}
    if upstream.authorization is not None:
        headers["Authorization"] = upstream.authorization
    body = json.dumps({"model": model, "input": ["length"]}).encode()
    try:
        async with asyncio.timeout(PATIENCE):
            answer = await upstream.send("POST", "/v1/embeddings", headers=headers, body=body)
            said = json.loads(await answer.read())
            return len(said["data"][0]["embedding"])
    except (UpstreamError, TimeoutError, ValueError, KeyError, IndexError, TypeError, RecursionError):
        raise ConfigError(
            f"the server of the embedding model {shown(model)} does not say how long its vectors are: is it there, "
            "and has it the model? --embedding-dimensions tells without asking",
            field="embedding_model",
            value=model,
        ) from None
    finally:
        await upstream.close()
