"""What a request runs before its route: nothing that needs a thread, and the faster loop and parser."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from perdure.engine.config.config import read_config
from perdure.frontends.server.app import create_app
from perdure.frontends.server.middleware.request_limits import Config, HttpToolsProtocol


def api_routes(routes: Iterable[BaseRoute]) -> Iterator[APIRoute]:
    for route in routes:
        if (inner := getattr(route, "original_router", None)) is not None:
            yield from api_routes(inner.routes)
        elif isinstance(route, APIRoute):
            yield route


def calls(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    if dependant.call is not None:
        yield dependant.call
    for each in dependant.dependencies:
        yield from calls(each)


def test_no_route_and_no_dependency_needs_a_thread(tmp_path: Path) -> None:
    """FastAPI runs what is no coroutine in a thread: a hop for each, on every request."""
    app = create_app(read_config({"path": str(tmp_path), "embedder": {"provider": "hashed"}}))
    routes = [*api_routes(app.routes)]
    assert len(routes) > 50
    slow = {call for route in routes for call in calls(route.dependant) if not inspect.iscoroutinefunction(call)}
    assert {getattr(call, "__qualname__", repr(call)) for call in slow} == set()


def test_the_server_runs_on_uvloop_and_httptools() -> None:
    uvloop, httptools = pytest.importorskip("uvloop"), pytest.importorskip("httptools")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        """Answer nothing: it is never asked."""

    config = Config(app, request_seconds=10)
    config.load()
    assert HttpToolsProtocol is not None, httptools.__name__
    assert issubclass(config.http_protocol_class, HttpToolsProtocol)
    factory = config.get_loop_factory()
    assert factory is not None
    loop = factory()
    loop.close()
    assert isinstance(loop, uvloop.Loop)
