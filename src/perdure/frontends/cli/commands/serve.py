"""The command serve, which runs the server."""

from __future__ import annotations

import ctypes
import json
import logging
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.domain.errors import ConfigError, NotFoundError, PerdureError
from perdure.frontends.cli.commands.keys import with_keys
from perdure.frontends.cli.open_memory import need_server, read_settings
from perdure.frontends.cli.options import JsonOption, PathOption, folder
from perdure.frontends.cli.output import note, print_json
from perdure.frontends.mcp import Serving

if TYPE_CHECKING:
    from fastapi import FastAPI

    from perdure.engine.config.config import MemoryConfig
    from perdure.frontends.server.settings import ServerSettings

SERVING = "PERDURE_SERVING"  # the variable that passes the settings to each worker
_SHORTEST_SECRET = 32  # bytes below which a shared secret can be guessed (RFC 7518 §3.2)
_BACKLOG = 2048
_TURN_OF_THREAD = 0.0005
"""Seconds after which a running thread yields to a waiting one: requests wait while a thread reads others' turns, ten
times as long with Python's default of 0.005 (gateway_latency.py)."""
_KEPT_SECONDS = 75
"""Seconds for which an idle connection is kept: longer than clients keep theirs (httpx 5, most proxies 60), because a
request fails if its connection is closed just before (service_load.py: 3 of 1,000 with uvicorn's 5)."""

HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; default 127.0.0.1.")
]
PortOption = Annotated[
    int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on; default 8100; 0 picks a free one.")
]
OpenOption = Annotated[
    bool, typer.Option("--open", help="Serve anyone who can reach the address, without keys.", show_default=False)
]

logger = logging.getLogger("perdure.server")


def serve(
    *,
    host: HostOption = None,
    port: PortOption = None,
    is_open: OpenOption = False,
    workers: Annotated[int | None, typer.Option("--workers", min=1, max=64, help="Processes; by default 1.")] = None,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Serve a memory over HTTP: REST, teams, graph, and the API of mem0's client.

    On a loopback address no key is needed until one is created; any other address needs keys (perdure keys create
    NAME), tokens, or --open. After SIGTERM it finishes running requests and stops. With --json it prints the address
    as soon as it accepts requests; log lines are JSON on standard error.

    Example: perdure serve --port 8100

    Example: perdure serve --host 0.0.0.0 --workers 4
    """
    begin()
    place = folder(path)
    given = {"host": host, "port": port, "workers": workers, "open": is_open or None}
    chosen = {name: value for name, value in given.items() if value is not None}
    from perdure.frontends.server import logging as logs  # heavy: FastAPI; `perdure --help` must not wait for it

    config = serving_config(place, chosen)
    settings = checked(config, place)
    listening, url = listen(settings)
    os.environ[SERVING] = json.dumps({"folder": str(place), "server": chosen})
    logs.to_standard_error()
    logger.info("listening", extra={"fields": {"url": url, "workers": settings.workers}})
    with attachable(settings, place, url):
        if as_json:
            print_json({"url": url, "workers": settings.workers, "open": settings.open})
            typer.get_text_stream("stdout").flush()
        run(settings, listening, f"{__name__}:served")


@contextmanager
def attachable(settings: ServerSettings, place: Path, url: str) -> Iterator[None]:
    """Let each `perdure mcp` of the folder use this server's engine, instead of loading a model of its own."""
    from perdure.frontends.server.settings import ATTACH_VARIABLE  # heavy, see above

    os.environ.pop(ATTACH_VARIABLE, None)
    if not settings.trust_client_user_id:  # then people are named by a proxy, which a local client passes by
        yield
        return
    port = url.rpartition(":")[2]
    own = url if settings.on_loopback else f"http://{'[::1]' if '[' in url else '127.0.0.1'}:{port}"
    serving = Serving(own, secrets.token_urlsafe(32), settings.mcp_profiles)
    with serving.announced(place) as is_announced:
        if is_announced:
            os.environ[ATTACH_VARIABLE] = serving.token
        yield


def begin() -> None:
    """Prepare a command that serves: DependencyError without the extra, and SIGTERM ends it with 0."""
    need_server()
    share_heap()
    signal.signal(signal.SIGTERM, _end)  # until the server listens for it


def served() -> FastAPI:
    """Return the app that a worker serves, from the environment that `serve` set."""
    from perdure.frontends.server import logging as logs  # heavy, see above
    from perdure.frontends.server.app import create_app

    told = json.loads(os.environ[SERVING])
    logs.to_standard_error()
    if multiprocessing.parent_process() is not None:
        threading.Thread(target=_end_with_the_first, name="perdure-first-process", daemon=True).start()
    return create_app(serving_config(Path(told["folder"]), told["server"]))


def _end_with_the_first() -> None:
    """End this worker when its parent process is gone: a killed parent cannot notify its workers, which would keep the
    address."""
    first = multiprocessing.parent_process()
    assert first is not None
    first.join()
    os.kill(os.getpid(), signal.SIGTERM)


def serving_config(place: Path, chosen: dict[str, Any], file: Path | None = None) -> MemoryConfig:
    """Return a folder's configuration for serving: with the command's options, and a graph unless it says none.

    With a `file` its settings, instead of those in the folder.
    """
    from perdure.engine.config.config import GraphStoreConfig  # heavy, see above

    config = read_settings(place, file)
    changed: dict[str, Any] = {"server": {**config.server, **chosen}}
    if config.graph_store is None and "graph_store" not in config.model_fields_set:
        changed["graph_store"] = GraphStoreConfig()
    return config.model_copy(update=changed)


def checked(config: MemoryConfig, place: Path) -> ServerSettings:
    """Return the server's settings; ConfigError if they would serve callers that cannot be identified."""
    from perdure.frontends.server.auth.jwt import JwtVerifier
    from perdure.frontends.server.settings import ServerSecrets  # heavy, see above
    from perdure.frontends.server.settings import read_settings as read_server

    settings, secrets = read_server(config), ServerSecrets.read()
    tokens = JwtVerifier(settings.jwt, secrets)
    if secrets.jwt_secret and len(secrets.jwt_secret.get_secret_value().encode()) < _SHORTEST_SECRET:
        note(f"PERDURE_JWT_SECRET has fewer than {_SHORTEST_SECRET} bytes and can be guessed")
    if config.history.provider == "postgres" and config.graph_store and config.graph_store.provider == "sqlite":
        note("the graph is a file of this machine: other servers on the same ledger need neo4j (docs/graph.md)")
    if settings.on_loopback:
        return settings
    if not settings.allowed_hosts:
        note(
            "it answers by its address alone: names by which others ask for it go into server.allowed_hosts "
            "(PERDURE_SERVER__ALLOWED_HOSTS)"
        )
    if settings.open:
        note(f"everybody who can reach {settings.host} is served without a key, until one is made")
    elif not tokens.configured and not _has_key(place):
        raise ConfigError(
            f"{settings.host} can be reached by others, and there is no key: make one with `perdure keys create NAME`, "
            "or serve everybody with --open",
            field="server.host",
            value=settings.host,
        )
    return settings


def _has_key(place: Path) -> bool:
    """Whether a key was ever created; checking creates no memory."""
    try:
        return with_keys(place, lambda desk: desk.any())
    except NotFoundError:
        return False


def listen(settings: ServerSettings) -> tuple[socket.socket, str]:
    """Return the socket that all workers share, and its address."""
    found: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_BACKLOG)
    except OSError as error:
        if found is not None:
            found.close()
        raise PerdureError(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}") from error
    found.set_inheritable(True)
    host, port = found.getsockname()[:2]
    return found, f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run(settings: ServerSettings, listening: socket.socket, app: str | Callable[[], FastAPI]) -> None:
    """Serve the app named `app`, which workers find by it, until told to stop; PerdureError if it fails."""
    with listening:
        started = _run(settings, listening, app)
    if not started:
        raise PerdureError("the server could not start: its log says why")


