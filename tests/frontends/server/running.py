"""A real server on a real port, in a thread of the test's own process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx
import jwt
import pytest
import uvicorn
from fastapi import APIRouter, FastAPI

from perdure.domain.access import Role
from perdure.domain.scope import Scope
from perdure.engine import api_keys
from perdure.engine.config.config import read_config
from perdure.frontends.server.app import create_app
from perdure.frontends.server.middleware.request_limits import Config
from perdure.frontends.server.settings import read_settings
from perdure.frontends.server.state import Service

T = TypeVar("T")

JSON = {"Content-Type": "application/json"}
"""What every body that is read as JSON says of itself."""

SECRET = "a shared secret, for tests alone, which is longer than the 64 bytes that HS512 asks for"
"""PERDURE_JWT_SECRET of servers that know teams."""


@dataclass(frozen=True)
class Running:
    """One server: its address, a client of it, and what stands behind it."""

    url: str
    client: httpx.Client
    app: FastAPI
    loop: asyncio.AbstractEventLoop

    @property
    def service(self) -> Service:
        return self.app.state.service

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the server's own event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def key(self, name: str, *, role: Role = "member", **walls: str) -> str:
        """Make a key; its secret."""

        async def make() -> str:
            pepper = self.service.secrets.key_pepper
            _, secret = await api_keys.create(
                (await self.service.ledger()).keys,
                name,
                role=role,
                walls=Scope(**walls),
                pepper=pepper.get_secret_value() if pepper else None,
            )
            return secret

        return self.wait(make())

    def revoke(self, name: str) -> None:
        async def end() -> None:
            await api_keys.revoke((await self.service.ledger()).keys, name)

        self.wait(end())


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def token(sub: str = "ana", *, secret: str = SECRET, seconds: float = 86_400, **claims: Any) -> str:
    """A team's JWT, signed by the shared secret."""
    return jwt.encode({"sub": sub, "exp": datetime.now(UTC) + timedelta(seconds=seconds), **claims}, secret, "HS256")


def as_member(team: str, sub: str = "ana", **claims: Any) -> dict[str, str]:
    """The headers of a member of a team."""
    return {**bearer(token(sub, team=team, **claims)), "X-Team-Scope": team}


@contextmanager
def running(
    folder: Path,
    *,
    settings: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
    is_open: bool | None = None,
    routes: APIRouter | None = None,
    http: Literal["auto", "h11", "httptools"] = "auto",
    **config: Any,
) -> Iterator[Running]:
    """Serve a memory in a folder: `settings` are the `server` table, `env` its secrets, the rest is configuration.

    `routes` are the test's own, beside the server's; `http` is uvicorn's parser of requests.
    """
    config = {"path": str(folder), "embedder": {"provider": "hashed"}, "server": settings or {}, **config}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        app = create_app(read_config(config), is_open=is_open)
    if routes is not None:
        app.include_router(routes)
    server = uvicorn.Server(
        Config(
            app,
            request_seconds=read_settings(read_config(config)).request_seconds,
            port=0,
            http=http,
            log_config=None,
            access_log=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=10,
        )
    )
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < deadline, "the server takes too long to start"
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=url, timeout=60, verify=False) as client:
            yield Running(url, client, app, loops[0])
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server did not stop"
