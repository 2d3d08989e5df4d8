"""Requests to Elasticsearch, in a dialect that servers 8 and 9 and both majors of the client understand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from elasticsearch import (
    ApiError,
    ConnectionError,
    ConnectionTimeout,
    Elasticsearch,
    SSLError,
    TransportError,
    UnsupportedProductError,
)

from perdure.backends.vector_stores._document_engine import Failure, MissingCollection

# The client's own methods ask for its own major, which an older server refuses; 9 still speaks 8.
_JSON = "application/vnd.elasticsearch+json; compatible-with=8"
_LINES = "application/vnd.elasticsearch+x-ndjson; compatible-with=8"

LARGEST = 8 * 1024 * 1024
"""Bytes of documents in one request, of the 100 MB that a server takes."""

GONE = "index_not_found_exception"


class Refused(Exception):
    """A server's no to one document of many."""

    def __init__(self, status: int, kind: str) -> None:
        super().__init__(f"{status} {kind}")
        self.status = status
        self.kind = kind


class Requests:
    """Sends requests by the vendor's client, which threads may share."""

    def __init__(self, client: Elasticsearch) -> None:
        self._client = client

    def close(self) -> None:
        """Let go of every connection."""
        self._client.close()

    def send(self, method: str, path: str, body: Any = None, **params: str) -> dict[str, Any]:
        """The server's answer, an object; MissingCollection where the index of the path does not exist."""
        headers = {"accept": _JSON}
        if body is not None:
            headers["content-type"] = _JSON
            body = json.dumps(body).encode()
        return self._answer(method, path, params, headers, body)

    def bulk(self, index: str, lines: Sequence[bytes]) -> None:
        """Write documents into an index that exists, and have them seen by all; Refused tells of one that failed."""
        headers = {"accept": _JSON, "content-type": _LINES}
        params = {"refresh": "true", "require_alias": "true", "filter_path": "errors,items.*.error,items.*.status"}
        answer = self._answer("POST", f"/{index}/_bulk", params, headers, b"\n".join([*lines, b""]))
        if not answer["errors"]:
            return
        for item in answer["items"]:
            for told in item.values():
                if "error" in told:
                    raise item_failure(told["status"], told["error"])

    def _answer(
        self, method: str, path: str, params: dict[str, str], headers: dict[str, str], body: Any
    ) -> dict[str, Any]:
        try:
            answer = self._client.perform_request(method, path, params=params, headers=headers, body=body)
        except ApiError as error:
            if error.meta.status == 404 and kind_of(error) == GONE:
                raise MissingCollection from None
            raise
        if not isinstance(answer.body, dict):
            raise TransportError("an answer that is no object")
        return answer.body


def batches(documents: Sequence[list[bytes]]) -> Iterator[list[bytes]]:
    """The lines of documents, in requests of bearable size."""
    batch: list[bytes] = []
    size = 0
    for lines in documents:
        length = sum(map(len, lines))
        if batch and size + length > LARGEST:
            yield batch
            batch, size = [], 0
        batch += lines
        size += length
    if batch:
        yield batch


def item_failure(status: int, told: dict[str, Any]) -> Exception:
    """What to raise for one document of many that failed."""
    return MissingCollection() if told["type"] == GONE else Refused(status, told["type"])


def kind_of(error: ApiError) -> str:
    """What the server calls the error, such as `index_not_found_exception`."""
    told = error.body.get("error") if isinstance(error.body, dict) else None
    kind = told.get("type") if isinstance(told, dict) else None
    return kind if isinstance(kind, str) else ""


def failure_of(error: Exception, address: str) -> Failure | None:
    """What a failure means; its own words are left out, since they may repeat what somebody said."""
    if isinstance(error, ConnectionTimeout):
        return Failure(f"{address} did not answer in time; the setting timeout says how long that is", passing=True)
    if isinstance(error, SSLError):
        return Failure(f"no secure connection to {address}; ca_certs names the certificate of an own authority")
    if isinstance(error, ConnectionError):
        return Failure(f"{address} cannot be reached: does Elasticsearch run there?", passing=True)
    if isinstance(error, UnsupportedProductError):
        return Failure(f"what answers at {address} is not Elasticsearch")
    if isinstance(error, ApiError):
        return _status(error.meta.status, kind_of(error), address)
    if isinstance(error, Refused):
        return _status(error.status, error.kind, address)
    if isinstance(error, TransportError):
        return Failure(f"{address} gave an answer that Elasticsearch does not give ({type(error).__name__})")
    return None


def _status(status: int, kind: str, address: str) -> Failure:
    told = f"{status} {kind}".strip()
    if status == 401:
        return Failure(f"{address} refuses the credentials ({told}): set api_key, or username and password")
    if status == 403:
        return Failure(f"{address} does not permit this ({told}): the credentials lack a privilege on the indices")
    if status == 413:
        return Failure(f"{address} refuses a row of this size ({told})")
    return Failure(f"{address} answered {told}", passing=status == 429 or status >= 500)