def _run(settings: ServerSettings, listening: socket.socket, app: str | Callable[[], FastAPI]) -> bool:
    import uvicorn  # heavy, see above

    from perdure.frontends.server.middleware.request_limits import Config
    from perdure.frontends.server.settings import HANDLE_KEY_VARIABLE

    sys.setswitchinterval(_TURN_OF_THREAD)
    config = Config(
        app,
        request_seconds=settings.request_seconds,
        factory=True,
        workers=settings.workers,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=_KEPT_SECONDS,
        timeout_graceful_shutdown=settings.graceful_seconds,
    )
    if settings.workers > 1:
        os.environ.setdefault(
            HANDLE_KEY_VARIABLE, secrets.token_hex(32)
        )  # a handle of one worker is valid at the others
        with tempfile.TemporaryDirectory(prefix="perdure-metrics-") as counted:
            os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", counted)
            from uvicorn.config import STARTUP_FAILURE
            from uvicorn.supervisors import Multiprocess

            supervisor = Multiprocess(config, sockets=[listening])
            supervisor.run()
            return all(process.exitcode != STARTUP_FAILURE for process in supervisor.processes)
    server = uvicorn.Server(config)
    # It raises the signal again when everything is done: this handler then exits with status 0.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    server.run(sockets=[listening])
    return server.started


def _end(number: int, frame: object) -> None:
    raise SystemExit(0)


# One heap for all threads of a server.

_M_ARENA_MAX = -8  # malloc.h of the GNU C library; mallopt(3)
_VARIABLE = "MALLOC_ARENA_MAX"  # the variable that sets the number of heaps, like GLIBC_TUNABLES


def share_heap() -> None:
    """Let all threads started from now on, and those of workers, share one heap: each can reuse what another freed.

    The GNU C library gives threads their own heaps, up to eight a core, and each keeps the most that its threads ever
    had: in the first minutes of gateway_soak.py memory that was free and could not be reused grew by 3.5 MB a minute;
    with one heap it does not. Nothing is done with another library, or if a variable sets the number.
    """
    if sys.platform != "linux" or _VARIABLE in os.environ or "GLIBC_TUNABLES" in os.environ:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        os.environ[_VARIABLE] = "1"
