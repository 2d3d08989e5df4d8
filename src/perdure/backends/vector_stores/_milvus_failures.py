"""What Milvus's exceptions mean."""

from __future__ import annotations

import grpc  # type: ignore[import-untyped]  # it has no types
from pymilvus import MilvusException  # type: ignore[import-untyped]  # it has no types

from perdure.backends.vector_stores._document_engine import Failure

NOT_LOADED = 101
ALREADY_THERE = 35
_CONNECT_FAILED = 2
_RATE_LIMIT = 8
_MISSING = 100
_NO_DATABASE = 800
_LONGEST_MESSAGE = 500

_PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,
}
_FORBIDDEN = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}


def is_missing(error: MilvusException) -> bool:
    """Whether the collection does not exist."""
    return bool(error.code == _MISSING or error.compatible_code == 4)


def no_database(error: MilvusException) -> bool:
    """Whether the database does not exist."""
    said = str(error.message)
    return error.code == _NO_DATABASE or ("database" in said and ("not found" in said or "does not exist" in said))


def told(error: Exception, address: str, timeout: float) -> Failure | None:
    """What an exception of the driver means; None for one that is not the driver's."""
    status = _status(error)
    if status is None and not isinstance(error, MilvusException):
        return None
    said = str(getattr(error, "message", ""))[:_LONGEST_MESSAGE]
    if status == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Failure(f"{address} did not answer within {timeout:g} seconds", passing=True)
    if status in _FORBIDDEN or "auth check failure" in said:
        return Failure(f"{address} refused the token: check vector_store.config.token")
    code = getattr(error, "code", None)
    if status == grpc.StatusCode.UNAVAILABLE or code == _CONNECT_FAILED:
        return Failure(f"{address} cannot be reached: is Milvus running there?", passing=True)
    if status is not None:
        return Failure(f"{address} failed: {status.name}", passing=status in _PASSING)
    assert isinstance(error, MilvusException)
    return Failure(f"{address}: {said}", passing=error.retriable or code == _RATE_LIMIT)


def _status(error: BaseException | None) -> grpc.StatusCode | None:
    """The gRPC status of an exception, or of what it was raised from: pymilvus raises some from themselves."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        code = getattr(error, "code", None)
        found = code() if callable(code) else code
        if isinstance(found, grpc.StatusCode):
            return found
        seen.append(error)
        error = error.__cause__
    return None
