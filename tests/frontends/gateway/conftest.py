"""The scripted model's servers, and the gateways that stand before them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.http import upstream as upstream_module
from perdure.backends.http.upstream_aiohttp import AiohttpClient
from perdure.backends.http.upstream_httpcore import HttpcoreClient
from perdure.engine.chat.settings import GatewaySettings
from perdure.frontends.server.auth import api_keys
from tests.frontends.gateway.upstream import KEY, Upstream, upstream
from tests.frontends.server.running import Running, running

PATIENT = 20.0
"""Seconds that a request waits for memory where a test does not say: no busy machine makes it go on without."""


CLIENTS = {"aiohttp": AiohttpClient, "httpcore": HttpcoreClient}
OVER_BOTH = {
    "test_failures",
    "test_given_up",
    "test_passing",
    "test_streaming",
    "hostile.test_broken_framing",
    "hostile.test_header_bytes",
    "hostile.test_wire",
}
"""The modules of what a client of a model's server does, which go over each; the others take the one installed."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.removeprefix(f"{__package__}.") in OVER_BOTH:
        metafunc.parametrize("upstream_client", list(CLIENTS), indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def upstream_client(request: pytest.FixtureRequest) -> Iterator[None]:
    """The client with which a module's gateways ask a model's server; their fixtures of its scope name it."""
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(request, "param"):
            patch.setattr(upstream_module, "client_class", lambda: CLIENTS[request.param])
        yield


@contextmanager
def gateway_to(folder: Path, address: str, *, gateway: dict[str, Any] | None = None, **given: Any) -> Iterator[Running]:
    """A server over a folder whose model's server is at an address; `gateway` are more of its settings.

    What is said is read when a test has it so, and not because a busy machine was silent for a while.
    """
    settings = {"quiet_seconds": 0.0, **(gateway or {})}
    settings["upstream"] = {"base_url": address, "api_key": KEY, **settings.get("upstream", {})}
    patient = {} if "recall_seconds" in settings else {"recall_seconds": PATIENT}  # more than may be set
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_keys, "LOOKUP_SECONDS", PATIENT)  # else a busy machine's request goes on without memory
        with running(folder, gateway=GatewaySettings(**settings).model_copy(update=patient), **given) as found:
            yield found


def knowing(model: Upstream, gateway: dict[str, Any] | None = None) -> dict[str, Any]:
    """Settings that say whether a model's server has a Responses API.

    Else it is asked, and the question takes the answer that a test has scripted for its own first request.
    """
    settings = {**(gateway or {})}
    known = {"responses": "native" if model.responses else "translate"}
    return {**settings, "upstream": {**known, **settings.get("upstream", {})}}


@pytest.fixture(scope="module")
def model() -> Iterator[Upstream]:
    """One model's server for all tests of a module; forget what the tests before did with `model.clear()`."""
    with upstream() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(
    request: pytest.FixtureRequest, model: Upstream, upstream_client: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """One gateway for all tests of a module; its GATEWAY are settings, its SERVER arguments of `running`."""
    given = getattr(request.module, "SERVER", {})
    settings = getattr(request.module, "GATEWAY", None)
    with gateway_to(tmp_path_factory.mktemp("memory"), model.url, gateway=knowing(model, settings), **given) as found:
        yield found


@pytest.fixture
def fresh(request: pytest.FixtureRequest, model: Upstream, tmp_path: Path) -> Iterator[Running]:
    """A gateway of a test's own; indirect parameters are arguments of `gateway_to`."""
    with gateway_to(tmp_path / "memory", model.url, **getattr(request, "param", {})) as found:
        yield found


@pytest.fixture(autouse=True)
def _forgetful(request: pytest.FixtureRequest) -> None:
    """Each test finds a model's server that was asked nothing."""
    if "model" in request.fixturenames or "gateway" in request.fixturenames or "fresh" in request.fixturenames:
        request.getfixturevalue("model").clear()


@pytest.fixture
def who() -> str:
    """A user of a test's own, on a gateway that it shares."""
    return f"user-{uuid.uuid4()}"
