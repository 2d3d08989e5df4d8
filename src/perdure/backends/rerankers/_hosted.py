"""What remote rerankers share: keys, batches within limits, answers, failures.

By plain HTTP: the three services differ in a word or two, and each vendor's client adds its own retries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import AliasChoices, BaseModel, Field, FiniteFloat, SecretStr, ValidationError

from perdure.backends.extras import extra_line
from perdure.backends.http import service
from perdure.backends.rerankers.base import Reranker
from perdure.backends.shared.batches import bounded_batches
from perdure.domain.errors import InvalidInputError, RerankerError
from perdure.domain.text.readable import kind_of, readable_texts

if TYPE_CHECKING:
    import httpx2


def readable_query(query: str) -> str:
    """Return the query as valid Unicode; InvalidInputError if it is not text."""
    if not isinstance(query, str):
        raise InvalidInputError(f"query must be text, not {kind_of(query)}", field="query", value=query)
    return service.readable(query)


MOST_TEXTS = 1_000  # texts in one request: Voyage takes no more, Cohere advises against more, Jina names no bound
MOST_QUERY = 8_000
"""Characters of a query that are sent. They are about 2,000 tokens, as many as Cohere reads of a query (2,048); the
services count the query once for each text."""


class HostedSettings(service.ServiceSettings):
    """Settings that every remote reranker has."""

    model: str
    api_key: SecretStr | None
    base_url: str
    batch_size: int = Field(default=MOST_TEXTS, ge=1, le=MOST_TEXTS)
    """Maximum texts in one request."""


class HostedReranker(Reranker):
    """A reranking model behind POST `base_url`/rerank.

    Construction sends nothing; ConfigError without a key, unless `base_url` is set. Failures are RerankerError with the
    codes of the `openai` language model.
    """

    hosts: ClassVar[tuple[str, ...]]
    """The vendor's own hosts: where a key is demanded, and where the environment's is sent."""
    variable: ClassVar[str]
    """The environment variable that an error names for the key."""
    most_bytes: ClassVar[int]
    """Bytes of text in one request, the query counted once for each text; a text beyond them goes alone."""

    def __init__(self, settings: HostedSettings) -> None:
        key = _key_to_send(settings, self.hosts, self.variable)
        headers = {"authorization": f"Bearer {key}"} if key != service.NO_KEY else {}

        def make(sdk: Any) -> httpx2.AsyncClient:
            client: httpx2.AsyncClient = sdk.AsyncClient(timeout=settings.timeout, headers=headers)
            return client

        self._settings = settings
        self._address = f"{settings.base_url.rstrip('/')}/rerank"
        self._service = _Service(self.name, settings, make, RerankerError, key)

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the service's relevance of each text; empty texts and queries are sent as one space.

        Long lists take several requests; of a long query the first MOST_QUERY characters count.
        """
        asked = readable_query(query)[:MOST_QUERY] or " "  # the services refuse an empty text
        shown = [text or " " for text in readable_texts(texts)]
        scores: list[float] = []
        for batch in batches(asked, shown, self._settings.batch_size, self.most_bytes):
            scores += await self._ask(asked, batch)
        return scores

    def unavailable(self) -> str | None:
        return None if find_spec("httpx2") else f"{self.name} needs httpx2: {extra_line(self.name)}"

    async def close(self) -> None:
        await self._service.close()

    def _body(self, query: str, texts: list[str]) -> dict[str, Any]:
        """Return the request in the format that all three services share."""
        return {"model": self._settings.model, "query": query, "documents": texts}

    async def _ask(self, query: str, texts: list[str]) -> list[float]:
        request = partial(_content, address=self._address, body=self._body(query, texts))
        content = await self._service.ask(request)
        try:
            return _in_order(_Answer.model_validate_json(content).results, len(texts))
        except (ValidationError, ValueError):
            raise self._service.broken("the answer is not one score for each text") from None


def batches(query: str, texts: Sequence[str], most_texts: int, most_bytes: int) -> Iterator[list[str]]:
    """Yield the texts in order, in lists within both limits, the query counted for each; an oversized text alone."""
    asked = len(query.encode())
    return bounded_batches(texts, lambda text: asked + len(text.encode()), most_size=most_bytes, most_items=most_texts)


class _Result(BaseModel):
    index: int
    relevance_score: FiniteFloat


class _Answer(BaseModel):
    results: list[_Result] = Field(validation_alias=AliasChoices("results", "data"))


def _in_order(results: Sequence[_Result], count: int) -> list[float]:
    """Return the scores in the order of the texts from a sorted answer; ValueError unless there is one for each."""
    by_index = {result.index: result.relevance_score for result in results}
    if len(results) != count or set(by_index) != set(range(count)):
        raise ValueError("not one score for each text")
    return [by_index[index] for index in range(count)]


def _key_to_send(settings: HostedSettings, hosts: Sequence[str], variable: str) -> str:
    """Return the key to send, or NO_KEY: the environment's key goes only to the vendor's address."""
    host = service.host_of(settings.base_url)
    own = any(f".{host}".endswith(f".{each}") for each in hosts)
    key = settings.api_key if own or "api_key" in settings.model_fields_set else None
    advice = ", or set base_url to a service of your own"
    return service.key_or_fail(key, needed=own, section="reranker", variable=variable, advice=advice)


class _StatusError(Exception):
    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(response.status_code)
        self.status = response.status_code
        self.after = service.retry_after(response.headers)
        try:
            body = response.json()
        except ValueError:
            body = None
        body = body if isinstance(body, dict) else {}
        # Cohere says `message`, Jina and Voyage `detail`, servers of one's own `error`.
        error = body.get("message") or body.get("detail") or body.get("error")
        page = response.text if not response.text.lstrip().startswith("<") else ""  # no proxy's web page
        self.said = (error if isinstance(error, str) else json.dumps(error) if error else page).strip()


class _Service(service.HttpService):
    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        if isinstance(error, _StatusError):
            return self._of_status(
                error.status, self._clean(error.said), code=service.code_of(error.status), after=error.after
            )
        return super()._translated(sdk, error)


async def _content(client: httpx2.AsyncClient, address: str, body: Mapping[str, Any]) -> bytes:
    response = await client.post(address, json=dict(body))
    if not response.is_success:
        raise _StatusError(response)
    return response.content
