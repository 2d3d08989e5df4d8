"""Milvus Lite behind a door that records every request, asks for a token, and fails when a test says so."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from milvus_lite.adapter.grpc.servicer import MilvusServicer
from milvus_lite.db import MilvusLite
from pymilvus.grpc_gen import common_pb2, milvus_pb2, milvus_pb2_grpc

from perdure.backends.vector_stores.base import Point
from perdure.backends.vector_stores.milvus.store import MilvusVectorStore

Fault = Callable[[grpc.ServicerContext], Any]
DIMENSION = 4


class Opened:
    """A store whose methods are called without await."""

    def __init__(self, store: MilvusVectorStore) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: asyncio.run(getattr(self.store, name)(*args, **kwargs))


def point(id: str, *numbers: float, **payload: Any) -> Point:
    vector = np.array([*numbers, *[0.0] * (DIMENSION - len(numbers))], np.float32)
    return Point(id, vector, {"id": id, "user_id": "alice", **payload})


def status(code: grpc.StatusCode) -> Fault:
    """The call ends with this status."""
    return lambda context: context.abort(code, "secret-in-details")


def slow(seconds: float) -> Fault:
    """The call takes long, and then fails."""

    def wait(context: grpc.ServicerContext) -> Any:
        time.sleep(seconds)
        context.abort(grpc.StatusCode.CANCELLED, "too late")

    return wait


def limited(context: grpc.ServicerContext) -> Any:
    """A query is answered as Milvus answers when a rate limit is reached."""
    return milvus_pb2.QueryResults(status=common_pb2.Status(code=8, error_code=49, reason="rate limit exceeded"))


@dataclass
class Wire(grpc.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """The door; `version` is what GetVersion says, and with a server's version arrays have indexes too."""

    folder: Path
    token: str = ""
    version: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    """Each is used up by the next call of its method."""

    def __post_init__(self) -> None:
        self._database = MilvusLite(str(self.folder))
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=1), interceptors=[self])
        milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(self._database), self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.uri = f"http://127.0.0.1:{port}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(None).wait()
        self._database.close()

    def requests(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        method = details.method.rpartition("/")[2]
        headers = dict(details.invocation_metadata)

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            self.calls.append((method, request))
            if self.token and headers.get("authorization") != base64.b64encode(self.token.encode()).decode():
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "auth check failure")
            for number, (name, fault) in enumerate(self.faults):
                if name == method:
                    del self.faults[number]
                    return fault(context)
            if method == "GetVersion" and self.version:
                return milvus_pb2.GetVersionResponse(status=common_pb2.Status(), version=self.version)
            if method == "CreateIndex" and request.field_name == "tokens":
                return common_pb2.Status()  # Milvus Lite has no index of arrays, a server has
            return handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=handler.request_deserializer, response_serializer=handler.response_serializer
        )
