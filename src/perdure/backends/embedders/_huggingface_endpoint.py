"""Embedding models behind HTTP as Hugging Face serves them: the hosted router, Inference Endpoints, and TEI.

By plain HTTP, not by huggingface_hub: its asynchronous client looks a model up by blocking calls before it asks, sends
the token that a user once stored on this machine to any address, and hides the headers that count the tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from perdure.backends.embedders._answers import batches, unit_vectors
from perdure.backends.embedders._halving import in_parts
from perdure.backends.metering import embedded
from perdure.backends.retrying import RetryLater, retry_after
from perdure.backends.service import NO_KEY, RefusedError, Service, ServiceSettings, code_of, host_of
from perdure.domain.errors import EmbeddingError

if TYPE_CHECKING:
    import httpx2

ROUTER = "https://router.huggingface.co"
"""The hosted service (https://huggingface.co/docs/inference-providers/providers/hf-inference)."""
MOST_BYTES = 500_000
"""Bytes of text in one request; text-embeddings-inference takes 2 MB of JSON (--payload-limit)."""
PATH, SIZE = "path", "size"
"""What a RefusedError names: an address that the service does not have, a request that is too large."""

_WHOLE_ADDRESS = ("/embed", "/feature-extraction", "/invocations")
_OWN_STATUS = {402: "quota", 424: "server"}
"""Used-up credits of the router; a model that failed inside text-embeddings-inference."""
_MOST_TEXTS = re.compile(r"maximum allowed batch size (\d+)")


def is_hosted(base_url: str | None) -> bool:
    """Whether the address is one of Hugging Face's own, which it is without one."""
    host = host_of(base_url) if base_url else "huggingface.co"
    return host == "huggingface.co" or host.endswith((".huggingface.co", ".huggingface.cloud"))


class Endpoint:
    """A model behind an address; `model` None for the only one that is served there.

    `key` is None where none is to be sent. `asks_for_length` is whether `dimension` is not the model's own.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        model: str | None,
        base_url: str | None,
        key: str | None,
        dimension: int,
        batch_size: int,
        asks_for_length: bool,
    ) -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}

        def make(sdk: Any) -> httpx2.AsyncClient:
            client: httpx2.AsyncClient = sdk.AsyncClient(timeout=settings.timeout, headers=headers)
            return client

        self._service = _Service("huggingface", settings, make, EmbeddingError, key or NO_KEY)
        self._addresses = _addresses(model, base_url)
        self._model = model or host_of(self._addresses[0])
        self._dimension = dimension
        self._batch_size = batch_size
        self._asks_for_length = asks_for_length

    async def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Vectors of length 1; EmbeddingError if the service fails or gives anything else."""
        rows = [np.empty((0, self._dimension), dtype=np.float32)]
        # The service refuses an empty text.
        for batch in batches([text or " " for text in texts], self._batch_size, MOST_BYTES):
            found = await in_parts(batch, self._ask, self._is_too_much)
            if any(len(row) > self._dimension for row in found) and not self._asks_for_length:
                self._asks_for_length = True
                found = await in_parts(batch, self._ask, self._is_too_much)
            rows.append(unit_vectors(found, len(batch), self._dimension, self._model, self._service.broken))
        return np.concatenate(rows)

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()

    def _is_too_much(self, refused: RefusedError) -> bool:
        if found := _MOST_TEXTS.search(refused.said):
            self._batch_size = max(1, int(found.group(1)))
        return refused.parameter == SIZE

    async def _ask(self, texts: list[str]) -> list[list[float]]:
        body: dict[str, Any] = {"inputs": texts, "normalize": True, "truncate": True}
        if self._asks_for_length:
            body["dimensions"] = self._dimension
        while True:
            address, *others = self._addresses
            try:
                request = partial(_answer, address=address, body=body)
                content, tokens = await self._service.ask(request, asks_otherwise=True)
            except RefusedError as refused:
                if refused.parameter != PATH or not others:
                    raise
                # From now on: an Inference Endpoint that is no TEI answers at its own address alone.
                self._addresses = others
            else:
                embedded("huggingface", self._model, tokens)
                return self._rows(content, len(texts))

    def _rows(self, content: bytes, count: int) -> list[list[float]]:
        try:
            rows = json.loads(content)
        except ValueError:
            rows = None
        if not isinstance(rows, list) or len(rows) != count or not all(isinstance(row, list) and row for row in rows):
            raise self._service.broken("the answer is not one vector for each text")
        if any(isinstance(row[0], list) for row in rows):
            raise self._service.broken(
                "the service gives a vector for each token, not for each text: serve the model by "
                "text-embeddings-inference, or run it from a folder (`path`)"
            )
        return rows


class _StatusError(Exception):
    """An answer with a status other than success, as it came."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(response.status_code)
        self.status = response.status_code
        self.path = response.request.url.path
        try:
            told = response.json()
        except ValueError:
            told = None
        told = told if isinstance(told, dict) else {}
        error = told.get("error")
        self.said = (error if isinstance(error, str) else json.dumps(error) if error else response.text).strip()
        # The router tells the seconds that a model takes to load in the body.
        loading = told.get("estimated_time")
        self.after = retry_after(response.headers)
        if self.after is None and isinstance(loading, int | float):
            self.after = float(max(0.0, loading))


class _Service(Service["httpx2.AsyncClient"]):
    """Sends requests by HTTP. A RefusedError names PATH or SIZE."""

    sdk: ClassVar[str] = "httpx2"

    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        if isinstance(error, _StatusError):
            said = self._clean(error.said)
            problem = self.broken(f"status {error.status}" + (f": {said}" if said else ""))
            if error.status in (404, 405):
                return RefusedError(self.broken(f"nothing at {error.path} (status {error.status}): {said}"), PATH, said)
            if error.status == 413:
                return RefusedError(problem, SIZE, said)
            code = _OWN_STATUS.get(error.status, code_of(error.status))
            return self._told(error.status, said, code=code, after=error.after)
        if isinstance(error, sdk.TimeoutException):
            return self._timed_out()
        if isinstance(error, sdk.ConnectError):
            return self._unreachable(host_of(str(error.request.url)), error)
        if isinstance(error, sdk.TransportError):
            return RetryLater(self.broken(f"the connection broke ({type(error).__name__})", "connection"))
        return self.broken("the answer cannot be read") if isinstance(error, sdk.RequestError) else None

    async def _closed(self, client: httpx2.AsyncClient) -> None:
        await client.aclose()


async def _answer(client: httpx2.AsyncClient, address: str, body: Mapping[str, Any]) -> tuple[bytes, int]:
    """The answer's body, and the tokens that text-embeddings-inference says it took."""
    response = await client.post(address, json=dict(body))
    if not response.is_success:
        raise _StatusError(response)
    tokens = response.headers.get("x-compute-tokens", "")
    return response.content, int(tokens) if tokens.isdecimal() else 0


def _addresses(model: str | None, base_url: str | None) -> list[str]:
    """Where to ask, in this order: the router's address of the model, or one's own, with TEI's path first."""
    if base_url is None:
        return [f"{ROUTER}/hf-inference/models/{quote(model or '', safe='/')}/pipeline/feature-extraction"]
    address = base_url.rstrip("/")
    return [address] if address.endswith(_WHOLE_ADDRESS) else [f"{address}/embed", address]
